//! A run: begins or continues a journal, and enqueues every row that is not acknowledged yet.

use std::io::{self, Read, Write};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, select_biased};
use sha2::{Digest as _, Sha256};
use tidegate_core::format::span;
use tidegate_core::identity::{EpochMillis, hex};
use tidegate_core::in_full;
use tidegate_core::runs::{RowRanges, RunStage};
use tidegate_delivery::ports::{Clock, Entropy, Ledger, Monotonic, QueueUrl, Queues, Runs, Store};

use super::address_list::RecipientFilter;
use super::check::{HashingReader, InputSummary};
use super::deliver::{BacklogLimit, BatchReport, Deliverer, Packer, SendPorts};
use super::journal::{
    AcknowledgedRows, JournalContents, JournalError, JournalHeader, JournalRecord, JournalWriter,
};
use super::progress::{RunEnd, SendProgress};
use super::report::SendReport;
use super::rows::{InputFormat, InputRows};
use super::runs::{RunError, RunOrder, RunRecord};
use crate::redact::AddressVisibility;
use tidegate_core::draft::{CampaignDraft, InputFault, RenderedMessage};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendLimits {
    /// The number of batches in flight at the same time, 1 to 64.
    pub parallel: usize,
    /// Nothing is enqueued while the campaign's queue has more messages than this; `None` for no
    /// limit.
    pub max_backlog: Option<u64>,
    /// Whether it sends although the level defers its mail.
    pub even_if_deferred: bool,
    /// How long it waits while the level defers its mail; `None` as long as it takes.
    pub max_wait: Option<Duration>,
}

/// A run could not begin, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal belongs to another input or to other options.
    #[error("{journal}: this run was begun with another {}; nothing was sent. Take the same again, or send this one under another name: --run NAME", .differences.join(", "))]
    Changed { journal: String, differences: Vec<String> },
    #[error(
        "{journal}: this run is over: all {rows} rows were enqueued; nothing was sent. To send the same input once more: --again NAME, a run's new name"
    )]
    AlreadySent { journal: String, rows: u64 },
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{file} cannot be read")]
    Input { file: String, source: io::Error },
    /// The input changed after it was checked.
    #[error(
        "{file} changed while it was sent: what was enqueued stands in {journal}; restore the file and run the command again{}", fault_suffix(.fault.as_deref())
    )]
    InputChanged {
        file: String,
        journal: String,
        /// The first row that has become invalid, if there is one.
        fault: Option<Box<InputFault>>,
    },
}

/// A fault in parentheses after an error message, with addresses masked.
fn fault_suffix(fault: Option<&InputFault>) -> String {
    fault.map_or_else(String::new, |fault| {
        format!(" ({})", fault.clone().shown(AddressVisibility::Masked))
    })
}

/// The rows of the run of `header` that its journal's contents have; `None` if it has not begun.
///
/// # Errors
/// [`SendError::Changed`] and [`SendError::AlreadySent`].
pub fn journalled_rows(
    journal: &str,
    contents: &JournalContents,
    header: &JournalHeader,
) -> Result<Option<RowRanges>, SendError> {
    let Some(begun) = &contents.header else { return Ok(None) };
    let differences = begun.differences(header);
    let journal = journal.to_owned();
    if !differences.is_empty() {
        return Err(SendError::Changed { journal, differences });
    }
    if contents.ended.is_some() {
        return Err(SendError::AlreadySent { journal, rows: begun.rows });
    }
    Ok(Some(contents.acknowledged.clone()))
}

/// A run that has been checked and confirmed.
#[derive(Debug)]
pub struct Session<'a> {
    pub draft: &'a CampaignDraft,
    pub file: &'a str,
    pub format: InputFormat,
    pub checked: &'a InputSummary,
    /// The header for a new journal.
    pub header: &'a JournalHeader,
    /// The rows that the journal has; `None` if it is a new one.
    pub journalled: Option<&'a RowRanges>,
    /// The recipients that get no mail; `None` if all get theirs.
    pub recipients: Option<&'a RecipientFilter>,
    pub limits: SendLimits,
}

