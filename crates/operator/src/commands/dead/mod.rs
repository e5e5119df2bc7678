//! Runs `tidegate dead`: reads the dead-letter queue, and lists, groups, shows, exports, replays or
//! discards what it holds.

mod act;
mod args;
mod discard;
mod replay;

use std::fs::File;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::dead::{
    DiscardReview, ExportReport, Grouping, LetterFilter, LetterSnapshot, ReadProgress, export,
    groups, list, show,
};
use crate::page::{Page, Tone};
use crate::steer::Author;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::Clock as _;

/// The most letters that are read at once.
pub(crate) const MOST_LETTERS: u32 = 100_000;

pub use args::DeadArgs;
use args::{DeadCommand, DeadShowArgs, ExportArgs};

use crate::shell::{CommandEnd, CommandError, Shell};

pub(super) async fn run(args: &DeadArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on().stack.open().await?;
    if let Some(DeadCommand::Replay(args)) = &args.command {
        return replay::run(args, &stack, shell).await;
    }
    if let Some(DeadCommand::Edit(args)) = &args.command {
        return replay::edited(args, &stack, shell).await;
    }
    if let Some(DeadCommand::Discard(args)) = &args.command {
        return discard::run(&args.action, &stack, shell).await;
    }
    let now = EpochMillis::from(stack.clock().wall());
    let filter = args.filter(now);
    let reading = read(&stack, args.limit(), shell).await?;
    let addresses = shell.output.addresses();
    let shown = match &args.command {
        None => shell.output.show(&groups(&reading, &filter, Grouping::Reason, addresses)),
        Some(DeadCommand::List(_)) => shell.output.show(&list(&reading, &filter, now, addresses)),
        Some(DeadCommand::Groups(args)) => {
            shell.output.show(&groups(&reading, &filter, args.by.into(), addresses))
        }
        Some(DeadCommand::Show(args)) => return shown(args, &reading, now, shell),
        Some(DeadCommand::Export(args)) => return exported(args, &reading, &filter, now, shell),
        Some(DeadCommand::Replay(_) | DeadCommand::Edit(_) | DeadCommand::Discard(_)) => Ok(()),
    };
    shown.map_err(CommandError::Terminal)?;
    Ok(ended(&reading))
}

fn ended(reading: &LetterSnapshot) -> CommandEnd {
    if reading.coverage.interrupted { CommandEnd::Interrupted } else { CommandEnd::Done }
}

fn shown(
    args: &DeadShowArgs,
    reading: &LetterSnapshot,
    now: EpochMillis,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let found = show(reading, &args.id, now, shell.output.addresses(), args.body);
    shell.output.show(&found).map_err(CommandError::Terminal)?;
    if !found.is_empty() {
        return Ok(ended(reading));
    }
    let mut page = Page::default();
    let whole = if reading.coverage.is_whole() { "" } else { ", of which not all could be read" };
    let text = format!("{} is not on the dead-letter queue{whole}.", args.id);
    page.line(Tone::Warning, text);
    shell.output.say(&page);
    Ok(CommandEnd::ProblemsFound)
}

fn exported(
    args: &ExportArgs,
    reading: &LetterSnapshot,
    filter: &LetterFilter,
    now: EpochMillis,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let file = create(&args.file)?;
    let exported = written(&args.file, file, reading, filter, now, !args.masked)?;
    shell.output.show(&exported).map_err(CommandError::Terminal)?;
    Ok(ended(reading))
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
pub(super) async fn export_and_discard(
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

/// Deletes the letters of a review, and shows the report.
pub(crate) async fn discard_reviewed(
    review: &DiscardReview,
    stack: &Stack,
    author: &Author,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let work = async |ports: &act::Ports<'_>, author: &Author, bar: &ProgressBar| {
        discard::delete(review, ports, author, shell, bar).await
    };
    act::act(stack, shell, author, "discarded", work).await
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
    let stop = shell.interrupted();
    let reading = crate::dead::read(&queues, &clock, &queue, limit, stop, progress).await;
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
