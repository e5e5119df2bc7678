use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::results::{
    self, AccountVerdict, COLUMNS, ResultsError, ResultsReport, RowStatus, RunFacts, RunJournal,
    StackSettings, waiting,
};
use crate::status::{Status, facts as facts_of_stack};
use crate::{exclude, store};
use clap::Args;
use strum::VariantNames as _;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::channel::Channel;
use tidegate_core::deduplication::Deduplication;
use tidegate_core::draft::CampaignDraft;
use tidegate_core::identity::EpochMillis;
use tidegate_core::runs::RUNS_KEPT;
use tidegate_core::store::rows::StoredDrafts;
use tidegate_delivery::ports::{Clock as _, Runs as _, Store as _};

use crate::dead::command::{MOST_LETTERS, create, read};
use crate::send::{MailProgressBar, suppressed_of};
use crate::shell::{CommandEnd, CommandError, CommandResult, Shell, open_file};
use crate::stack::OnStack;

/// Say for each row of a run what became of its mail or text, and whether all are accounted for
///
/// The journal of `tidegate send` names the rows, and the input file their recipients; it must be unchanged. What
/// the service accepted stands in deduplication's marks, so deduplication must be on: without it the answer is
/// `unknown`. Bounces and complaints come from the suppression list of the account's SES; of texts they are not known.
///
/// Status of a row: `sent`; `bounced` or `complained` since; `suppressed` (SES accepted it and delivers it to nobody,
/// because the address was on the suppression list before); `dropped` (SES accepted it and then sent it to nobody); `sending`; `waiting`; `dead`, with the reason;
/// `cancelled`; `excluded` by the run's options or by `tidegate exclude`; `not_enqueued`, because the run is not
/// finished; `missing`, because no record names it and the queues are empty; `unknown`.
///
/// Without deduplication, and once its marks have expired, the ledger's counters are compared with those at the begin of
/// the run instead, and count the mail of others, too.
///
/// Exit code: 0 every mail is accounted for, within the tolerance, which is said; 1 some are missing; 2 the journal or its
/// input is not usable, or of another stack; 3 a service or a file failed; 5 the figures prove nothing, because the
/// tolerance covers all mails, or others sent to the campaign; 130 interrupted.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate results .tidegate/big-november.journal
  tidegate results november                     its counts, without the journal
  tidegate results november --list november.csv --csv results.csv
      A run of `send --upload` has no journal: the ledger and the list tell of its rows.
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
    /// The list of a run that the stack enqueues (`send --upload`) [default: where it was when it was sent]
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Write only rows of these statuses
    #[arg(long, value_name = "STATUS", value_delimiter = ',', requires = "csv", value_parser = status)]
    status: Vec<RowStatus>,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

fn status(text: &str) -> Result<RowStatus, String> {
    text.parse().map_err(|_| format!("allowed are {}", RowStatus::VARIANTS.join(", ")))
}

pub(crate) async fn run(args: &ResultsArgs, shell: &Shell) -> CommandResult {
    let shown = args.journal.display().to_string();
    let journal = if args.journal.exists() {
        if args.list.is_some() {
            let said = "--list: allowed with the name of a run that was uploaded; a journal names its list";
            return Err(CommandError::Input(said.to_owned()));
        }
        let journal = BufReader::new(open_file(&args.journal)?);
        let journal = RunJournal::read(&shown, journal).map_err(failed)?;
        journal.check(open_file(&journal.header.input.path)?).map_err(failed)?;
        Some((journal, modified(&args.journal)?))
    } else {
        None
    };
    let stack = args.on.stack.open().await?;
    let journal = match journal {
        None if args.csv.is_some() || args.list.is_some() => uploaded(args, &stack).await?,
        found => found,
    };
    let Some((journal, written_at)) = journal else { return of_run(args, &stack, shell).await };
    let Some(facts) = facts(&journal, written_at, &stack, shell).await? else {
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
        shell.show(&found)?;
    }
    Ok(match found.account.verdict {
        AccountVerdict::Balanced => CommandEnd::Done,
        AccountVerdict::Unproven => CommandEnd::Unproven,
        AccountVerdict::Difference => CommandEnd::ProblemsFound,
    })
}

