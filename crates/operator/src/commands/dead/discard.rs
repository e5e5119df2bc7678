use crate::dead::{DiscardReview, LetterError, LetterProgress, LetterReport, discard};
use crate::steer::Author;
use indicatif::ProgressBar;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::format::counted;

use super::act::{Ports, carry_out, only_show, selected};
use super::args::ActionArgs;
use crate::shell::{CommandEnd, CommandError, Shell};

pub(super) async fn run(
    args: &ActionArgs,
    stack: &Stack,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let Some((filter, reading)) = selected(args, stack, shell).await? else {
        return Ok(CommandEnd::Interrupted);
    };
    let reviewed = DiscardReview::of(&reading, &filter, shell.output.addresses());
    if !args.go || reviewed.letters() == 0 {
        let said = "Nothing was deleted; --go with --reason deletes them. tidegate dead export keeps a copy.";
        return only_show(&reviewed, said, shell);
    }
    shell.output.say_view(&reviewed);
    let question = format!("Delete {} for good?", counted(reviewed.letters(), "dead letter"));
    let work = async |ports: &Ports<'_>, author: &Author, bar: &ProgressBar| {
        delete(&reviewed, ports, author, shell, bar).await
    };
    carry_out(args, stack, shell, &question, "discarded", work).await
}

/// Deletes the letters of the review.
pub(super) async fn delete(
    reviewed: &DiscardReview,
    ports: &Ports<'_>,
    author: &Author,
    shell: &Shell,
    bar: &ProgressBar,
) -> Result<LetterReport, LetterError> {
    let progress = |done: LetterProgress| {
        bar.set_length(done.of);
        bar.set_position(done.done);
    };
    discard(ports, reviewed, author, shell.interrupted(), progress).await
}
