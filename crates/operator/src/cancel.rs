use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::config::{Campaign, EXPRESS};
use tidegate_core::control::Cancel;
use tidegate_core::format::counted;
use tidegate_core::identity::EpochMillis;
use tidegate_core::runs::{RUNS_KEPT, Run};
use tidegate_delivery::ports::{Clock as _, QueueUrl, Queues as _, Runs as _, VISIBLE_AGAIN};
use tokio::time::{Instant, sleep};

use crate::dead::LetterFilter;
use crate::dead::command::{create, export_and_discard};
use crate::doctor::clock::aws_time;
use crate::page::Tone;
use crate::shell::{
    CommandEnd, CommandError, CommandResult, ConfirmArgs, Shell, stop_unless_confirmed,
};
use crate::stack::OnStack;
use crate::steer::command::{AuthorArgs, steered};
use crate::steer::{SteerAction, SteerError};
use crate::store;
use crate::suggest::SuggestedCommand;

/// How often the ledger is asked whether the pollers are done.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A run that is being enqueued takes note of a cancel within 5 s, and then ends its batches.
const RUNS_END: Duration = Duration::from_secs(12);
/// A poller that took mail off settles it until 8.5 s after its window's close, and each call may take 2 s.
const SETTLED: Duration = Duration::from_secs(11);

/// Take back the unsent mail of a campaign
///
/// Mail that was enqueued before the end of this command is not sent, wherever it waits; it becomes dead letters with the
/// code Cancelled, or with --export a file, or with --delete nothing. Mail that is enqueued afterwards is sent. In force
/// within two seconds. A `tidegate send` that is still enqueuing ends within five. The campaign is held (`cancelled`) until
/// the pollers have taken the mail off its queue, about 500 mails a second. Mail that could not be received then is
/// taken out when it shows up: within 15 minutes if it waits for another attempt, when it comes back if it is
/// in the store.
///
/// Mail that SES has accepted cannot be taken back.
///
/// Exit codes: 0; 1 where not all could be exported; 2 wrong options; 3 the stack is out of reach; 4 not
/// confirmed; 130 interrupted.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate cancel big --reason 'wrong link'
  tidegate cancel big --reason 'wrong link' --export unsent.jsonl
  tidegate send list.csv --campaign big --template right.html --from news@example.org --rest-of list
      Sends to everybody who has not got it.")]
