use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::path::PathBuf;
use std::time::Duration;

use crate::results::{
    COLUMNS, ResultsError, ResultsReport, RowStatus, RunFacts, RunJournal, dead_mails, results,
};
use crate::status::Status;
use crate::status::facts as facts_of_stack;
use crate::suppression::suppressed;
use crate::{deferral, exclude};
use clap::Args;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::channel::Channel;
use tidegate_core::counters::{Counter, at_least_0};
use tidegate_core::deduplication::Deduplication;
use tidegate_core::exclusions::ExclusionList;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{Clock as _, QueueUrl, Queues as _};

use super::OnStack;
use super::send::SUPPRESSED;
use super::send::progress::MailProgressBar;
use crate::dead::command::{MOST_LETTERS, create, read};
use crate::shell::{CommandEnd, CommandError, Shell, open_file};

/// Say for each row of a run what became of its mail or text
///
/// The journal of `tidegate send` names the rows, and the input file their recipients; it must be unchanged. What
/// the service accepted stands in deduplication's marks, so deduplication must be on: without it the answer is
/// `unknown`. Bounces and complaints come from the suppression list of the account's SES; of texts they are not known.
///
/// Status of a row: `sent`; `bounced` or `complained` since; `suppressed` (SES accepted it and delivers it to nobody,
/// because the address was on the suppression list before); `dropped` (SES accepted it and then sent it to nobody); `sending`; `waiting`; `dead`, with the reason;
/// `cancelled`; `excluded` by the run's options or by `tidegate exclude`; `not_enqueued`, because the run is not
/// finished; `unknown`.
///
/// Exit code: 0; 2 the journal or its input is not usable; 3 a service or a file failed; 130 interrupted.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate results .tidegate/big-november.journal
  tidegate results november                     its counts, without the journal
  tidegate results .tidegate/big-november.journal --csv results.csv
  tidegate results .tidegate/big-november.journal --status dead,bounced --csv
  tidegate results .tidegate/big-november.journal --status cancelled --csv rest.csv")]
