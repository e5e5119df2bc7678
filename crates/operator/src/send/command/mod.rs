//! Runs `tidegate send`: checks the recipient list, then enqueues a mail for each row.

mod args;
mod estimate;
mod in_s3;
mod prepare;
mod progress;
mod rest;
mod texts;
mod upload;

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use crate::page::Tone;
use crate::send::{
    CampaignDraft, CheckOptions, DryRun, FaultReport, InputFault, InputReport, InputRows,
    InputSummary, JournalContents, JournalError, JournalHeader, JournalWriter, Preview,
    PreviewReport, RecipientFilter, RunEnd as RunEnded, RunError, RunRecord, SendError, SendLimits,
    SendPorts, SendReport, Session, TemplatePart, TemplateSource, TestMail, TestMailError,
    admitted, baseline, check, check_resend, journalled_rows, read_journal, send_test,
};
use crate::status::{self, StackFacts};
use crate::steer::Author;
use crate::suppression::suppressed;
pub use args::SendArgs;
use tidegate_adapters::aws::SystemEntropy;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::channel::MessageRules;
use tidegate_core::config::Campaign;
use tidegate_core::deduplication::Deduplication;
use tidegate_core::email::{AllowedSenders, Priority};
use tidegate_core::identity::EpochMillis;
use tidegate_core::in_full;
use tidegate_core::runs::{Baseline, RUNS_KEPT, RowRanges, Run, RunSender, RunStage};
use tidegate_delivery::control::extend_cancel;
use tidegate_delivery::ports::{
    Clock as _, Entropy as _, QueueUrl, Runs as _, StoredRun, SuppressedAddress,
};

use crate::doctor::clock::aws_time;
use crate::shell::{
    CommandEnd, CommandError, CommandResult, Shell, open_file, stop_unless_confirmed,
};
use estimate::estimated;
pub(crate) use prepare::{addresses, read_sources};
pub(crate) use progress::MailProgressBar;
use rest::Rest;

/// A run as it is prepared.
struct PreparedRun {
    file: String,
    draft: CampaignDraft,
    recipients: RecipientFilter,
    checked: InputSummary,
    preview: Preview,
    header: JournalHeader,
    /// The run as the ledger is to know it.
    wanted: Run,
}

pub(crate) async fn run(args: &SendArgs, shell: &Shell) -> CommandResult {
    let fetched = in_s3::fetched(args, shell).await?;
    let args = fetched.as_ref().unwrap_or(args);
    let channel = texts::channel(args)?;
    let sources = prepare::sources(&args.mail, channel)?;
    prepare::open(&args.file)?;
    let mut recipients = prepare::recipients(&args.input)?;
    if args.no_stack {
        let rules = MessageRules { channel, ..AllowedSenders::everyone().into() };
        let draft = prepare::draft(args, "campaign", "run", sources, rules)?;
        let (checked, preview) = checked(args, &draft, &recipients, shell)?;
        let preview = args.run.preview.map(|_| preview);
        let input = Some(InputReport { file: args.file.display().to_string(), checked });
        return shell.done(&PreviewReport { preview, dry_run: None, input, rest: None });
    }
    let stack = args.on.stack.open().await?;
    texts::check(args, &stack.name, stack.poller.rules.channel)?;
    let facts = status::facts(&stack, shell.output.addresses(), 0).await?;
    let campaign = prepare::campaign(args, &facts.campaigns)?;
    if args.input.exclude_suppressed {
        let listed = suppressed_of(campaign.tenant.as_deref(), &stack, shell).await?;
        for address in listed.keys() {
            recipients.suppressed.add(address);
        }
    }
    let known = stack.ledger().runs(RUNS_KEPT).await?;
    let mut rest = None;
    if let Some(name) = &args.run.rest_of {
        rest = rest::of(args, name, &campaign, &known, &stack, shell).await?;
        let Some(rest) = &mut rest else { return Ok(CommandEnd::Interrupted) };
        recipients.sent = std::mem::take(&mut rest.sent);
    }
    let run = prepare::run_name(args, rest.as_ref().map(|rest| rest.name.as_str()));
    let by = stack.operator().await;
    let to = Destination { stack, facts, campaign, known, run, by };
    Box::pin(send_to(args, &to, sources, recipients, rest, shell)).await
}

/// Where a run goes, and as what.
struct Destination {
    stack: Stack,
    facts: StackFacts,
    campaign: Campaign,
    /// The runs that the ledger knows.
    known: Vec<StoredRun>,
    /// The run's name.
    run: String,
    /// The operator.
    by: String,
}

