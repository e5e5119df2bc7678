//! Runs `tidegate dead`: reads the dead-letter queue, and lists, groups, shows, exports, replays or
//! discards what it holds.

use std::fs::File;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tidegate_adapters::aws::stack::Stack;
use tidegate_adapters::aws::{DynamoLedger, SqsQueues, SystemClock};
use tidegate_core::config::EXPRESS;
use tidegate_core::format::{count, counted, rate, span};
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{Clock as _, QueueUrl};

use super::args::{ActionArgs, DeadArgs, DeadCommand, DeadReplayArgs};
use super::{
    Corrections, DiscardReview, ExportReport, Grouping, LetterError, LetterFilter, LetterPorts,
    LetterProgress, LetterReport, LetterSnapshot, ReadProgress, ReplayPace, Review, ReviewOptions,
    discard, export, groups, list, replay, review, show,
};
use crate::page::{Tone, View};
use crate::shell::{CommandEnd, CommandError, Shell, open_file, stop_unless_confirmed};
use crate::status::{self, Status};
use crate::steer::Author;

/// The most letters that are read at once.
pub(crate) const MOST_LETTERS: u32 = 100_000;
/// The part of the rate in force that a replay uses unless `--rate` is given.
const SHARE: f64 = 0.5;
/// Mails a second where no rate is known.
const SLOW: f64 = 1.0;

type Ports<'a> = LetterPorts<'a, SqsQueues, DynamoLedger, SystemClock>;

pub(crate) async fn run(args: &DeadArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let now = EpochMillis::from(stack.clock().wall());
    let filter = args.filter(now);
    let mut corrections = Corrections::default();
    match &args.command {
        Some(DeadCommand::Replay(args)) => args.action.filter.check()?,
        Some(DeadCommand::Discard(args)) => args.action.filter.check()?,
        // What is wrong with a file is said before the queue is read.
        Some(DeadCommand::Edit(args)) => {
            let read = Corrections::read(&args.file.display().to_string(), open_file(&args.file)?);
            corrections = read.map_err(|fault| CommandError::Input(fault.to_string()))?;
        }
        _ => {}
    }
    let reading = read(&stack, args.limit, shell).await?;
    let interrupted = reading.coverage.interrupted;
    let addresses = shell.output.addresses();
    match &args.command {
        None => shell.show(&groups(&reading, &filter, Grouping::Reason, addresses))?,
        Some(DeadCommand::List(_)) => shell.show(&list(&reading, &filter, now, addresses))?,
        Some(DeadCommand::Groups(args)) => {
            shell.show(&groups(&reading, &filter, args.by, addresses))?;
        }
        Some(DeadCommand::Show(args)) => {
            let found = show(&reading, &args.id, now, addresses, args.body);
            shell.show(&found)?;
            if found.is_empty() {
                let whole = reading.coverage.is_whole();
                let whole = if whole { "" } else { ", of which not all could be read" };
                let said = format!("{} is not on the dead-letter queue{whole}.", args.id);
                shell.output.remark(Tone::Warning, said);
                return Ok(CommandEnd::ProblemsFound);
            }
        }
        Some(DeadCommand::Export(args)) => {
            let file = create(&args.file)?;
            shell.show(&written(&args.file, file, &reading, &filter, now, !args.masked)?)?;
        }
        _ if interrupted => {}
        Some(DeadCommand::Replay(args)) => {
            return replayed(args, filter, &reading, &stack, shell).await;
        }
        Some(DeadCommand::Edit(args)) => {
            let reading = edited(&args.file, &corrections, reading, shell)?;
            return replayed(&args.replay, filter, &reading, &stack, shell).await;
        }
        Some(DeadCommand::Discard(args)) => {
            return discarded(&args.action, &filter, &reading, &stack, shell).await;
        }
    }
    Ok(if interrupted { CommandEnd::Interrupted } else { CommandEnd::Done })
}

/// Reads the dead-letter queue, with its progress on a terminal.
pub(crate) async fn read(
    stack: &Stack,
    limit: u32,
    shell: &Shell,
) -> Result<LetterSnapshot, CommandError> {
    let bar = bar(shell, "dead letters read");
    let progress = |progress: ReadProgress| {
        bar.set_length(progress.of);
        bar.set_position(progress.read);
    };
    let (queues, clock, queue) = (stack.queues(), stack.clock(), stack.dead_letter());
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let reading = super::read(&queues, &clock, &queue, limit, shell.interrupted(), progress).await;
    bar.finish_and_clear();
    Ok(reading?)
}

