//! Runs `tidegate dead`: reads the dead-letter queue, and lists, groups, shows, exports, replays or
//! discards what it holds.

use std::fs::File;
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::format::{count, counted, rate, span};
use tidegate_core::number::real;
use tidegate_delivery::ports::Clock as _;

use super::args::{ActionArgs, DeadArgs, DeadCommand, DeadReplayArgs};
use super::{
    Corrections, DiscardReview, ExportReport, Grouping, LetterError, LetterFilter, LetterPorts,
    LetterProgress, LetterSnapshot, LetterWork, ReplayPace, Review, ReviewOptions, carry_out,
    export, groups, list, review, show,
};
use crate::page::{Tone, View};
use crate::send::{InputFault, MailProgressBar};
use crate::shell::{
    CommandEnd, CommandError, CommandResult, Shell, open_file, stop_unless_confirmed,
};
use crate::status::{self, Status};
use crate::steer::Author;
use crate::steer::command::author_by;

/// The most letters that are read at once.
pub(crate) const MOST_LETTERS: u32 = 100_000;

/// A command on the dead letters, once they are read.
struct LetterCommand<'a> {
    stack: &'a Stack,
    shell: &'a Shell,
    filter: LetterFilter,
    reading: LetterSnapshot,
}

pub(crate) async fn run(args: &DeadArgs, shell: &Shell) -> CommandResult {
    let filter = args.filter()?;
    // What is wrong with a file is said before the queue is read.
    let corrections = match &args.command {
        Some(DeadCommand::Edit(args)) => {
            let file = args.file.display().to_string();
            Some(refusable(Corrections::read(&file, open_file(&args.file)?))?)
        }
        _ => None,
    };
    let stack = args.on.stack.open().await?;
    let mut reading = read(&stack, args.limit, shell).await?;
    if let Some(corrections) = corrections.filter(|_| !reading.coverage.interrupted) {
        let missing = refusable(corrections.apply(&mut reading))?;
        if missing > 0 {
            let letters = counted(missing, "letter");
            let said = format!("{letters} of the file not on the queue (any more)");
            shell.output.remark(Tone::Warning, said);
        }
    }
    LetterCommand { stack: &stack, shell, filter, reading }.run(args.command.as_ref()).await
}

fn refusable<T>(result: Result<T, Box<InputFault>>) -> CommandResult<T> {
    result.map_err(|fault| CommandError::Input(fault.to_string()))
}

impl LetterCommand<'_> {
    async fn run(&self, command: Option<&DeadCommand>) -> CommandResult {
        let Self { shell, filter, reading, .. } = self;
        let (now, addresses) = (self.stack.clock().wall().into(), shell.output.addresses());
        let interrupted = reading.coverage.interrupted;
        match command {
            None => shell.show(&groups(reading, filter, Grouping::Reason, addresses))?,
            Some(DeadCommand::List(_)) => shell.show(&list(reading, filter, now, addresses))?,
            Some(DeadCommand::Groups { by, .. }) => {
                shell.show(&groups(reading, filter, *by, addresses))?;
            }
            Some(DeadCommand::Show { id, body }) => {
                let found = show(reading, id, now, addresses, *body);
                shell.show(&found)?;
                if found.is_empty() {
                    let whole = reading.coverage.is_whole();
                    let whole = if whole { "" } else { ", of which not all could be read" };
                    let said = format!("{id} is not on the dead-letter queue{whole}.");
                    shell.output.remark(Tone::Warning, said);
                    return Ok(CommandEnd::ProblemsFound);
                }
            }
            Some(DeadCommand::Export(args)) => {
                shell.show(&self.write(&args.file, create(&args.file)?, !args.masked)?)?;
            }
            _ if interrupted => {}
            Some(DeadCommand::Replay(args)) => return self.replay(args).await,
            Some(DeadCommand::Edit(args)) => return self.replay(&args.replay).await,
            Some(DeadCommand::Discard(args)) => return self.discard(args).await,
        }
        Ok(if interrupted { CommandEnd::Interrupted } else { CommandEnd::Done })
    }

    /// Writes the letters to the file, through to the disk.
    fn write(&self, path: &Path, file: File, whole: bool) -> CommandResult<ExportReport> {
        let mut to = BufWriter::new(file);
        let now = self.stack.clock().wall().into();
        let exported = export(&self.reading, &self.filter, now, whole, &mut to);
        let exported = exported.and_then(|exported| to.get_ref().sync_all().map(|()| exported));
        exported.map_err(CommandError::of_file(path, "it cannot be written"))
    }

    fn discard_review(&self) -> DiscardReview {
        DiscardReview::of(&self.reading, &self.filter, self.shell.output.addresses())
    }

    async fn discard(&self, args: &ActionArgs) -> CommandResult {
        let reviewed = self.discard_review();
        let letters = reviewed.work.letters();
        if !args.go || letters == 0 {
            let said = "Nothing was deleted; --go with --reason deletes them. tidegate dead export keeps a copy.";
            return self.only_show(&reviewed, said);
        }
        self.shell.output.say_view(&reviewed);
        let question = format!("Delete {} for good?", counted(letters, "dead letter"));
        self.ask_and_act(args, &question, &reviewed.work, ReplayPace::UNBOUNDED).await
    }

    async fn replay(&self, args: &DeadReplayArgs) -> CommandResult {
        let Self { stack, shell, filter, reading } = self;
        let (_, campaigns) = stack.standing().await?;
        let options = ReviewOptions {
            include_unknown: args.include_unknown,
            drop_sent: args.drop_sent,
            ..ReviewOptions::of(filter.clone(), &campaigns, &stack.poller)
        };
        let reviewed = review(reading, &options, &stack.ledger(), stack.clock().wall()).await?;
        if !args.action.go || reviewed.work.letters() == 0 && reviewed.work.deletions.is_empty() {
            return self.only_show(&reviewed, "Nothing was sent; --go with --reason sends them.");
        }
        shell.output.say_view(&reviewed);
        let per_second = match args.rate {
            Some(rate) => rate.as_per_second(),
            None => {
                let facts = status::facts(stack, shell.output.addresses(), 0).await?;
                ReplayPace::usual(Status::of(&facts).quota.in_force)
            }
        };
        let pace = ReplayPace { per_second, backlog: args.backlog };
        let question = question(&reviewed, per_second);
        self.ask_and_act(&args.action, &question, &reviewed.work, pace).await
    }

    /// Shows a review of which nothing is done: there is nothing to do, or `--go` is not given.
    fn only_show(&self, review: &(impl Serialize + View), said: &str) -> CommandResult {
        self.shell.show(review)?;
        self.shell.output.remark(Tone::Faint, said);
        Ok(CommandEnd::Done)
    }

    /// Asks `question`, and does the work if it is confirmed.
    async fn ask_and_act(
        &self,
        args: &ActionArgs,
        question: &str,
        work: &LetterWork,
        pace: ReplayPace,
    ) -> CommandResult {
        if let Some(ended) = stop_unless_confirmed(args.ask, self.shell, question).await? {
            return Ok(ended);
        }
        let reason = args.reason.as_deref().unwrap_or_default();
        let author = author_by(self.stack, reason, args.by.as_ref()).await;
        act(work, &author, pace, self.stack, self.shell).await
    }
}