impl Session<'_> {
    /// Enqueues every row of `input` that is not acknowledged yet, and writes each batch that SQS
    /// accepted to `journal`, and every few seconds to `record`. When `stop` is ready or a cancel comes, the batches in
    /// flight are finished and the run ends; a pause makes it wait.
    ///
    /// # Errors
    /// [`SendError`]. A queue that does not take more is no error: the report says how far it came.
    pub async fn run(
        &self,
        ports: SendPorts<'_, impl Queues, impl Clock, impl Entropy, impl SendProgress, impl Store>,
        input: impl Read,
        journal: &mut JournalWriter<impl Write>,
        record: &mut RunRecord<'_, impl Ledger + Runs>,
        stop: impl Future<Output = ()>,
    ) -> Result<SendReport, SendError> {
        let nothing = RowRanges::default();
        let settled = record.run().settled.clone();
        let before = match self.journalled {
            None => {
                journal.record(self.header)?;
                &nothing
            }
            Some(acknowledged) => {
                let at = EpochMillis::from(ports.clock.wall());
                journal.record(&JournalRecord::Resumed { at, by: self.header.by.clone() })?;
                acknowledged
            }
        };
        let mut report = SendReport::new(self.header, journal.path.clone(), record.run().enqueued);
        (report.channel, report.excluded) = (self.checked.channel, self.checked.excluded);
        let started = ports.clock.monotonic();
        let mut input = HashingReader { input, hash: Sha256::new() };
        let queue = QueueUrl::new(self.header.queue.as_str());
        let rows = InputRows::new(self.file, self.format, &mut input)
            .map_err(|fault| self.changed(journal.path.clone(), Some(fault)))?;
        let mut batches = Batches {
            session: self,
            rows,
            journalled: before,
            settled: &settled,
            excluded: Vec::new(),
            elsewhere: Vec::new(),
            packer: Packer::new(),
        };
        let deliverer = Deliverer { ports: &ports, queue: &queue };
        let at = record.run().seen;
        let mut log = RunLog { journal, record, report: &mut report };
        let fault = self.enqueue(&deliverer, &mut batches, &mut log, stop).await?;
        // Rows that another host enqueued stand in this journal, too: their mails are looked up by it.
        let elsewhere = std::mem::take(&mut batches.elsewhere);
        drop(batches);
        for rows in elsewhere.chunks(1_000) {
            let rows = rows.iter().map(|(row, id)| (*row, id.as_str()));
            let rows = AcknowledgedRows::of(at, rows);
            journal.acknowledge(rows, ports.clock.monotonic())?;
        }
        report.seconds = ports.clock.monotonic().saturating_since(started).as_secs_f64();
        if let Some(fault) = fault {
            return Err(self.changed(journal.path.clone(), Some(fault)));
        }
        if report.ended == RunEnd::Done {
            // The hash must cover the whole input before it is compared with that of the first
            // pass.
            let rest = io::copy(&mut input, &mut io::sink());
            rest.map_err(|source| SendError::Input { file: self.file.to_owned(), source })?;
            if hex(&input.hash.finalize()) != self.checked.sha256 {
                return Err(self.changed(journal.path.clone(), None));
            }
            let at = EpochMillis::from(ports.clock.wall());
            journal.record(&JournalRecord::Ended { at })?;
        }
        Ok(report)
    }

    fn changed(&self, journal: String, fault: Option<InputFault>) -> SendError {
        SendError::InputChanged { file: self.file.to_owned(), journal, fault: fault.map(Box::new) }
    }

    /// Sends batches until all are sent, `stop` is ready, a cancel comes, or one fails permanently, and then waits
    /// for the batches in flight. Returns the fault of a row that has become invalid since the first pass.
    async fn enqueue<Q: Queues, C: Clock, E: Entropy, P: SendProgress, S: Store>(
        &self,
        deliverer: &Deliverer<'_, Q, C, E, P, S>,
        batches: &mut Batches<'_>,
        log: &mut RunLog<'_, '_, impl Write, impl Ledger + Runs>,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<InputFault>, SendError> {
        let SendPorts { clock, progress, .. } = *deliverer.ports;
        let stop = stop.shared();
        let mut stopping = stop.clone();
        let mut backlog = BacklogLimit::new(deliverer, self.limits.max_backlog);
        let mut under_way = FuturesUnordered::new();
        let (mut going, mut fault, mut stage) = (true, None, RunStage::Sending);
        let mut deferred_since = None;
        loop {
            let (mut wait, mut waits) = (None, false);
            if going {
                match self.order(log, stage, &mut deferred_since, clock, progress).await {
                    RunStep::Go => {}
                    RunStep::Wait(until) => (wait, waits) = (until, true),
                    RunStep::End(ended) => {
                        log.report.ends(ended);
                        going = false;
                    }
                }
            }
            // Start batches up to the limit, unless a pause, the level or the backlog demands to wait.
            while going && !waits && under_way.len() < self.limits.parallel.max(1) {
                match backlog.closed_until().await {
                    Ok(None) => {}
                    Ok(until) => {
                        (wait, waits) = (until, true);
                        break;
                    }
                    Err(error) => {
                        log.report.ends(RunEnd::GaveUp(in_full(&error)));
                        going = false;
                        break;
                    }
                }
                match batches.next() {
                    Some(Ok(batch)) => {
                        backlog.add(batch.len() as u64);
                        under_way.push(deliverer.deliver(batch, stop.clone()));
                    }
                    Some(Err(found)) => (going, fault) = (false, Some(found)),
                    None => going = false,
                }
            }
            stage = if waits { RunStage::Waiting } else { RunStage::Sending };
            batches.excluded.drain(..).for_each(|row| log.record.leave_out(row));
            // No batch will follow and all have ended.
            if !going && under_way.is_empty() {
                break;
            }
            let next_look = log.record.next_look().filter(|_| going);
            let wake = wait.into_iter().chain(next_look).min();
            let mut sleep = std::pin::pin!(sleep(clock, wake).fuse());
            select_biased! {
                () = stopping => {
                    going = false;
                    log.report.ends(RunEnd::Interrupted);
                }
                delivered = under_way.select_next_some() => {
                    going &= delivered.ended.is_none();
                    log.add(delivered, clock, progress)?;
                }
                () = sleep => {}
            }
        }
        log.report.conclude();
        Ok(fault)
    }

    /// The next step of the run, by the ledger and by how long the level has deferred its mail.
    async fn order(
        &self,
        log: &mut RunLog<'_, '_, impl Write, impl Ledger + Runs>,
        stage: RunStage,
        deferred_since: &mut Option<Monotonic>,
        clock: &impl Clock,
        progress: &impl SendProgress,
    ) -> RunStep {
        let priority = self.draft.parsed_priority();
        let level = match log.record.look(stage, priority, clock).await {
            Ok(RunOrder::Defer(level)) if !self.limits.even_if_deferred => *level,
            Ok(RunOrder::Wait(detail)) => {
                progress.paused(detail);
                return RunStep::Wait(None);
            }
            Ok(RunOrder::Cancelled) => return RunStep::End(RunEnd::Cancelled),
            Err(error) => return RunStep::End(RunEnd::GaveUp(in_full(&error))),
            Ok(RunOrder::Go | RunOrder::Defer(_)) => {
                *deferred_since = None;
                return RunStep::Go;
            }
        };
        let since = *deferred_since.get_or_insert(clock.monotonic());
        let waited = clock.monotonic().saturating_since(since);
        if self.limits.max_wait.is_some_and(|most| waited >= most) {
            return RunStep::End(RunEnd::GaveUp(format!(
                "the level is {level}, which defers messages of {priority} priority; waited for {}: run it again later, or with --even-if-deferred",
                span(waited)
            )));
        }
        progress.held_back(level);
        RunStep::Wait(self.limits.max_wait.map(|most| since + most))
    }
}