/// A progress bar on standard error, where that is a terminal.
fn bar(shell: &Shell, of: &'static str) -> ProgressBar {
    if !shell.output.shows_progress() || shell.output.is_json() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0).with_message(of);
    let style = ProgressStyle::with_template("{wide_bar} {pos} of about {len} {msg}");
    style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style))
}

/// A new file that its owner alone can read: it holds addresses.
pub(crate) fn create(path: &Path) -> Result<File, CommandError> {
    let made = File::options().write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|source| CommandError::File {
        path: path.to_owned(),
        doing: "it cannot be made (a file that is there is not overwritten)",
        source,
    })
}

/// Writes the letters to the file, through to the disk.
fn written(
    path: &Path,
    file: File,
    reading: &LetterSnapshot,
    filter: &LetterFilter,
    now: EpochMillis,
    whole: bool,
) -> Result<ExportReport, CommandError> {
    let mut to = BufWriter::new(file);
    let exported = export(reading, filter, now, whole, &mut to);
    let exported = exported.and_then(|exported| to.get_ref().sync_all().map(|()| exported));
    exported.map_err(|source| CommandError::File {
        path: path.to_owned(),
        doing: "it cannot be written",
        source,
    })
}

/// Moves the letters that `filter` admits from the queue into the file.
pub(crate) async fn export_and_discard(
    path: &Path,
    file: File,
    filter: &LetterFilter,
    stack: &Stack,
    author: &Author,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let reading = read(stack, MOST_LETTERS, shell).await?;
    let now = EpochMillis::from(stack.clock().wall());
    let exported = written(path, file, &reading, filter, now, true)?;
    shell.output.say_view(&exported);
    let review = DiscardReview::of(&reading, filter, shell.output.addresses());
    let ended = discard_reviewed(&review, stack, author, shell).await?;
    Ok(if reading.coverage.is_whole() { ended } else { CommandEnd::ProblemsFound })
}

async fn discarded(
    args: &ActionArgs,
    filter: &LetterFilter,
    reading: &LetterSnapshot,
    stack: &Stack,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let reviewed = DiscardReview::of(reading, filter, shell.output.addresses());
    if !args.go || reviewed.letters() == 0 {
        let said = "Nothing was deleted; --go with --reason deletes them. tidegate dead export keeps a copy.";
        return only_show(&reviewed, said, shell);
    }
    shell.output.say_view(&reviewed);
    let question = format!("Delete {} for good?", counted(reviewed.letters(), "dead letter"));
    match confirmed(args, stack, shell, &question).await? {
        Ok(author) => discard_reviewed(&reviewed, stack, &author, shell).await,
        Err(ended) => Ok(ended),
    }
}

/// Deletes the letters of a review, and shows the report.
pub(crate) async fn discard_reviewed(
    review: &DiscardReview,
    stack: &Stack,
    author: &Author,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let work = async |ports: &Ports<'_>, bar: &ProgressBar| {
        discard(ports, review, author, shell.interrupted(), |done| advance(bar, done)).await
    };
    act(stack, shell, "discarded", work).await
}

/// The letters of a file, with the bodies that stand there.
fn edited(
    path: &Path,
    corrections: &Corrections,
    reading: LetterSnapshot,
    shell: &Shell,
) -> Result<LetterSnapshot, CommandError> {
    let applied = corrections.applied(&path.display().to_string(), reading);
    let reading = applied.map_err(|fault| CommandError::Input(fault.to_string()))?;
    let missing = corrections.len().saturating_sub(reading.letters.len()) as u64;
    if missing > 0 {
        let letters = counted(missing, "letter");
        let said = format!("{letters} of the file not on the queue (any more)");
        shell.output.remark(Tone::Warning, said);
    }
    Ok(reading)
}