async fn send_to(
    args: &SendArgs,
    to: &Destination,
    sources: Vec<(TemplatePart, TemplateSource)>,
    recipients: RecipientFilter,
    rest: Option<Rest>,
    shell: &Shell,
) -> CommandResult {
    let Destination { stack, facts, campaign, .. } = to;
    let rules = stack.poller.rules.clone();
    let draft = prepare::draft(args, &campaign.name, &to.run, sources.clone(), rules)?;
    if let Some(to) = &args.run.test {
        try_template(args, &draft, stack).await?;
        return test(args, to, draft, stack, campaign, shell).await;
    }
    let prepared = prepared(args, to, &sources, draft, recipients, shell)?;
    try_template(args, &prepared.draft, stack).await?;
    let store = upload::store(args, stack)?;
    let journal = prepare::journal(args, &campaign.name, &to.run);
    let rows = if store.is_some() { None } else { journalled(&journal, &prepared)? };
    let wanted = prepared.wanted.clone();
    let stored = admitted(&to.known, wanted, rows.as_ref(), args.run.wish());
    let enqueued = stored.map_err(not_admitted)?.run.enqueued;
    let estimate = estimated(args, facts, &prepared.draft, &prepared.checked, enqueued, shell);
    let Some(estimate) = estimate.await? else {
        return Ok(CommandEnd::Interrupted);
    };
    let shown = match &store {
        Some(_) => "none: the stack enqueues it".to_owned(),
        None => journal.display().to_string(),
    };
    let (file, checked, kept) = (&prepared.file, &prepared.checked, ids_kept(stack));
    let plan = DryRun::new(file, &shown, &prepared.header, enqueued, checked, kept, estimate);
    if args.run.dry_run || args.run.preview.is_some() {
        let preview = args.run.preview.map(|_| prepared.preview);
        let dry_run = args.run.dry_run.then_some(plan);
        let rest = dry_run.is_none().then_some(prepared.checked.rest);
        return shell.done(&PreviewReport { preview, dry_run, input: None, rest });
    }
    shell.output.say_view(&plan);
    if let Some(ended) = stop_unless_confirmed(args.ask, shell, &plan.question()).await? {
        return Ok(ended);
    }
    if let Some(rest) = rest {
        let reason = format!("their recipients get run {}", to.run);
        let author = Author { by: to.by.clone(), reason };
        let ended = rest.take(&to.run, author, stack, shell).await?;
        if ended != CommandEnd::Done {
            return Ok(ended);
        }
    }
    if let Some(store) = store {
        return shell.done(&Box::pin(upload::run(args, to, prepared, &store, shell)).await?);
    }
    let report = Box::pin(enqueue(args, to, prepared, &journal, shell)).await?;
    shell.show(&report)?;
    match report.ended {
        RunEnded::Done => Ok(CommandEnd::Done),
        RunEnded::Interrupted => Ok(CommandEnd::Interrupted),
        RunEnded::Cancelled => Ok(CommandEnd::ProblemsFound),
        RunEnded::GaveUp(_) => Err(CommandError::Unfinished(report.unfinished().into())),
    }
}

/// Checks the input, and describes the run for its journal and the ledger.
fn prepared(
    args: &SendArgs,
    to: &Destination,
    sources: &[(TemplatePart, TemplateSource)],
    draft: CampaignDraft,
    recipients: RecipientFilter,
    shell: &Shell,
) -> CommandResult<PreparedRun> {
    let (checked, preview) = checked(args, &draft, &recipients, shell)?;
    if args.run.again.is_some() {
        check_resend(&checked, ids_kept(&to.stack)).map_err(not_admitted)?;
    }
    let at = EpochMillis::from(to.stack.clock().wall());
    let settings = prepare::settings(args, sources, &checked, &recipients);
    let input = prepare::run_input(&settings, checked.rows);
    let cancel = to.facts.standing.control.cancels.get(&to.campaign.name);
    let cancelled_at = cancel.map(|cancel| cancel.at);
    let wanted = Run {
        before: Baseline { cancelled_at, ..Baseline::default() },
        ..Run::new(&to.campaign.name, &to.run, input, sender(&to.by), at)
    };
    let queue = to.campaign.queue_for(draft.parsed_priority());
    let input = prepare::journal_input(args, checked.channel);
    let header = JournalHeader::of(&wanted, queue, settings, input);
    let file = args.file.display().to_string();
    Ok(PreparedRun { file, draft, recipients, checked, preview, header, wanted })
}