/// The next step of a run.
enum RunStep {
    Go,
    /// Wait, at most until then, and look at the ledger again.
    Wait(Option<Monotonic>),
    End(RunEnd),
}

/// The places in which it stands how far a run has come: the journal on this disk, the ledger, and the report.
struct RunLog<'a, 'l, J, L> {
    journal: &'a mut JournalWriter<J>,
    record: &'a mut RunRecord<'l, L>,
    report: &'a mut SendReport,
}

impl<J: Write, L: Ledger + Runs> RunLog<'_, '_, J, L> {
    /// Adds the result of a batch.
    fn add(
        &mut self,
        delivered: BatchReport,
        clock: &impl Clock,
        progress: &impl SendProgress,
    ) -> Result<(), SendError> {
        let rows = delivered.acknowledged.ids.len() as u64;
        if rows > 0 {
            self.record.acknowledge(&delivered.acknowledged);
            self.journal.acknowledge(delivered.acknowledged, clock.monotonic())?;
            progress.acknowledged(rows);
        }
        let report = &mut *self.report;
        report.enqueued += rows;
        report.bytes += delivered.bytes;
        report.retries += delivered.retries;
        if let Some(ended) = delivered.ended {
            report.ends(ended);
        }
        Ok(())
    }
}

async fn sleep(clock: &impl Clock, until: Option<Monotonic>) {
    match until {
        Some(until) => clock.sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// The rows that are not settled yet, rendered and packed into batches.
struct Batches<'a> {
    session: &'a Session<'a>,
    rows: InputRows<'a>,
    /// Rows that the journal has.
    journalled: &'a RowRanges,
    /// Rows that the ledger has as settled; some may have been enqueued by another host.
    settled: &'a RowRanges,
    /// Excluded rows, since this was last taken.
    excluded: Vec<u64>,
    /// Rows that another host enqueued, and their ids.
    elsewhere: Vec<(u64, String)>,
    packer: Packer<RenderedMessage>,
}

impl Iterator for Batches<'_> {
    type Item = Result<Vec<RenderedMessage>, InputFault>;

    fn next(&mut self) -> Option<Self::Item> {
        let Session { draft, checked, recipients, .. } = self.session;
        let left_out = &checked.rest.left_out;
        loop {
            let message = match self.rows.next() {
                None => return self.packer.flush().map(Ok),
                // Refused in the first pass, or the same address as an earlier row's.
                Some(_) if left_out.contains(self.rows.number) => continue,
                Some(Ok(row)) if self.journalled.contains(row.number) => continue,
                Some(row) => row.and_then(|row| draft.message(&row)),
            };
            match message {
                Ok((message, email))
                    if recipients.is_some_and(|filter| filter.leaves_out(&email)) =>
                {
                    self.excluded.push(message.row);
                }
                Ok((message, _)) if self.settled.contains(message.row) => {
                    self.elsewhere.push((message.row, message.id));
                }
                Ok((message, _)) => {
                    let size = message.bytes();
                    if let Some(batch) = self.packer.add(message, size) {
                        return Some(Ok(batch));
                    }
                }
                Err(fault) => return Some(Err(fault)),
            }
        }
    }
}
