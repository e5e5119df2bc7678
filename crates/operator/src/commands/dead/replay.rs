use std::collections::BTreeMap;

use crate::dead::{
    Corrections, LetterFilter, LetterProgress, LetterSnapshot, ReplayPace, Review, ReviewOptions,
    replay, review,
};
use crate::page::{Page, Tone};
use crate::send::InputFault;
use crate::status;
use crate::status::Status;
use crate::steer::Author;
use indicatif::ProgressBar;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::config::EXPRESS;
use tidegate_core::format::{count, counted, rate, span};
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{Clock as _, QueueUrl};

use super::act::{Ports, carry_out, only_show, selected};
use super::args::{DeadEditArgs, DeadReplayArgs};
use super::read;
use crate::shell::{CommandEnd, CommandError, Shell, open_file};

/// The part of the rate in force that a replay uses unless `--rate` is given.
const SHARE: f64 = 0.5;
/// Mails a second where no rate is known.
const SLOW: f64 = 1.0;

pub(super) async fn run(
    args: &DeadReplayArgs,
    stack: &Stack,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let Some((filter, reading)) = selected(&args.action, stack, shell).await? else {
        return Ok(CommandEnd::Interrupted);
    };
    replayed(args, filter, &reading, stack, shell).await
}

/// Replays the letters of a file, with the bodies that stand there.
pub(super) async fn edited(
    args: &DeadEditArgs,
    stack: &Stack,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let file = args.file.display().to_string();
    let refused = |fault: Box<InputFault>| CommandError::Input(fault.to_string());
    let corrections = Corrections::read(&file, open_file(&args.file)?).map_err(refused)?;
    let action = &args.replay.action;
    let reading = read(stack, action.limit(), shell).await?;
    if reading.coverage.interrupted {
        return Ok(CommandEnd::Interrupted);
    }
    let reading = corrections.applied(&file, reading).map_err(refused)?;
    let missing = corrections.len().saturating_sub(reading.letters.len()) as u64;
    if missing > 0 {
        let mut page = Page::default();
        let said =
            format!("{} of the file not on the queue (any more)", counted(missing, "letter"));
        page.line(Tone::Warning, said);
        shell.output.say(&page);
    }
    let filter = action.filter(EpochMillis::from(stack.clock().wall()));
    replayed(&args.replay, filter, &reading, stack, shell).await
}

async fn replayed(
    args: &DeadReplayArgs,
    filter: LetterFilter,
    reading: &LetterSnapshot,
    stack: &Stack,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let options = options(args, filter, stack).await?;
    let reviewed = review(reading, &options, &stack.ledger(), stack.clock().wall()).await?;
    if !args.action.go || reviewed.to_send() == 0 && reviewed.deletions.is_empty() {
        return only_show(&reviewed, "Nothing was sent; --go with --reason sends them.", shell);
    }
    shell.output.say_view(&reviewed);
    let pace = pace(args, stack, shell).await?;
    let work = async |ports: &Ports<'_>, author: &Author, bar: &ProgressBar| {
        let progress = |done: LetterProgress| {
            bar.set_length(done.of);
            bar.set_position(done.done);
            let waits = "replayed (waits for a campaign's queue to shrink)";
            bar.set_message(if done.waits { waits } else { "replayed" });
        };
        replay(ports, &reviewed, author, pace, shell.interrupted(), progress).await
    };
    let question = question(&reviewed, pace);
    carry_out(&args.action, stack, shell, &question, "replayed", work).await
}

async fn options(
    args: &DeadReplayArgs,
    filter: LetterFilter,
    stack: &Stack,
) -> Result<ReviewOptions, CommandError> {
    let (_, campaigns) = stack.standing().await?;
    let mut campaign_queues: BTreeMap<String, QueueUrl> = campaigns
        .iter()
        .map(|campaign| (campaign.name.clone(), QueueUrl::new(campaign.queue_url.as_str())))
        .collect();
    campaign_queues.extend(stack.express().map(|queue| (EXPRESS.to_owned(), queue)));
    Ok(ReviewOptions {
        filter,
        include_unknown: args.include_unknown,
        drop_sent: args.pace.drop_sent,
        campaign_queues,
        rules: stack.poller.rules.clone(),
        deduplication: stack.poller.deduplication,
    })
}

async fn pace(
    args: &DeadReplayArgs,
    stack: &Stack,
    shell: &Shell,
) -> Result<ReplayPace, CommandError> {
    let per_second = match args.pace.rate {
        Some(rate) => rate.as_per_second(),
        None => {
            let facts = status::facts(stack, shell.output.addresses(), 0).await?;
            Status::of(&facts).quota.in_force.map_or(SLOW, |in_force| in_force * SHARE)
        }
    };
    Ok(ReplayPace { per_second, backlog: args.pace.backlog })
}

fn question(reviewed: &Review, pace: ReplayPace) -> String {
    let mails = reviewed.to_send();
    #[expect(clippy::cast_precision_loss, reason = "a count of mails, far below 2^52")]
    let seconds = std::time::Duration::try_from_secs_f64(mails as f64 / pace.per_second);
    let takes = seconds.map(span).unwrap_or_default();
    let drops = reviewed.deletions.len() as u64;
    let also = if drops > 0 {
        format!(", and delete {} that were sent", count(drops))
    } else {
        String::new()
    };
    format!("Send {} mails at {}, in about {takes}{also}?", count(mails), rate(pace.per_second))
}
