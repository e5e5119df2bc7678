//! The frame of every command that changes dead letters: which letters, the question, who and why, the
//! report.

use crate::dead::{LetterError, LetterFilter, LetterPorts, LetterReport, LetterSnapshot};
use crate::page::{Page, Tone, View};
use crate::steer::Author;
use indicatif::ProgressBar;
use serde::Serialize;
use tidegate_adapters::aws::stack::Stack;
use tidegate_adapters::aws::{DynamoLedger, SqsQueues, SystemClock};
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::Clock as _;

use super::args::ActionArgs;
use super::{bar, read};
use crate::shell::stop_unless_confirmed;
use crate::shell::{CommandEnd, CommandError, Shell};

pub(super) type Ports<'a> = LetterPorts<'a, SqsQueues, DynamoLedger, SystemClock>;

/// The conditions, and the letters on the queue; none if reading was interrupted.
pub(super) async fn selected(
    args: &ActionArgs,
    stack: &Stack,
    shell: &Shell,
) -> Result<Option<(LetterFilter, LetterSnapshot)>, CommandError> {
    let filter = args.filter(EpochMillis::from(stack.clock().wall()));
    if filter.is_empty() && !args.filter.all {
        let said = "which dead letters? name a condition (--code, --campaign, --id, …), or --all";
        return Err(CommandError::Input(said.to_owned()));
    }
    let reading = read(stack, args.limit(), shell).await?;
    Ok((!reading.coverage.interrupted).then_some((filter, reading)))
}

/// Shows a review of which nothing is done: there is nothing to do, or `--go` is not given.
pub(super) fn only_show(
    review: &(impl Serialize + View),
    said: &str,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    shell.output.show(review).map_err(CommandError::Terminal)?;
    let mut page = Page::default();
    page.line(Tone::Faint, said);
    shell.output.say(&page);
    Ok(CommandEnd::Done)
}

/// Asks `question`, and does `work`.
pub(super) async fn carry_out(
    args: &ActionArgs,
    stack: &Stack,
    shell: &Shell,
    question: &str,
    doing: &'static str,
    work: impl AsyncFnOnce(&Ports<'_>, &Author, &ProgressBar) -> Result<LetterReport, LetterError>,
) -> Result<CommandEnd, CommandError> {
    if let Some(ended) = stop_unless_confirmed(args.ask, shell, question).await? {
        return Ok(ended);
    }
    let by = match &args.by {
        Some(by) => by.clone(),
        None => stack.operator().await,
    };
    let author = Author { by, reason: args.reason.clone().unwrap_or_default() };
    act(stack, shell, &author, doing, work).await
}

/// Does `work` as `author`, with a progress bar that says `doing`, and shows the report.
pub(super) async fn act(
    stack: &Stack,
    shell: &Shell,
    author: &Author,
    doing: &'static str,
    work: impl AsyncFnOnce(&Ports<'_>, &Author, &ProgressBar) -> Result<LetterReport, LetterError>,
) -> Result<CommandEnd, CommandError> {
    let (queues, ledger, clock) = (stack.queues(), stack.ledger(), stack.clock());
    let dead_letters = stack.dead_letter();
    let ports = LetterPorts {
        queues: &queues,
        dead_letters: &dead_letters,
        ledger: &ledger,
        clock: &clock,
    };
    let bar = bar(shell, doing);
    let ended = work(&ports, author, &bar).await;
    bar.finish_and_clear();
    let report = ended.map_err(|error| failed(error, shell))?;
    shell.output.show(&report).map_err(CommandError::Terminal)?;
    Ok(match report {
        report if report.interrupted => CommandEnd::Interrupted,
        report if report.is_whole() => CommandEnd::Done,
        _ => CommandEnd::ProblemsFound,
    })
}

/// If part is done, the report of it is printed before the error.
fn failed(error: LetterError, shell: &Shell) -> CommandError {
    match error {
        LetterError::Reason(_) | LetterError::Rate(_) => CommandError::Refused(error.into()),
        LetterError::Broken { ref report, .. } => {
            // If standard output fails, too, the error still has the numbers.
            let _ = shell.output.show(report.as_ref());
            CommandError::Unfinished(error.into())
        }
        LetterError::NotRecorded(_) | LetterError::NotReturned(_) => {
            CommandError::Unfinished(error.into())
        }
    }
}