/// Sends test messages instead of the campaign.
async fn test(
    args: &SendArgs,
    to: &str,
    mut draft: CampaignDraft,
    stack: &Stack,
    campaign: &Campaign,
    shell: &Shell,
) -> CommandResult {
    let express = stack.express();
    let is_express = express.is_some();
    if !is_express {
        draft.priority = Some(Priority::Critical.as_str().to_owned());
    }
    let queue = express.unwrap_or_else(|| QueueUrl::new(campaign.queue_for(Priority::Critical)));
    let file = args.file.display().to_string();
    let input = BufReader::new(prepare::open(&args.file)?);
    let (queues, at) = (stack.queues(), EpochMillis::from(stack.clock().wall()));
    let (draft, file, queue) = (&draft, file.as_str(), &queue);
    let (format, rows) = (prepare::format(args), usize::from(args.run.rows));
    let test = TestMail { draft, file, format, to, rows, queue, express: is_express };
    let report = send_test(test, input, &queues, at).await.map_err(|error| match error {
        TestMailError::Input(fault) => {
            CommandError::Input(fault.shown(shell.output.addresses()).to_string())
        }
        error => CommandError::Unfinished(error.into()),
    })?;
    shell.done(&report)
}

/// The addresses that SES suppresses, for the account or a tenant; how many are read is shown.
pub(crate) async fn suppressed_of(
    tenant: Option<&str>,
    stack: &Stack,
    shell: &Shell,
) -> CommandResult<BTreeMap<String, SuppressedAddress>> {
    let list = stack.clients().suppression_list(tenant).await?;
    let bar = MailProgressBar::counting(shell.output, "addresses of SES's suppression list read");
    Ok(suppressed(&list, &stack.clock(), |more| bar.add(more)).await?)
}

/// Has SES render its template with the first row. SES accepts mail that it cannot render, and then drops it.
async fn try_template(args: &SendArgs, draft: &CampaignDraft, stack: &Stack) -> CommandResult<()> {
    let file = args.file.display().to_string();
    let input = BufReader::new(prepare::open(&args.file)?);
    let rows = InputRows::new(&file, prepare::format(args), input).ok();
    let first = rows.and_then(|mut rows| rows.next()?.ok());
    let Some((name, data)) = first.as_ref().and_then(|row| draft.template_data(row)) else {
        return Ok(());
    };
    match stack.clients().ses_account().template_fault(name, &data).await? {
        None => Ok(()),
        Some(fault) => Err(CommandError::Input(format!(
            "{file}: SES cannot render its template {name} with the first row: {fault}; nothing was sent"
        ))),
    }
}

/// The first pass; its faults are the report.
fn checked(
    args: &SendArgs,
    draft: &CampaignDraft,
    recipients: &RecipientFilter,
    shell: &Shell,
) -> CommandResult<(InputSummary, Preview)> {
    let output = &shell.output;
    let file = args.file.display().to_string();
    let input = BufReader::new(prepare::open(&args.file)?);
    let max_faults = args.input.max_errors as usize;
    let checking = CheckOptions {
        format: prepare::format(args),
        max_faults,
        allow_duplicates: args.input.allow_duplicates,
        first_of_duplicates: args.input.first_of_duplicates,
        skip_invalid: args.input.skip_invalid.is_some(),
        recipients: Some(recipients),
    };
    let mut preview = Preview::new(args.run.preview.unwrap_or(0), output.addresses());
    let bar = MailProgressBar::counting(*output, "rows checked");
    let checked = check(draft, &file, input, checking, |message, content| {
        bar.add(1);
        preview.see(message, content);
    });
    drop(bar);
    match checked {
        Ok(checked) => {
            prepare::write_refused(args, &checked.rest.refused_rows)?;
            Ok((checked, preview))
        }
        Err(faults) => {
            let more = faults.len() >= max_faults;
            let shown = |fault: InputFault| fault.shown(output.addresses());
            let faults: Vec<InputFault> = faults.into_iter().map(shown).collect();
            let said = format!("{file}: nothing was sent");
            output.show(&FaultReport { file, faults, more }).map_err(CommandError::Terminal)?;
            Err(CommandError::Input(said))
        }
    }
}

/// The rows that the run's journal holds now; none if there is none.
fn journalled(journal: &Path, prepared: &PreparedRun) -> CommandResult<Option<RowRanges>> {
    let shown = journal.display().to_string();
    let contents = match std::fs::File::open(journal) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => JournalContents::default(),
        _ => {
            let file = BufReader::new(open_file(journal)?);
            read_journal(&shown, file, |_| {}).map_err(|error| refused(error.into()))?
        }
    };
    journalled_rows(&shown, &contents, &prepared.header).map_err(refused)
}

