//! The run in the ledger: whether it may begin or go on, how all stood before it, what is written of it meanwhile, and
//! who has got its mail.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::control::{CANCELLED, Control, HoldReason};
use tidegate_core::counters::Counter;
use tidegate_core::email::Priority;
use tidegate_core::format::{count, counted, span};
use tidegate_core::identity::EpochMillis;
use tidegate_core::runs::{Baseline, RUNS_KEPT, RowRanges, Run, RunStage};
use tidegate_delivery::ports::{
    Clock, Ledger, Monotonic, PortError, QueueDepth, QueueUrl, Queues, Runs, StoredRun,
};

use super::address_list::{AddressList, recipient};
use super::check::InputSummary;
use super::journal::AcknowledgedRows;
use super::rows::InputRows;
use crate::dead::Letter;
use tidegate_core::draft::{InputRow, MailOrigin};

/// The ledger is written and read this often, so that a cancel reaches a run within 5 s.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// Tries of a write that others come before.
const TRIES: usize = 8;

/// A run cannot begin, or go on; nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(
        "this list was sent with this message before, as run {name}: {said}; nothing was sent. {go_on}To send to everybody once more: --again NAME, a run's new name"
    )]
    Known { name: String, said: String, go_on: String },
    #[error(
        "the campaign has a run {name} with another list or message: {said}; nothing was sent. Give this one another name: --run NAME"
    )]
    NameTaken { name: String, said: String },
    #[error(
        "run {name} was cancelled: {said}; nothing was sent. To send to all who have not got it: --rest-of {name}"
    )]
    Cancelled { name: String, said: String },
    #[error(
        "of run {name}, the cancel deleted the mail it took back (--delete), and nothing says whose that was; nothing was sent. Where deduplication is on, `tidegate results JOURNAL --status cancelled --csv FILE` names them, for --only FILE"
    )]
    Deleted { name: String },
    #[error(
        "the rest of run {name} was begun as run {rest}; nothing was sent. To go on: --rest-of {name}"
    )]
    RestBegun { name: String, rest: String },
    #[error(
        "run {name} is being sent: {said}; nothing was sent. Wait for its end, or end it there (a run that was killed counts as ended a minute later)"
    )]
    Live { name: String, said: String },
    #[error("the campaign {campaign} has no run {name}; it has: {known}")]
    Unknown { campaign: String, name: String, known: String },
    #[error("run {name} goes on at {host}; this one has ended")]
    TakenOver { name: String, host: String },
    #[error("the ledger was changed {TRIES} times by others meanwhile; run the command again")]
    Conflict,
    /// Deduplication would delete the mails, because they have the same ids.
    #[error(
        "--again: {} of the input's own, and deduplication deletes a mail whose id was sent within {}; nothing was sent. To send all once more they need other ids: --id-column NAME, or an input without ids; to send those only that were not sent: --run NAME", counted(*.given_ids, "id"), days(*.kept)
    )]
    SameIds {
        given_ids: u64,
        /// How long deduplication remembers an id.
        kept: Duration,
    },
    #[error(transparent)]
    Port(#[from] PortError),
}

/// How long marks are kept, in days.
pub(super) fn days(kept: Duration) -> String {
    counted(kept.as_secs() / 86_400, "day")
}

/// Checks that the mails can be sent once more. `kept` is how long deduplication remembers an id; `None` if it is off.
///
/// # Errors
/// [`RunError::SameIds`].
pub fn check_resend(checked: &InputSummary, kept: Option<Duration>) -> Result<(), RunError> {
    match kept {
        Some(kept) if checked.given_ids > 0 => {
            Err(RunError::SameIds { given_ids: checked.given_ids, kept })
        }
        _ => Ok(()),
    }
}

/// The operator's wish for a run whose list may have been sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownList {
    Refuse,
    /// Go on with a run that another host began.
    Continue,
    /// Send to everybody once more, or to those that an earlier run left.
    SendAgain,
}