/// Reads the dead-letter queue, with its progress on a terminal.
pub(crate) async fn read(
    stack: &Stack,
    limit: u32,
    shell: &Shell,
) -> CommandResult<LetterSnapshot> {
    let bar = MailProgressBar::new(shell.output, 0, 0);
    let (queues, clock, queue) = (stack.queues(), stack.clock(), stack.dead_letter());
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let progress = |done: LetterProgress| bar.show(done.done, done.of, "dead letters read");
    Ok(super::read(&queues, &clock, &queue, limit, shell.interrupted(), progress).await?)
}

/// A new file that its owner alone can read: it holds addresses.
pub(crate) fn create(path: &Path) -> CommandResult<File> {
    let made = File::options().write(true).create_new(true).mode(0o600).open(path);
    let doing = "it cannot be made (a file that is there is not overwritten)";
    made.map_err(CommandError::of_file(path, doing))
}

/// Moves the letters that `filter` admits from the queue into the file.
pub(crate) async fn export_and_discard(
    path: &Path,
    file: File,
    filter: LetterFilter,
    stack: &Stack,
    author: &Author,
    shell: &Shell,
) -> CommandResult {
    let reading = read(stack, MOST_LETTERS, shell).await?;
    let letters = LetterCommand { stack, shell, filter, reading };
    shell.output.say_view(&letters.write(path, file, true)?);
    let ended =
        act(&letters.discard_review().work, author, ReplayPace::UNBOUNDED, stack, shell).await?;
    Ok(if letters.reading.coverage.is_whole() { ended } else { CommandEnd::ProblemsFound })
}

fn question(reviewed: &Review, per_second: f64) -> String {
    let mails = reviewed.work.letters();
    let seconds = Duration::try_from_secs_f64(real(mails) / per_second);
    let takes = seconds.map(span).unwrap_or_default();
    let drops = Some(reviewed.work.deletions.len() as u64).filter(|drops| *drops > 0);
    let also = drops.map(|drops| format!(", and delete {} that were sent", count(drops)));
    let also = also.unwrap_or_default();
    format!("Send {} mails at {}, in about {takes}{also}?", count(mails), rate(per_second))
}

/// Does what was reviewed, with a progress bar, and shows the report.
pub(crate) async fn act(
    work: &LetterWork,
    author: &Author,
    pace: ReplayPace,
    stack: &Stack,
    shell: &Shell,
) -> CommandResult {
    let (queues, dead_letters) = (&stack.queues(), &stack.dead_letter());
    let (ledger, clock) = (&stack.ledger(), &stack.clock());
    let ports = LetterPorts { queues, dead_letters, ledger, clock };
    let doing = format!("{}ed", work.action.into_str());
    let bar = MailProgressBar::new(shell.output, 0, 0);
    let progress = |done: LetterProgress| {
        let waits = if done.waits { " (waits for a campaign's queue to shrink)" } else { "" };
        bar.show(done.done, done.of, format!("{doing}{waits}"));
    };
    let ended = carry_out(&ports, work, author, pace, shell.interrupted(), progress).await;
    drop(bar);
    let report = ended.map_err(|error| match error {
        LetterError::Reason(_) | LetterError::Rate(_) => CommandError::refused(error),
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