async fn replayed(
    args: &DeadReplayArgs,
    filter: LetterFilter,
    reading: &LetterSnapshot,
    stack: &Stack,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let (_, campaigns) = stack.standing().await?;
    let queues = campaigns.iter().map(|campaign| (campaign.name.clone(), &campaign.queue_url));
    let queues = queues.map(|(name, url)| (name, QueueUrl::new(url.as_str())));
    let express = stack.express().map(|queue| (EXPRESS.to_owned(), queue));
    let options = ReviewOptions {
        filter,
        include_unknown: args.include_unknown,
        drop_sent: args.pace.drop_sent,
        campaign_queues: queues.chain(express).collect(),
        rules: stack.poller.rules.clone(),
        deduplication: stack.poller.deduplication,
    };
    let reviewed = review(reading, &options, &stack.ledger(), stack.clock().wall()).await?;
    if !args.action.go || reviewed.to_send() == 0 && reviewed.deletions.is_empty() {
        return only_show(&reviewed, "Nothing was sent; --go with --reason sends them.", shell);
    }
    shell.output.say_view(&reviewed);
    let per_second = match args.pace.rate {
        Some(rate) => rate.as_per_second(),
        None => {
            let facts = status::facts(stack, shell.output.addresses(), 0).await?;
            Status::of(&facts).quota.in_force.map_or(SLOW, |in_force| in_force * SHARE)
        }
    };
    let author =
        match confirmed(&args.action, stack, shell, &question(&reviewed, per_second)).await? {
            Ok(author) => author,
            Err(ended) => return Ok(ended),
        };
    let pace = ReplayPace { per_second, backlog: args.pace.backlog };
    let work = async |ports: &Ports<'_>, bar: &ProgressBar| {
        let progress = |done: LetterProgress| {
            let waits = "replayed (waits for a campaign's queue to shrink)";
            bar.set_message(if done.waits { waits } else { "replayed" });
            advance(bar, done);
        };
        replay(ports, &reviewed, &author, pace, shell.interrupted(), progress).await
    };
    act(stack, shell, "replayed", work).await
}

fn question(reviewed: &Review, per_second: f64) -> String {
    let mails = reviewed.to_send();
    #[expect(clippy::cast_precision_loss, reason = "a count of mails, far below 2^52")]
    let seconds = Duration::try_from_secs_f64(mails as f64 / per_second);
    let takes = seconds.map(span).unwrap_or_default();
    let drops = reviewed.deletions.len() as u64;
    let also = if drops > 0 {
        format!(", and delete {} that were sent", count(drops))
    } else {
        String::new()
    };
    format!("Send {} mails at {}, in about {takes}{also}?", count(mails), rate(per_second))
}

/// Shows a review of which nothing is done: there is nothing to do, or `--go` is not given.
fn only_show(
    review: &(impl Serialize + View),
    said: &str,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    shell.show(review)?;
    shell.output.remark(Tone::Faint, said);
    Ok(CommandEnd::Done)
}

/// Asks `question`: who does it and why, or the end of the command if it is not confirmed.
async fn confirmed(
    args: &ActionArgs,
    stack: &Stack,
    shell: &Shell,
    question: &str,
) -> Result<Result<Author, CommandEnd>, CommandError> {
    if let Some(ended) = stop_unless_confirmed(args.ask, shell, question).await? {
        return Ok(Err(ended));
    }
    let by = match &args.by {
        Some(by) => by.clone(),
        None => stack.operator().await,
    };
    Ok(Ok(Author { by, reason: args.reason.clone().unwrap_or_default() }))
}

fn advance(bar: &ProgressBar, done: LetterProgress) {
    bar.set_length(done.of);
    bar.set_position(done.done);
}

/// Does `work`, with a progress bar that says `doing`, and shows the report.
async fn act(
    stack: &Stack,
    shell: &Shell,
    doing: &'static str,
    work: impl AsyncFnOnce(&Ports<'_>, &ProgressBar) -> Result<LetterReport, LetterError>,
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
    let ended = work(&ports, &bar).await;
    bar.finish_and_clear();
    let report = ended.map_err(|error| match error {
        LetterError::Reason(_) | LetterError::Rate(_) => CommandError::Refused(error.into()),
        _ => {
            // If part is done, the report of it is printed before the error. If standard output fails, too, the error
            // still has the numbers.
            if let LetterError::Broken { report, .. } = &error {
                let _ = shell.output.show(report.as_ref());
            }
            CommandError::Unfinished(error.into())
        }
    })?;
    shell.show(&report)?;
    Ok(match report {
        report if report.interrupted => CommandEnd::Interrupted,
        report if report.is_whole() => CommandEnd::Done,
        _ => CommandEnd::ProblemsFound,
    })
}