/// Decides whether `wanted` may begin, or go on after what its journal, if it has one, and the ledger's `known` runs say.
/// Returns it as it is to be written, with all rows that are settled.
///
/// # Errors
/// [`RunError`], which says how to go on.
pub fn admitted(
    known: &[StoredRun],
    wanted: Run,
    journal: Option<&RowRanges>,
    wish: KnownList,
) -> Result<StoredRun, RunError> {
    let now = wanted.seen;
    let of_campaign = || known.iter().filter(|stored| stored.run.campaign == wanted.campaign);
    let own = of_campaign().find(|stored| stored.run.name == wanted.name);
    let refused = |run: &Run| known_list(run, &wanted, now);
    let is_same = |run: &Run| {
        let (known, input) = (&run.input, &wanted.input);
        (&known.list, &known.message) == (&input.list, &input.message)
    };
    let Some(own) = own else {
        let same = of_campaign().find(|stored| is_same(&stored.run));
        let is_refused = journal.is_none() && wish != KnownList::SendAgain;
        return match same {
            Some(same) if is_refused => Err(refused(&same.run)),
            _ => Ok(StoredRun { version: 0, run: taken_over(wanted, journal, None) }),
        };
    };
    let (name, said) = (own.run.name.clone(), in_words(&own.run, now));
    if !is_same(&own.run) {
        return Err(RunError::NameTaken { name, said });
    }
    if own.run.stage == RunStage::Done || journal.is_none() && wish != KnownList::Continue {
        return Err(refused(&own.run));
    }
    // The journal of this host is locked: nobody else on it sends this run.
    let elsewhere = own.run.sender.host != wanted.sender.host || journal.is_none();
    if elsewhere && own.run.is_live(now) {
        return Err(RunError::Live { name, said });
    }
    if own.run.stage == RunStage::Cancelled
        || wanted.before.cancelled_at != own.run.before.cancelled_at
    {
        return Err(RunError::Cancelled { name, said });
    }
    if let Some(rest) = own.run.rest.last().cloned() {
        return Err(RunError::RestBegun { name, rest });
    }
    Ok(StoredRun { version: own.version, run: taken_over(wanted, journal, Some(&own.run)) })
}

fn known_list(run: &Run, wanted: &Run, now: EpochMillis) -> RunError {
    let named =
        if run.name == wanted.name { String::new() } else { format!("--run {} ", run.name) };
    let go_on = match run.stage {
        RunStage::Done => String::new(),
        RunStage::Sending if run.uploaded.is_some() => String::new(),
        RunStage::Cancelled => {
            format!("To send to all who have not got it: --rest-of {}. ", run.name)
        }
        _ => format!("To go on with the rows that are left: {named}--continue. "),
    };
    RunError::Known { name: run.name.clone(), said: in_words(run, now), go_on }
}

/// `wanted`, with what the journal and the run in the ledger say of its rows.
fn taken_over(wanted: Run, journal: Option<&RowRanges>, own: Option<&Run>) -> Run {
    let mut run = match own {
        Some(own) => {
            let Run { sender, seen, stage, .. } = wanted;
            Run { sender, seen, stage, uploaded: None, ..own.clone() }
        }
        None => wanted,
    };
    if let Some(rows) = journal {
        run.settled.extend(rows);
        run.enqueued = run.enqueued.max(rows.count());
    }
    run
}

/// A run in words: `begun 26 min ago on HOST, 412 of 500 enqueued`.
pub fn in_words(run: &Run, now: EpochMillis) -> String {
    let ago = now.saturating_since(run.began);
    let (enqueued, rows) = (count(run.enqueued), count(run.input.rows));
    format!("begun {} ago on {}, {enqueued} of {rows} enqueued", span(ago), run.sender.host)
}

/// The order for a run, by the control record as it was last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunOrder {
    Go,
    /// A pause holds the campaign, or all sending; its detail.
    Wait(String),
    /// The level defers the run's mail.
    Defer(BackPressureLevel),
    /// A cancel has ended it.
    Cancelled,
}

/// The run in the ledger while its rows are enqueued.
#[derive(Debug)]
pub struct RunRecord<'a, L> {
    ledger: &'a L,
    stored: StoredRun,
    order: RunOrder,
    /// When the pause began that stood at the first look: whoever sends during a pause means it. `None` before that.
    meant: Option<EpochMillis>,
    next: Option<Monotonic>,
}

impl<'a, L: Ledger + Runs> RunRecord<'a, L> {
    /// Writes the run, and with it takes it over from whoever had it.
    ///
    /// # Errors
    /// [`RunError`]; then nothing may be enqueued.
    pub async fn begin(ledger: &'a L, stored: StoredRun) -> Result<Self, RunError> {
        let (stage, seen) = (stored.run.stage, stored.run.seen);
        let mut record = Self { ledger, stored, order: RunOrder::Go, meant: None, next: None };
        record.write(stage, seen).await?;
        Ok(record)
    }

    /// The run as it stands.
    pub const fn run(&self) -> &Run {
        &self.stored.run
    }

    /// When it is looked at next; `None` before the first time.
    pub(super) const fn next_look(&self) -> Option<Monotonic> {
        self.next
    }

    /// Adds rows that were enqueued.
    pub(super) fn acknowledge(&mut self, rows: &AcknowledgedRows) {
        rows.rows.iter().for_each(|(first, last)| self.stored.run.settled.insert(*first, *last));
        self.stored.run.enqueued += rows.ids.len() as u64;
    }

    /// Adds a row that gets no mail.
    pub(super) fn leave_out(&mut self, row: u64) {
        self.stored.run.settled.insert(row, row);
    }