pub struct ResultsArgs {
    /// The journal that `tidegate send` wrote; or the name of a run, for its counts alone
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
    /// Write a line for each row, with its address, to this new file, or to standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    csv: Option<PathBuf>,
    /// Write only rows of these statuses
    #[arg(long, value_name = "STATUS", value_delimiter = ',', requires = "csv", value_parser = status)]
    status: Vec<RowStatus>,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

fn status(text: &str) -> Result<RowStatus, String> {
    let named = RowStatus::ALL.into_iter().find(|status| status.as_str() == text);
    let all: Vec<&str> = RowStatus::ALL.iter().map(|status| status.as_str()).collect();
    named.ok_or_else(|| format!("allowed are {}", all.join(", ")))
}

pub(super) async fn run(args: &ResultsArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    if !args.journal.exists() {
        return of_run(args, shell).await;
    }
    let journal = journal(args)?;
    journal.check(open_file(&journal.input.path)?).map_err(failed)?;
    let stack = args.on.stack.open().await?;
    let Some(facts) = facts(&journal, &stack, shell).await? else {
        return Ok(CommandEnd::Interrupted);
    };
    let found = tokio::select! {
        found = written(args, &journal, &facts, &stack, shell) => found?,
        () = shell.interrupted() => return Ok(CommandEnd::Interrupted),
    };
    let found = match found {
        // The reader of the lines wants no more.
        Err(ResultsError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Ok(CommandEnd::Done);
        }
        found => found.map_err(failed)?,
    };
    if args.csv.as_ref().is_some_and(|path| path.as_os_str() == "-") {
        shell.output.say_view(&found);
    } else {
        shell.output.show(&found).map_err(CommandError::Terminal)?;
    }
    Ok(CommandEnd::Done)
}

/// The counts of a run that the ledger knows by this name; its journal may be anywhere.
async fn of_run(args: &ResultsArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let facts = facts_of_stack(&stack, shell.output.addresses(), 0).await?;
    let named = args.journal.display().to_string();
    let mut runs = Status::of(&facts).runs;
    runs.retain(|run| run.name == named);
    if runs.is_empty() || args.csv.is_some() {
        let said = format!(
            "{named}: there is no such journal{}; allowed is a run's journal, or for counts the name of a run of the last day or under way",
            if runs.is_empty() {
                ", and the ledger shows no such run"
            } else {
                ", which --csv needs"
            }
        );
        return Err(CommandError::Input(said));
    }
    shell.output.show(&runs).map_err(CommandError::Terminal)?;
    Ok(CommandEnd::Done)
}

fn journal(args: &ResultsArgs) -> Result<RunJournal, CommandError> {
    let shown = args.journal.display().to_string();
    RunJournal::read(&shown, BufReader::new(open_file(&args.journal)?)).map_err(failed)
}

fn failed(error: ResultsError) -> CommandError {
    match error {
        ResultsError::Port(error) => CommandError::Service(error),
        ResultsError::Input(fault) => CommandError::Input(fault.to_string()),
        error @ (ResultsError::Empty { .. }
        | ResultsError::NoInput { .. }
        | ResultsError::InputChanged { .. }) => CommandError::Refused(error.into()),
        error => CommandError::Unfinished(error.into()),
    }
}

/// Everything by which rows are judged; `None` if the reading was interrupted.
///
/// Queues are read before dead letters, and these before marks: a mail that moves meanwhile is found at its old
/// or its new place.
async fn facts(
    journal: &RunJournal,
    stack: &Stack,
    shell: &Shell,
) -> Result<Option<RunFacts>, CommandError> {
    let queued = queued(journal, stack).await?;
    let reading = read(stack, MOST_LETTERS, shell).await?;
    if reading.coverage.interrupted {
        return Ok(None);
    }
    let (standing, campaigns) = stack.standing().await?;
    let excluded = match standing.control.exclusions {
        Some(_) => exclude::read(&stack.ledger()).await?,
        None => ExclusionList::default(),
    };
    let bar = MailProgressBar::counting(shell.output, SUPPRESSED);
    let listed = match stack.scheduler.channel {
        Channel::Email => {
            let own = campaigns.iter().find(|campaign| campaign.name == journal.header.campaign);
            let tenant = own.and_then(|campaign| campaign.tenant.as_deref());
            let list = stack.clients().suppression_list(tenant).await?;
            let clock = stack.clock();
            tokio::select! {
                listed = suppressed(&list, &clock, |more| bar.add(more)) => listed?,
                () = shell.interrupted() => return Ok(None),
            }
        }
        Channel::Sms => BTreeMap::new(),
    };
    drop(bar);
    let header = &journal.header;
    let cancelled = Counter::Cancelled.sum_of(&header.campaign, &standing.counters);
    let now = EpochMillis::from(stack.clock().wall());
    let age = now.as_millis().saturating_sub(header.at.as_millis());
    let marks_kept =
        (stack.poller.deduplication != Deduplication::Off).then_some(stack.poller.mark_kept);
    Ok(Some(RunFacts {
        now,
        has_marks: marks_kept.is_some_and(|kept| Duration::from_millis(age) < kept),
        marks_kept,
        cancel: standing.control.cancels.get(&header.campaign).copied(),
        cancelled: at_least_0(cancelled.saturating_sub(header.before.cancelled)),
        dead: dead_mails(&reading),
        unread: reading.coverage.unread(),
        queued,
        excluded,
        suppressed: listed,
    }))
}

/// Mails on the queues that the campaign's mail may be on, and deferred.
async fn queued(journal: &RunJournal, stack: &Stack) -> Result<u64, CommandError> {
    let queues = stack.queues();
    let own = QueueUrl::new(journal.header.queue.as_str());
    let mut all = 0;
    for queue in [own].iter().chain(&stack.shared_queues()) {
        all += queues.depth(queue).await?.all();
    }
    if let Some(location) = stack.deferral() {
        let deferred = deferral::left(&stack.clients().deferral(location)).await?;
        all += deferred.get(&journal.header.campaign).copied().unwrap_or(0);
    }
    Ok(all)
}

/// Judges every row, and writes those that are asked for.
async fn written(
    args: &ResultsArgs,
    journal: &RunJournal,
    facts: &RunFacts,
    stack: &Stack,
    shell: &Shell,
) -> Result<Result<ResultsReport, ResultsError>, CommandError> {
    let to: Box<dyn Write> = match &args.csv {
        None => Box::new(io::sink()),
        Some(path) if path.as_os_str() == "-" => Box::new(io::stdout()),
        Some(path) => Box::new(create(path)?),
    };
    let mut csv = csv::WriterBuilder::new().has_headers(false).from_writer(to);
    let bar = MailProgressBar::new(shell.output, journal.header.rows, 0);
    let input = BufReader::new(open_file(&journal.input.path)?);
    let ledger = stack.ledger();
    let found = async {
        csv.write_record(COLUMNS).map_err(|error| ResultsError::Output(error.into()))?;
        let found = results(&ledger, facts, journal, input, |result| {
            bar.add(1);
            if args.status.is_empty() || args.status.contains(&result.status) {
                csv.write_record(result.cells())?;
            }
            Ok(())
        });
        let found = found.await?;
        csv.flush().map_err(ResultsError::Output)?;
        Ok(found)
    };
    Ok(found.await)
}