pub struct CancelArgs {
    /// The campaign, or `express`
    campaign: String,
    /// Write the cancelled mails to this new file, as JSON Lines, and wait for it. They pass through the dead letters
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Delete the mail for good: then nothing but deduplication's marks says who has not got it
    #[arg(long, conflicts_with = "export")]
    delete: bool,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    ask: ConfirmArgs,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(crate) async fn run(args: &CancelArgs, shell: &Shell) -> CommandResult {
    let stack = args.on.stack.open().await?;
    let question = question(args, &stack).await?;
    if let Some(ended) = stop_unless_confirmed(args.ask, shell, &question).await? {
        return Ok(ended);
    }
    let at = aws_time(&stack).await.map_err(|said| {
        let said = format!("nothing was cancelled: AWS's time is unknown: {said}");
        CommandError::Unfinished(said.into())
    })?;
    let file = args.export.as_ref().map(|path| create(path).map(|file| (path, file)));
    let file = file.transpose()?;
    let cancel = Cancel { at: at.into(), keep: !args.delete };
    let author = args.author.author(&stack).await;
    let action = SteerAction::Cancel { campaign: args.campaign.clone(), cancel };
    let report = steered(&stack, &action, &author).await.inspect_err(|_| {
        // Nothing will be exported; a second try needs the name.
        drop(args.export.as_ref().map(std::fs::remove_file));
    })?;
    match &file {
        Some(_) => shell.output.say_view(&report),
        None => shell.show(&report)?,
    }
    say_runs(args, &stack, shell).await?;
    let Some((path, file)) = file else { return Ok(CommandEnd::Done) };
    if !taken_off(&args.campaign, &stack, shell).await? {
        return Ok(CommandEnd::Interrupted);
    }
    let filter = LetterFilter::cancelled_of(&args.campaign);
    let ended = export_and_discard(path, file, filter, &stack, &author, shell).await?;
    let may_follow = may_follow(args, &stack).await?;
    if may_follow == 0 {
        return Ok(ended);
    }
    let fetch = SuggestedCommand::ExportCancelled { campaign: args.campaign.clone() };
    shell.output.remark(Tone::Warning, format!(
        "Up to {} may follow: waiting for another attempt (15 minutes at most), behind a limit (of any campaign), or in the store (deferred, or until its time). The dead letters get them as they show up; {fetch} fetches them.",
        counted(may_follow, "message")
    ));
    Ok(ended)
}

/// Waits until no run of the campaign enqueues any more, and says which of them have rows that were never enqueued.
async fn say_runs(args: &CancelArgs, stack: &Stack, shell: &Shell) -> CommandResult<()> {
    let (ledger, clock) = (stack.ledger(), stack.clock());
    let until = Instant::now() + RUNS_END;
    let runs = loop {
        let all = ledger.runs(RUNS_KEPT).await?.into_iter().map(|stored| stored.run);
        let runs: Vec<Run> = all.filter(|run| run.campaign == args.campaign).collect();
        let now = EpochMillis::from(clock.wall());
        if Instant::now() >= until || !runs.iter().any(|run| run.is_live(now)) {
            break runs;
        }
        sleep(LOOK_EVERY / 4).await;
    };
    let now = EpochMillis::from(clock.wall());
    for run in runs.iter().filter(|run| run.rest.is_empty() && run.left() > 0) {
        let (name, left) = (&run.name, counted(run.left(), "row"));
        let said = if run.is_live(now) {
            let host = &run.sender.host;
            format!(
                "Run {name} has not ended yet, on {host}: what it enqueues may be sent. {left} to go."
            )
        } else {
            let rest =
                SuggestedCommand::RestOf { campaign: run.campaign.clone(), run: name.clone() };
            format!("Of run {name}, {left} were never enqueued: {rest} sends to them, too.")
        };
        shell.output.remark(Tone::Warning, said);
    }
    Ok(())
}

/// Mails that no poller could take out yet: delayed on the campaign's queues, on limit queues, of whichever campaign, and
/// in the store.
async fn may_follow(args: &CancelArgs, stack: &Stack) -> CommandResult<u64> {
    let (queues, mut mails) = (stack.queues(), 0);
    for queue in own_queues(args, stack).await? {
        mails += queues.depth(&queue).await?.delayed;
    }
    for queue in &stack.poller.limits.queues {
        mails += queues.depth(&QueueUrl::new(queue.as_str())).await?.all();
    }
    Ok(mails + store::left_of(&args.campaign, stack).await?)
}

/// Asks with the number of mails on the campaign's queue.
async fn question(args: &CancelArgs, stack: &Stack) -> CommandResult<String> {
    let mut mails = 0;
    for queue in own_queues(args, stack).await? {
        mails += stack.queues().depth(&queue).await?.all();
    }
    let mails = counted(mails, "message");
    let then = match &args.export {
        Some(path) => format!("moves it to {}", path.display()),
        None if args.delete => "deletes it for good".to_owned(),
        None => "moves it to the dead letters".to_owned(),
    };
    let campaign = &args.campaign;
    Ok(format!(
        "Cancel what is unsent of {campaign}? About {mails} wait in its queues; this {then}."
    ))
}

/// The campaign's queues.
async fn own_queues(args: &CancelArgs, stack: &Stack) -> CommandResult<Vec<QueueUrl>> {
    let (_, campaigns) = stack.standing().await?;
    let listed = campaigns.iter().find(|campaign| campaign.name == args.campaign);
    let own = |campaign: &Campaign| campaign.queues().map(|(_, url)| QueueUrl::new(url)).collect();
    let express = || Some(vec![stack.express().filter(|_| args.campaign == EXPRESS)?]);
    listed.map(own).or_else(express).ok_or_else(|| {
        let known = campaigns.iter().map(|campaign| campaign.name.clone()).collect();
        CommandError::refused(SteerError::NoCampaign { name: args.campaign.clone(), known })
    })
}

/// Waits until the pollers have taken the mail off and settled it, and what they had received before is visible
/// again; false if interrupted.
pub(crate) async fn taken_off(campaign: &str, stack: &Stack, shell: &Shell) -> CommandResult<bool> {
    let said = "waiting until the pollers have taken the mail off the queue, a minute at least …";
    shell.output.remark(Tone::Faint, said);
    let wait = async {
        let soonest = Instant::now() + VISIBLE_AGAIN;
        loop {
            let (standing, _) = stack.standing().await?;
            let is_open = standing.control.open_cancels().any(|(name, _)| name == campaign);
            if !is_open && Instant::now() >= soonest {
                break;
            }
            sleep(LOOK_EVERY).await;
        }
        sleep(SETTLED).await;
        Ok(true)
    };
    tokio::select! {
        done = wait => done,
        () = shell.interrupted() => {
            let said = "Interrupted: the cancel stands, and the mail is among the dead letters (`tidegate dead export FILE`).";
            shell.output.remark(Tone::Warning, said);
            Ok(false)
        }
    }
}