/// Who enqueues a run: this process.
fn sender(by: &str) -> RunSender {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    RunSender { host, by: by.to_owned(), token: SystemEntropy.token() }
}

/// How long a second mail of the same id is recognised; none if deduplication is off.
fn ids_kept(stack: &Stack) -> Option<Duration> {
    (stack.poller.deduplication != Deduplication::Off).then_some(stack.poller.mark_kept)
}

async fn enqueue(
    args: &SendArgs,
    Destination { stack, campaign, .. }: &Destination,
    prepared: PreparedRun,
    journal: &Path,
    shell: &Shell,
) -> CommandResult<SendReport> {
    let (mut writer, contents) =
        JournalWriter::open(journal).map_err(|error| refused(error.into()))?;
    let shown = journal.display().to_string();
    // Once more, now that no other process can write it.
    let rows = journalled_rows(&shown, &contents, &prepared.header).map_err(refused)?;
    let (queues, ledger, clock) = (stack.queues(), stack.ledger(), stack.clock());
    let own: Vec<QueueUrl> = campaign.queues().map(|(_, url)| QueueUrl::new(url)).collect();
    let shared = stack.shared_queues();
    let stood = baseline(&queues, &ledger, &campaign.name, &own, &shared).await?;
    let header = JournalHeader { before: stood, ..prepared.header };
    // Once more, with what the ledger knows now.
    let wanted = Run { before: stood, ..prepared.wanted };
    let known = ledger.runs(RUNS_KEPT).await?;
    let stored = admitted(&known, wanted, rows.as_ref(), args.run.wish()).map_err(not_admitted)?;
    let mut record = RunRecord::begin(&ledger, stored).await.map_err(not_admitted)?;
    let done = record.run().enqueued;
    let limits = SendLimits {
        parallel: usize::from(args.run.parallel),
        max_backlog: args.run.max_backlog.0,
        even_if_deferred: args.run.even_if_deferred,
        max_wait: args.run.max_wait,
    };
    let session = Session {
        draft: &prepared.draft,
        file: &prepared.file,
        format: prepare::format(args),
        checked: &prepared.checked,
        header: &header,
        journalled: rows.as_ref(),
        recipients: Some(&prepared.recipients),
        limits,
    };
    let bar = MailProgressBar::new(shell.output, prepared.checked.rows, done);
    let entropy = &SystemEntropy;
    let store = stack.store().map(|location| stack.clients().store(location).patient());
    let store = store.as_ref();
    let ports = SendPorts { queues: &queues, store, clock: &clock, entropy, progress: &bar };
    let input = BufReader::new(prepare::open(&args.file)?);
    let run = session.run(ports, input, &mut writer, &mut record, shell.interrupted());
    let report = Box::pin(run).await;
    drop(bar);
    let stage = match report.as_ref().map(|report| &report.ended) {
        Ok(RunEnded::Done) => RunStage::Done,
        Ok(RunEnded::Cancelled) => RunStage::Cancelled,
        _ => RunStage::Stopped,
    };
    if stage == RunStage::Cancelled {
        // What was enqueued since the cancel goes with the rest.
        let at = aws_time(stack).await.unwrap_or_else(|_| clock.wall());
        extend_cancel(&ledger, &campaign.name, at.into()).await?;
    }
    match record.write(stage, clock.wall().into()).await {
        Ok(()) | Err(RunError::TakenOver { .. }) => {}
        Err(error) => {
            let said = format!("The ledger does not know how the run ended: {}", in_full(&error));
            shell.output.remark(Tone::Warning, said);
        }
    }
    report.map_err(refused)
}

/// Wrong options, or a ledger out of reach.
fn not_admitted(error: RunError) -> CommandError {
    match error {
        RunError::Port(error) => CommandError::Service(error),
        RunError::Conflict => CommandError::Unfinished(error.into()),
        error => CommandError::Refused(error.into()),
    }
}

/// As the program ends with it: wrong input or options, or something out of reach.
fn refused(error: SendError) -> CommandError {
    match error {
        SendError::Changed { .. } | SendError::AlreadySent { .. } => {
            CommandError::Refused(error.into())
        }
        SendError::Journal(JournalError::Version { .. }) => CommandError::Refused(error.into()),
        error => CommandError::Unfinished(error.into()),
    }
}