/// When a file was last written.
fn modified(path: &Path) -> CommandResult<EpochMillis> {
    let at = path.metadata().and_then(|data| data.modified());
    let at = at.map_err(CommandError::of_file(path, "cannot be looked at"))?;
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(EpochMillis::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}

/// The newest run of this name whose rows the stack enqueues, as its list and the ledger tell of it, and when the ledger
/// was told; `None` if there is no such run.
async fn uploaded(
    args: &ResultsArgs,
    stack: &Stack,
) -> CommandResult<Option<(RunJournal, EpochMillis)>> {
    let mut runs = stack.ledger().runs(RUNS_KEPT).await?.into_iter().map(|stored| stored.run);
    let named = args.journal.as_os_str();
    let run = runs.find(|run| run.uploaded.is_some() && *named == *run.name);
    let Some((run, location)) = run.zip(stack.store()) else { return Ok(None) };
    let store = stack.clients().store(location);
    let token = run.uploaded.as_ref().map(|uploaded| uploaded.token.clone()).unwrap_or_default();
    let mut found = store.get(&StoredDrafts::key(&token)).await?;
    if found.is_none() {
        found = store.get(&StoredDrafts::key_once_over(&token)).await?;
    }
    let Some((bytes, _)) = found else { return Ok(None) };
    let drafts =
        StoredDrafts::unpack(&bytes).map_err(|error| CommandError::Unfinished(error.into()))?;
    let path = args.list.clone().unwrap_or_else(|| PathBuf::from(&drafts.list));
    if !path.exists() {
        let said = format!(
            "{}: the list of run {} is not there; allowed is --list FILE, the list that was sent",
            path.display(),
            run.name
        );
        return Err(CommandError::Input(said));
    }
    let priority = drafts.drafts.first().map(CampaignDraft::parsed_priority).unwrap_or_default();
    let campaigns = stack.standing().await?.1;
    let campaign = campaigns.iter().find(|campaign| campaign.name == run.campaign);
    let queue = campaign.map_or("", |campaign| campaign.queue_for(priority)).to_owned();
    let (seen, list) = (run.seen, path.clone());
    let journal = RunJournal::of_upload(run, &drafts, &queue, path, || File::open(&list));
    Ok(Some((journal.map_err(failed)?, seen)))
}

/// The counts of a run that the ledger knows by this name; its journal may be anywhere.
async fn of_run(args: &ResultsArgs, stack: &Stack, shell: &Shell) -> CommandResult {
    let facts = facts_of_stack(stack, shell.output.addresses(), 0).await?;
    let named = args.journal.display().to_string();
    let mut runs = Status::of(&facts).runs;
    runs.retain(|run| run.name == named);
    if runs.is_empty() || args.csv.is_some() {
        let said = format!(
            "{named}: there is no such journal{}; allowed is a run's journal, or for counts the name of a run of the last day or under way",
            if runs.is_empty() {
                ", and the ledger shows no such run"
            } else {
                ", which --csv and --list need for a run that was not uploaded"
            }
        );
        return Err(CommandError::Input(said));
    }
    shell.done(&runs)
}

fn failed(error: ResultsError) -> CommandError {
    match error {
        ResultsError::Port(error) => CommandError::Service(error),
        ResultsError::Input(fault) => CommandError::Input(fault.to_string()),
        error @ (ResultsError::Empty { .. }
        | ResultsError::InputChanged { .. }
        | ResultsError::Stranger { .. }) => CommandError::Refused(error.into()),
        error => CommandError::Unfinished(error.into()),
    }
}

/// Everything by which rows are judged; `None` if the reading was interrupted.
async fn facts(
    journal: &RunJournal,
    written_at: EpochMillis,
    stack: &Stack,
    shell: &Shell,
) -> CommandResult<Option<RunFacts>> {
    let stood = facts_of_stack(stack, shell.output.addresses(), 0).await?;
    let quota_per_second = Status::of(&stood).quota.in_force;
    let campaigns = stood.campaigns;
    let own = campaigns.iter().find(|campaign| campaign.name == journal.header.campaign);
    let tenant = own.and_then(|campaign| campaign.tenant.clone());
    let has_marks = stack.poller.deduplication != Deduplication::Off;
    let settings = StackSettings {
        campaigns,
        shared: stack.shared_queues(),
        marks_kept: has_marks.then_some(stack.poller.mark_kept),
        quota_per_second,
    };
    let mut waiting = waiting(&stack.queues(), &settings, journal).await.map_err(failed)?;
    waiting.elsewhere += store::left_of(&journal.header.campaign, stack).await?;
    let reading = read(stack, MOST_LETTERS, shell).await?;
    if reading.coverage.interrupted {
        return Ok(None);
    }
    let (ledger, now) = (stack.ledger(), EpochMillis::from(stack.clock().wall()));
    let facts = results::facts(&ledger, &settings, journal, waiting, &reading, written_at, now);
    let mut facts = facts.await?;
    if stood.standing.control.exclusions.is_some() {
        facts.excluded = exclude::read(&ledger).await?;
    }
    if stack.scheduler.channel == Channel::Email {
        facts.suppressed = tokio::select! {
            listed = suppressed_of(tenant.as_deref(), stack, shell) => listed?,
            () = shell.interrupted() => return Ok(None),
        };
    }
    Ok(Some(facts))
}

/// Judges every row, and writes those that are asked for.
async fn written(
    args: &ResultsArgs,
    journal: &RunJournal,
    facts: &RunFacts,
    stack: &Stack,
    shell: &Shell,
) -> CommandResult<Result<ResultsReport, ResultsError>> {
    let to: Box<dyn Write> = match &args.csv {
        None => Box::new(io::sink()),
        Some(path) if path.as_os_str() == "-" => Box::new(io::stdout()),
        Some(path) => Box::new(create(path)?),
    };
    let mut csv = csv::WriterBuilder::new().has_headers(false).from_writer(to);
    let bar = MailProgressBar::new(shell.output, journal.header.rows, 0);
    let input = BufReader::new(open_file(&journal.header.input.path)?);
    let ledger = stack.ledger();
    let found = async {
        csv.write_record(COLUMNS).map_err(|error| ResultsError::Output(error.into()))?;
        let found = results::results(&ledger, facts, journal, input, |result| {
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