    /// Writes how far the run is, and reads what its mail of this priority has to do, if that was not done lately. While
    /// the ledger does not answer a pause stays, and mail that the level defers goes: a queue can hold it.
    ///
    /// # Errors
    /// [`RunError::TakenOver`].
    pub(super) async fn look(
        &mut self,
        stage: RunStage,
        priority: Priority,
        clock: &impl Clock,
    ) -> Result<&RunOrder, RunError> {
        let now = clock.monotonic();
        if self.order == RunOrder::Cancelled || self.next.is_some_and(|next| now < next) {
            return Ok(&self.order);
        }
        if let Ok(standing) = self.ledger.read().await {
            let mut control = standing.control;
            control.expire(clock.wall().into());
            let own = Some(self.stored.run.campaign.as_str());
            let paused = |of| control.holds_on(of)?.get(HoldReason::Paused);
            let newest = [own, None].into_iter().filter_map(paused).max_by_key(|hold| hold.since);
            let level = control.level(clock.wall().into());
            let stood = newest.map_or(EpochMillis::new(0), |hold| hold.since);
            let meant = *self.meant.get_or_insert(stood);
            self.order = match newest.filter(|hold| hold.since > meant) {
                _ if self.stored.run.cancel_of(&control).is_some() => RunOrder::Cancelled,
                Some(hold) => RunOrder::Wait(hold.detail.clone()),
                None if level.defers(priority) => RunOrder::Defer(level),
                None => RunOrder::Go,
            };
        } else if matches!(self.order, RunOrder::Defer(_)) {
            self.order = RunOrder::Go;
        }
        let waits = matches!(self.order, RunOrder::Wait(_));
        let stage = if waits { RunStage::Waiting } else { stage };
        match self.write(stage, clock.wall().into()).await {
            Err(taken @ RunError::TakenOver { .. }) => return Err(taken),
            // It is written the next time.
            _ => self.next = Some(clock.monotonic() + LOOK_EVERY),
        }
        Ok(&self.order)
    }

    /// Writes that the run is at this stage now.
    ///
    /// # Errors
    /// [`RunError`].
    pub async fn write(&mut self, stage: RunStage, now: EpochMillis) -> Result<(), RunError> {
        (self.stored.run.stage, self.stored.run.seen) = (stage, now);
        for _ in 0..TRIES {
            if self.ledger.set_run(&self.stored).await? {
                self.stored.version += 1;
                return Ok(());
            }
            let key = RunKey::of(&self.stored.run);
            let Some(stands) = key.find(self.ledger).await? else {
                self.stored.version = 0;
                continue;
            };
            if stands.run.sender.token != self.stored.run.sender.token {
                let host = stands.run.sender.host;
                return Err(RunError::TakenOver { name: key.name, host });
            }
            // Its mail was taken back meanwhile; or this is a write whose answer was lost.
            self.stored.version = stands.version;
            (self.stored.run.returned, self.stored.run.rest) =
                (stands.run.returned, stands.run.rest);
        }
        Err(RunError::Conflict)
    }
}

/// The campaign and the name of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKey {
    pub campaign: String,
    pub name: String,
}

impl RunKey {
    fn of(run: &Run) -> Self {
        Self { campaign: run.campaign.clone(), name: run.name.clone() }
    }

    async fn find(&self, ledger: &impl Runs) -> Result<Option<StoredRun>, PortError> {
        let mut runs = ledger.runs(RUNS_KEPT).await?.into_iter();
        Ok(runs.find(|stored| Self::of(&stored.run) == *self))
    }
}

/// Changes a run that others may write too.
pub(super) async fn change_run(
    ledger: &impl Runs,
    key: &RunKey,
    change: impl Fn(&mut Run),
) -> Result<(), RunError> {
    for _ in 0..TRIES {
        let Some(mut stored) = key.find(ledger).await? else { return Ok(()) };
        let before = stored.run.clone();
        change(&mut stored.run);
        if before == stored.run || ledger.set_run(&stored).await? {
            return Ok(());
        }
    }
    Err(RunError::Conflict)
}

/// The rows of cancelled mails among `letters`, by run.
pub fn cancelled_rows<'a>(
    letters: impl IntoIterator<Item = &'a Letter>,
) -> BTreeMap<RunKey, RowRanges> {
    let mut rows: BTreeMap<RunKey, RowRanges> = BTreeMap::new();
    for letter in letters.into_iter().filter(|letter| letter.code() == Some(CANCELLED)) {
        let Some(entry) = letter.entry() else { continue };
        if let Some(MailOrigin { run, row }) = MailOrigin::of(&entry.message) {
            let key = RunKey { campaign: entry.campaign.clone(), name: run };
            rows.entry(key).or_default().insert(row, row);
        }
    }
    rows
}

