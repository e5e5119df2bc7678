use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::UNIX_EPOCH;

use crate::reconcile::{
    AccountVerdict, DeadLetters, JournalSource, ReconcileError, ReconcilePorts,
    StackSettings as Reconciled, reconcile,
};
use crate::send::{JournalError, JournalReader};
use crate::status;
use crate::status::Status;
use crate::{dead, deferral};
use clap::Args;
use futures_util::future::{Either, select};
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::PortError;

use crate::commands::OnStack;
use crate::send::MailProgressBar;
use crate::shell::{CommandEnd, CommandError, Shell, open_file};

/// Dead letters that are read; each is held in memory, with its mail.
const MOST_DEAD: usize = 100_000;

/// Account for what was sent: enqueued = sent + waiting + retrying + deferred + dead + cancelled + excluded + unknown
///
/// The journals of `tidegate send` tell which mails were enqueued. With deduplication each mail is looked
/// up. Without it the ledger's counters are compared, with a tolerance, because SQS's counts are
/// approximate; the report says so.
///
/// Exit code: 0 every mail is accounted for, within the tolerance; 1 there is a difference; 2 a
/// journal is none of this stack's; 3 a service or a file failed; 5 the tolerance covers all mails of a
/// campaign, so nothing is proved.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate reconcile                                all journals in .tidegate
  tidegate reconcile --campaign big
  tidegate reconcile .tidegate/big-november.journal --json | jq .accounts[].difference")]
pub struct ReconcileArgs {
    /// The journals, or folders of journals [default: all in .tidegate]
    #[arg(value_name = "JOURNAL")]
    journals: Vec<PathBuf>,
    /// Only the runs of this campaign
    #[arg(long, value_name = "NAME")]
    campaign: Option<String>,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

/// A journal that `tidegate send` wrote, read from a file.
struct JournalPath(PathBuf);

impl JournalSource for JournalPath {
    fn path(&self) -> String {
        self.0.display().to_string()
    }

    fn open(&self) -> io::Result<impl BufRead> {
        File::open(&self.0).map(BufReader::new)
    }

    fn modified_at(&self) -> io::Result<EpochMillis> {
        let since = self.0.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(EpochMillis::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
    }
}

pub(crate) async fn run(args: &ReconcileArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let (journals, mails) = journals(args)?;
    let stack = args.on.stack.open().await?;
    let facts = status::facts(&stack, shell.output.addresses(), 0).await?;
    let quota_per_second = Status::of(&facts).quota.in_force;
    let reconciled = Reconciled {
        campaigns: facts.campaigns,
        shared: stack.shared_queues(),
        deduplication: stack.poller.deduplication,
        mark_retention: stack.poller.mark_kept,
        quota_per_second,
    };
    let (queues, ledger, clock) = (stack.queues(), stack.ledger(), stack.clock());
    let ports = ReconcilePorts { queues: &queues, ledger: &ledger, clock: &clock };
    let bar = MailProgressBar::new(shell.output, mails, 0);
    // Until the letters are visible again an interruption is the reading's own.
    let reading = Cell::new(true);
    let dead = async {
        let dead = dead_letters(&stack, shell).await;
        reading.set(false);
        dead
    };
    let interrupted = async {
        shell.interrupted().await;
        while reading.get() {
            shell.interrupted().await;
        }
    };
    let deferred = deferred_mails(&stack);
    let report = reconcile(ports, &reconciled, &journals, deferred, dead, |more| bar.add(more));
    let report = match select(pin!(report), pin!(interrupted)).await {
        Either::Left((report, _)) => report,
        Either::Right(_) => Err(ReconcileError::Interrupted),
    };
    let report = match report {
        Ok(report) => report,
        Err(ReconcileError::Interrupted) => return Ok(CommandEnd::Interrupted),
        Err(ReconcileError::Port(error)) => return Err(CommandError::Service(error)),
        Err(error @ ReconcileError::Stranger { .. }) => {
            return Err(CommandError::Refused(error.into()));
        }
        Err(error) => return Err(CommandError::Unfinished(error.into())),
    };
    drop(bar);
    shell.output.show(&report).map_err(CommandError::Terminal)?;
    Ok(match report.verdict() {
        AccountVerdict::Balanced => CommandEnd::Done,
        AccountVerdict::Unproven => CommandEnd::Unproven,
        AccountVerdict::Difference => CommandEnd::ProblemsFound,
    })
}

/// The journals that are meant, and how many rows their inputs have.
fn journals(args: &ReconcileArgs) -> Result<(Vec<JournalPath>, u64), CommandError> {
    let folder = Path::new(".tidegate");
    let mut paths = if args.journals.is_empty() { journals_in(folder)? } else { Vec::new() };
    for path in &args.journals {
        if path.is_dir() {
            paths.extend(journals_in(path)?);
        } else {
            paths.push(path.clone());
        }
    }
    let (mut journals, mut rows) = (Vec::new(), 0);
    for path in paths {
        let shown = path.display().to_string();
        let file = open_file(&path)?;
        let records = JournalReader::new(&shown, BufReader::new(file)).map_err(unusable)?;
        let Some(header) = &records.contents().header else {
            if args.journals.is_empty() {
                continue;
            }
            let said = format!("{shown} is an empty journal: its run enqueued nothing");
            return Err(CommandError::Input(said));
        };
        if args.campaign.as_ref().is_none_or(|asked| *asked == header.campaign) {
            rows += header.rows;
            journals.push(JournalPath(path));
        }
    }
    if journals.is_empty() {
        let of =
            args.campaign.as_ref().map_or_else(String::new, |name| format!(" of campaign {name}"));
        let place = if args.journals.is_empty() { " in .tidegate" } else { "" };
        let said = format!("there is no journal{of}{place}: name those that tidegate send wrote");
        return Err(CommandError::Input(said));
    }
    Ok((journals, rows))
}

fn unusable(error: JournalError) -> CommandError {
    CommandError::Refused(error.into())
}

pub(crate) fn journals_in(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let failed = |source| CommandError::File {
        path: folder.to_owned(),
        doing: "has no journals that can be listed",
        source,
    };
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<io::Result<_>>().map_err(failed)?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "journal"));
    paths.sort();
    Ok(paths)
}

/// The deferred mails by campaign; none where deferral is off.
async fn deferred_mails(stack: &Stack) -> Result<BTreeMap<String, u64>, PortError> {
    match stack.deferral() {
        Some(location) => deferral::left(&stack.clients().deferral(location)).await,
        None => Ok(BTreeMap::new()),
    }
}

/// The mails on the dead-letter queue: read, and made visible again.
async fn dead_letters(stack: &Stack, shell: &Shell) -> Result<DeadLetters, PortError> {
    let (queues, clock, queue) = (stack.queues(), stack.clock(), stack.dead_letter());
    let stop = shell.interrupted();
    let reading = dead::read(&queues, &clock, &queue, MOST_DEAD, stop, |_| {}).await?;
    Ok(DeadLetters::from(&reading))
}
