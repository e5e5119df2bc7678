use std::collections::BTreeMap;

use tidegate_aws::stack::Stack;
use tidegate_core::config::EXPRESS;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{Clock as _, QueueUrl};
use tidegate_operate::dead::{
    ReplayError, ReplayPace, ReplayPorts, ReplayProgress, ReplayReport, Review, ReviewOptions,
    replay, review,
};
use tidegate_operate::format::{count, rate, span};
use tidegate_operate::page::{Page, Tone};
use tidegate_operate::status::Status;
use tidegate_operate::steer::Author;

use super::args::DeadReplayArgs;
use super::{bar, read};
use crate::commands::{status, stop_unless_confirmed};
use crate::shell::{CommandEnd, CommandError, Shell};

/// The part of the rate in force that a replay uses unless `--rate` is given.
const SHARE: f64 = 0.5;
/// Mails a second where no rate is known.
const SLOW: f64 = 1.0;

pub(super) async fn run(
    args: &DeadReplayArgs,
    stack: &Stack,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let now = stack.clock().wall();
    let filter = args.filter(EpochMillis::from(now));
    if filter.is_empty() && !args.all {
        return Err(CommandError::Input(
            "which dead letters? name a condition (--code, --campaign, --id, …), or --all"
                .to_owned(),
        ));
    }
    let reading = read(stack, args.limit(), shell).await?;
    if reading.coverage.interrupted {
        return Ok(CommandEnd::Interrupted);
    }
    let (_, campaigns) = stack.standing().await?;
    let url = |url: &str| QueueUrl::new(url);
    let mut campaign_queues: BTreeMap<String, QueueUrl> = campaigns
        .iter()
        .map(|campaign| (campaign.name.clone(), url(&campaign.queue_url)))
        .collect();
    campaign_queues.extend(stack.express().map(|queue| (EXPRESS.to_owned(), queue)));
    let options = ReviewOptions {
        filter,
        include_unknown: args.include_unknown,
        drop_sent: args.pace.drop_sent,
        campaign_queues,
        senders: stack.poller.allowed_senders.clone(),
        deduplication: stack.poller.deduplication,
    };
    let reviewed = review(&reading, &options, &stack.ledger(), now).await?;
    if !args.go {
        shell.output.show(&reviewed).map_err(CommandError::Terminal)?;
        let mut page = Page::default();
        page.line(Tone::Faint, "Nothing was sent; --go with --reason sends them.");
        shell.output.say(&page);
        return Ok(CommandEnd::Done);
    }
    shell.output.say_view(&reviewed);
    go(args, stack, shell, &reviewed).await
}

async fn go(
    args: &DeadReplayArgs,
    stack: &Stack,
    shell: &Shell,
    reviewed: &Review,
) -> Result<CommandEnd, CommandError> {
    if reviewed.to_send() == 0 && reviewed.deletions.is_empty() {
        shell.output.show(reviewed).map_err(CommandError::Terminal)?;
        return Ok(CommandEnd::Done);
    }
    let pace = pace(args, stack, shell).await?;
    if let Some(ended) = stop_unless_confirmed(args.ask, shell, &question(reviewed, pace)).await? {
        return Ok(ended);
    }
    let by = match &args.by {
        Some(by) => by.clone(),
        None => stack.operator().await,
    };
    let author = Author { by, reason: args.reason.clone().unwrap_or_default() };
    let (queues, ledger, clock) = (stack.queues(), stack.ledger(), stack.clock());
    let dead_letters = stack.dead_letter();
    let site = ReplayPorts {
        queues: &queues,
        dead_letters: &dead_letters,
        ledger: &ledger,
        clock: &clock,
    };
    let bar = bar(shell, "replayed");
    let progress = |done: ReplayProgress| {
        bar.set_length(done.of);
        bar.set_position(done.sent);
        let waits = "replayed (waits for a campaign's queue to shrink)";
        bar.set_message(if done.waits { waits } else { "replayed" });
    };
    let ended = replay(&site, reviewed, &author, pace, shell.interrupted(), progress).await;
    bar.finish_and_clear();
    let replayed = ended.map_err(failed(shell))?;
    shell.output.show(&replayed).map_err(CommandError::Terminal)?;
    Ok(end_of(&replayed))
}

fn end_of(replayed: &ReplayReport) -> CommandEnd {
    match replayed {
        replayed if replayed.interrupted => CommandEnd::Interrupted,
        replayed if replayed.is_whole() => CommandEnd::Done,
        _ => CommandEnd::ProblemsFound,
    }
}

/// Maps a replay's error to a command's. If part of the replay is done, its report is printed
/// before the error.
fn failed(shell: &Shell) -> impl Fn(ReplayError) -> CommandError {
    |error| match error {
        ReplayError::Reason(_) | ReplayError::Rate(_) => CommandError::Refused(error.into()),
        ReplayError::Broken { report: ref replayed, .. } => {
            // If standard output fails, too, the error still has the numbers.
            let _ = shell.output.show(replayed.as_ref());
            CommandError::Unfinished(error.into())
        }
        ReplayError::NotRecorded(_) => CommandError::Unfinished(error.into()),
    }
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