/// Writes of each run which rows were taken back, before their letters go.
///
/// # Errors
/// [`RunError`]; the letters must stay then.
pub(crate) async fn record_returned(
    ledger: &impl Runs,
    rows: &BTreeMap<RunKey, RowRanges>,
) -> Result<(), RunError> {
    for (key, rows) in rows {
        change_run(ledger, key, |run| run.returned.extend(rows)).await?;
    }
    Ok(())
}

/// A run and those that were begun for its rest, none of which is being enqueued.
///
/// # Errors
/// [`RunError::Unknown`], [`RunError::Live`] and [`RunError::Deleted`].
pub fn chain(
    known: &[StoredRun],
    key: &RunKey,
    control: &Control,
    now: EpochMillis,
) -> Result<Vec<Run>, RunError> {
    let runs = || known.iter().map(|stored| &stored.run);
    let of_campaign = || runs().filter(|run| run.campaign == key.campaign);
    let named = |name: &str| of_campaign().find(|run| run.name == name);
    let Some(first) = named(&key.name) else {
        let known: Vec<&str> = of_campaign().map(|run| run.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let RunKey { campaign, name } = key.clone();
        return Err(RunError::Unknown { campaign, name, known });
    };
    let chain: Vec<Run> = std::iter::once(first)
        .chain(first.rest.iter().filter_map(|rest| named(rest)))
        .cloned()
        .collect();
    let deleted = |run: &&Run| run.cancel_of(control).is_some_and(|cancel| !cancel.keep);
    if let Some(live) = chain.iter().find(|run| run.is_live(now)) {
        return Err(RunError::Live { name: live.name.clone(), said: in_words(live, now) });
    }
    match chain.iter().find(deleted) {
        Some(run) => Err(RunError::Deleted { name: run.name.clone() }),
        None => Ok(chain),
    }
}

/// The name under which the rest of a run is sent: of the one that was begun and is not finished, else a new one.
pub fn rest_name(chain: &[Run], first: &str) -> String {
    let open = chain[1..]
        .iter()
        .find(|run| run.stage != RunStage::Done && run.stage != RunStage::Cancelled);
    match (open, chain.len()) {
        (Some(open), _) => open.name.clone(),
        (None, 1) => format!("{first}-rest"),
        (None, runs) => format!("{first}-rest-{runs}"),
    }
}

/// Adds the recipients of a run's list whose mail went out, or will. Rows that cannot be read got none.
pub fn add_sent(list: &mut AddressList, run: &Run, rows: InputRows<'_>, to_column: Option<&str>) {
    for row in rows.flatten().filter(|row| run.has_sent(row.number)) {
        if let Some(address) = recipient_of(&row, to_column).and_then(|to| recipient(&to).ok()) {
            list.add(&address);
        }
    }
}

/// The recipient of a row, as its list has it.
pub(crate) fn recipient_of(row: &InputRow, to_column: Option<&str>) -> Option<String> {
    let columns = to_column.map_or_else(|| vec!["to", "email", "to_phone"], |name| vec![name]);
    columns.into_iter().find_map(|name| row.text(name))
}

/// Writes that the rest of a run is sent as the run `rest`: so it does not go on itself.
///
/// # Errors
/// [`RunError`].
pub async fn record_rest(ledger: &impl Runs, key: &RunKey, rest: &str) -> Result<(), RunError> {
    change_run(ledger, key, |run| {
        if !run.rest.iter().any(|known| known == rest) {
            run.rest.push(rest.to_owned());
        }
    })
    .await
}

/// Reads the depths and counters before a run, for its journal; `tidegate results` compares later
/// values with them. `own` are the campaign's queues, `shared` those on which mails of all
/// campaigns wait.
pub async fn baseline(
    queues: &impl Queues,
    ledger: &impl Ledger,
    campaign: &str,
    own: &[QueueUrl],
    shared: &[QueueUrl],
) -> Result<Baseline, PortError> {
    let standing = ledger.read().await?;
    let counters = standing.counters;
    Ok(Baseline {
        sent: Counter::Sent.sum_of(campaign, &counters),
        possibly_sent: Counter::PossiblySent.sum(&counters),
        queued: depth_of(queues, own).await?.all(),
        merging: depth_of(queues, shared).await?.all(),
        dead: Counter::Dead.sum_of(campaign, &counters),
        cancelled: Counter::Cancelled.sum_of(campaign, &counters),
        excluded: Counter::Excluded.sum_of(campaign, &counters),
        cancelled_at: standing.control.cancels.get(campaign).map(|cancel| cancel.at),
    })
}

/// The messages on these queues together.
pub(crate) async fn depth_of(
    queues: &impl Queues,
    all: &[QueueUrl],
) -> Result<QueueDepth, PortError> {
    let mut sum = QueueDepth::default();
    for queue in all {
        sum = sum + queues.depth(queue).await?;
    }
    Ok(sum)
}
