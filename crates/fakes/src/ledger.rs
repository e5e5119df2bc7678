//! The ledger in memory, its control record, and the sizes that its items would have in DynamoDB.

use std::collections::BTreeMap;

use tidegate_core::control::{ChangeRecord, Control, LONGEST, NOT_FOR_POLLERS, StoredControl};
use tidegate_core::deduplication::{Acceptance, Mark, MarkState};
use tidegate_core::factor::RateFactor;
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_core::idle::QueueChecks;
use tidegate_core::limiter::WindowLeft;
use tidegate_core::parts::{KEPT, campaign_of};
use tidegate_core::runs::{RUNS_KEPT, Run};
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::{
    CHANGES_KEPT, Claim, ClaimRequest, ExclusionShard, Exclusions, FailureKind, History, Ledger,
    LedgerReport, MarkRequest, MarkResult, Marks, Part, PartChange, PortError, PreviousClaim, Runs,
    Standing, StoredRun,
};

use crate::faults::{Fake, Operation};

/// The ledger in memory: good for the pollers of one process. A clone is the same ledger.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tidegate_core::{Window, rate::{RateMargin, Rate}};
/// use tidegate_delivery::ports::{Claim, ClaimRequest, Ledger};
/// use tidegate_fakes::MemoryLedger;
/// let ledger = MemoryLedger::default();
/// let mut request = ClaimRequest {
///     window: Window::from_epoch_second(1_795_207_000),
///     quota: Rate::per_second(14.0).unwrap(),
///     rate_margin: RateMargin::default(),
///     limits: 0,
///     token: "first".into(),
/// };
/// assert!(matches!(ledger.claim(&request).await, Ok(Claim::Claimed(_))));
/// request.token = "second".into();
/// assert!(matches!(ledger.claim(&request).await, Ok(Claim::Taken { .. })));
/// # }
/// ```
pub type MemoryLedger = Fake<LedgerState>;

#[derive(Debug, Default)]
pub struct LedgerState {
    newest: Option<NewestClaim>,
    factor: RateFactor,
    control: ControlItems,
    units: LedgerUnits,
    /// The counters' parts by number, each with the window at which it expires.
    parts: BTreeMap<u32, (Part, Option<Window>)>,
    /// The number of parts, as the newest report gives it.
    count: u32,
    looks: QueueChecks,
    window_left: Option<WindowLeft>,
    marks: BTreeMap<Identity, StoredMark>,
    changes: Vec<ChangeRecord>,
    exclusions: BTreeMap<u8, ExclusionShard>,
    /// The runs, the newest first.
    runs: Vec<StoredRun>,
}

/// A mark, and the time at which it expires.
#[derive(Debug)]
struct StoredMark {
    mark: Mark,
    until: Timestamp,
}

#[derive(Debug)]
struct NewestClaim {
    claim: PreviousClaim,
    token: String,
    /// The window the claim was made for. A mail with many recipients claims further windows
    /// (`advance`), which moves the claim's own window past this one.
    opened: Window,
    /// The previous claim, returned again if the same token repeats its claim after a lost answer.
    previous: Option<PreviousClaim>,
}

impl MemoryLedger {
    /// The DynamoDB units that the calls so far would have used, without those of marks.
    pub fn units(&self) -> LedgerUnits {
        self.state.with(|state| state.units)
    }

    /// The sizes of its items in bytes, by key, as DynamoDB would store them; marks and the history
    /// of changes are left out.
    pub fn sizes(&self) -> BTreeMap<String, usize> {
        self.state.with(|state| {
            let parts = state.parts.iter();
            let parts = parts.map(|(place, (part, _))| (format!("sums#{place}"), of_part(part)));
            let claim = ("regulator".to_owned(), state.control.claim_bytes);
            let control = state.control.stored.apart.iter();
            let control = control.map(|(name, (_, text))| (format!("control#{name}"), text.len()));
            parts.chain(control).chain([claim]).collect()
        })
    }
}

impl LedgerState {
    fn claim(&mut self, request: &ClaimRequest) -> Claim {
        let claim = PreviousClaim {
            window: request.window,
            quota: request.quota,
            rate_margin: request.rate_margin,
            limits: request.limits,
            changed_limits: self.control.whole.limits_digest(),
            factor: self.factor,
        };
        match &self.newest {
            Some(NewestClaim { claim, token, opened, .. }) if claim.window >= request.window => {
                // The same token claims again after a lost answer, and gets the same claim.
                if claim.window != request.window || *token != request.token {
                    let owed = *opened < request.window;
                    return Claim::Taken { newest: claim.window, owed };
                }
            }
            _ => {
                let previous = self.newest.take().map(|newest| newest.claim);
                let token = request.token.clone();
                let opened = request.window;
                self.newest = Some(NewestClaim { claim, token, opened, previous });
            }
        }
        self.units.add_written(self.control.claim_bytes);
        let previous = self.newest.as_ref().and_then(|newest| newest.previous);
        let control = self.control.for_pollers.clone();
        Claim::Claimed(self.standing(previous, request.window, control))
    }

    fn report(&mut self, report: &LedgerReport) -> Result<(), FailureKind> {
        let legal = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
        let is_name = |name: &String| (1..=128).contains(&name.len()) && name.chars().all(legal);
        if !report.counters.keys().all(is_name) {
            return Err(FailureKind::Refused("ValidationException".to_owned()));
        }
        for (place, change) in report.by_part() {
            let (mut part, _) = self.parts.get(&place).cloned().unwrap_or_default();
            apply(&mut part, change);
            let bytes = of_part(&part);
            if bytes > LARGEST {
                return Err(FailureKind::Refused("ValidationException".to_owned()));
            }
            self.units.add_written(bytes);
            let expires = (place > 0).then(|| report.window.plus(KEPT.as_secs()));
            self.parts.insert(place, (part, expires));
        }
        if report.upkeep.parts > 0 {
            self.count = report.upkeep.parts;
        }
        self.looks.found = report.looks.found.or(self.looks.found);
        self.looks.empty = report.looks.empty.or(self.looks.empty);
        self.looks.due = report.looks.due.or(self.looks.due);
        self.window_left = report.window_left.or(self.window_left);
        Ok(())
    }

    fn set_control(&mut self, version: u64, control: &Control) -> Result<bool, FailureKind> {
        // Another writer was faster: the caller reads again and repeats its change.
        if self.control.version != version {
            return Ok(false);
        }
        let before = &self.control.stored.apart;
        let stored = StoredControl::of(control, version + 1, before);
        let mut stored = stored.map_err(|error| FailureKind::Refused(error.to_string()))?;
        if stored.apart.values().any(|(_, text)| text.len() > LONGEST) {
            return Err(FailureKind::Refused("ValidationException".to_owned()));
        }
        let written = stored.apart.values().filter(|(at, _)| at.version == version + 1);
        // A transactional write costs twice as much as a single one.
        written.for_each(|(_, text)| self.units.add_written(2 * text.len()));
        // Members that the writer did not read keep their items and references.
        let referred: Vec<String> = stored.references().map(|(name, _)| name.to_owned()).collect();
        for (name, member) in before.iter().filter(|(name, _)| referred.contains(name)) {
            stored.apart.entry(name.clone()).or_insert_with(|| member.clone());
        }
        self.control = ControlItems::new(stored, version + 1);
        self.units.add_written(self.control.claim_bytes);
        Ok(true)
    }

    fn mark(&mut self, request: &MarkRequest) -> MarkResult {
        let found =
            self.marks.get(&request.identity).filter(|stored_mark| stored_mark.until > request.now);
        if let Some(StoredMark { mark, .. }) = found
            && request.replaces.as_ref() != Some(&mark.token)
        {
            return if mark.token == request.token {
                MarkResult::Ours
            } else {
                MarkResult::Found(mark.clone())
            };
        }
        let mark = Mark {
            state: MarkState::Sending,
            token: request.token.clone(),
            pass: request.pass,
            since: EpochMillis::from(request.now),
            accepted: None,
        };
        let stored_mark = StoredMark { mark, until: request.now + request.kept };
        self.marks.insert(request.identity.clone(), stored_mark);
        MarkResult::Ours
    }

    /// The ledger's state at `now`. DynamoDB deletes expired items days late, so items that have
    /// expired are skipped here.
    fn standing(&mut self, last: Option<PreviousClaim>, now: Window, control: Control) -> Standing {
        let parts = self.parts.iter().filter(|(_, (_, until))| until.is_none_or(|at| at > now));
        let parts: BTreeMap<u32, Part> =
            parts.map(|(place, (part, _))| (*place, part.clone())).collect();
        for part in parts.values() {
            self.units.add_read(of_part(part));
        }
        let standing = Standing {
            previous: last,
            factor: self.factor,
            control,
            control_version: self.control.version,
            looks: self.looks,
            window_left: self.window_left,
            ..Standing::default()
        };
        standing.with_parts(parts, self.count)
    }
}

fn apply(part: &mut Part, change: PartChange) {
    for (counter, added) in change.counters {
        let sum = part.counters.entry(counter).or_default();
        *sum = sum.saturating_add(added);
    }
    set(&mut part.idle, change.idle);
    set(&mut part.left, change.left);
    for campaign in change.past {
        part.counters.retain(|counter, _| campaign_of(counter) != Some(&campaign));
        part.idle.remove(&campaign);
    }
}

fn set<T>(stands: &mut BTreeMap<String, T>, changes: BTreeMap<String, Option<T>>) {
    for (name, value) in changes {
        match value {
            Some(value) => drop(stands.insert(name, value)),
            None => drop(stands.remove(&name)),
        }
    }
}

/// The resource of calls that concern the whole ledger.
const LEDGER: &str = "memory ledger";

impl Ledger for MemoryLedger {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, PortError> {
        self.call(Operation::Claim, request.window, |state| state.claim(request)).await
    }

    async fn advance(&self, token: &str, through: Window) -> Result<bool, PortError> {
        let advance = |state: &mut LedgerState| match &mut state.newest {
            Some(newest) if newest.token == token && newest.claim.window <= through => {
                newest.claim.window = through;
                true
            }
            _ => false,
        };
        self.call(Operation::Advance, through, advance).await
    }

    /// A read claims nothing, so its `previous` is the newest claim.
    async fn read(&self) -> Result<Standing, PortError> {
        let read = |state: &mut LedgerState| {
            let newest = state.newest.as_ref().map(|newest| newest.claim);
            let now = newest.map(|claim| claim.window).unwrap_or_default();
            let control = state.control.whole.clone();
            state.standing(newest, now, control)
        };
        self.call(Operation::Read, LEDGER, read).await
    }

    async fn report(&self, report: &LedgerReport) -> Result<(), PortError> {
        self.try_call(Operation::Report, LEDGER, |state| state.report(report)).await
    }

    async fn set_factor(&self, from: RateFactor, to: RateFactor) -> Result<bool, PortError> {
        let set = |state: &mut LedgerState| {
            let stands = state.factor == from;
            if stands {
                state.factor = to;
            }
            stands
        };
        self.call(Operation::SetFactor, LEDGER, set).await
    }

    async fn set_control(&self, version: u64, control: &Control) -> Result<bool, PortError> {
        let set = |state: &mut LedgerState| state.set_control(version, control);
        self.try_call(Operation::SetControl, LEDGER, set).await
    }
}

impl History for MemoryLedger {
    async fn add(&self, change: &ChangeRecord) -> Result<(), PortError> {
        let add = |state: &mut LedgerState| {
            state.changes.insert(0, change.clone());
            state.changes.truncate(CHANGES_KEPT);
        };
        self.call(Operation::AddChange, &change.action, add).await
    }

    async fn changes(&self) -> Result<Vec<ChangeRecord>, PortError> {
        self.call(Operation::ReadChanges, LEDGER, |state| state.changes.clone()).await
    }
}

impl Marks for MemoryLedger {
    async fn mark(&self, request: &MarkRequest) -> Result<MarkResult, PortError> {
        let mark = |state: &mut LedgerState| state.mark(request);
        self.call(Operation::Mark, request.identity.as_str(), mark).await
    }

    async fn set_sent(&self, identity: &Identity, answer: &Acceptance) -> Result<bool, PortError> {
        let set = |state: &mut LedgerState| {
            let Some(StoredMark { mark, .. }) = state.marks.get_mut(identity) else { return false };
            (mark.state, mark.accepted) = (MarkState::Sent, Some(answer.clone()));
            true
        };
        self.call(Operation::SetMark, identity.as_str(), set).await
    }

    async fn set_parked(
        &self,
        identity: &Identity,
        token: &str,
        pass: u32,
    ) -> Result<bool, PortError> {
        let set = |state: &mut LedgerState| match state.marks.get_mut(identity) {
            Some(StoredMark { mark, .. }) if mark.token == token => {
                (mark.state, mark.pass) = (MarkState::Parked, pass);
                true
            }
            _ => false,
        };
        self.call(Operation::SetMark, identity.as_str(), set).await
    }

    async fn unmark(&self, identity: &Identity, token: &str) -> Result<bool, PortError> {
        let unmark = |state: &mut LedgerState| {
            let ours = state.marks.get(identity).is_some_and(|StoredMark { mark, .. }| {
                mark.token == token && mark.state == MarkState::Sending
            });
            ours && state.marks.remove(identity).is_some()
        };
        self.call(Operation::Unmark, identity.as_str(), unmark).await
    }

    async fn find(&self, identities: &[Identity]) -> Result<Vec<Option<Mark>>, PortError> {
        let find = |state: &mut LedgerState| {
            let mark = |identity| Some(state.marks.get(identity)?.mark.clone());
            identities.iter().map(mark).collect()
        };
        self.call(Operation::FindMarks, LEDGER, find).await
    }
}

impl Exclusions for MemoryLedger {
    async fn shards(&self, numbers: &[u8]) -> Result<Vec<ExclusionShard>, PortError> {
        let read = |state: &mut LedgerState| {
            let shard = |number| state.exclusions.get(number).cloned().unwrap_or_default();
            numbers.iter().map(shard).collect()
        };
        self.call(Operation::ReadExclusions, LEDGER, read).await
    }

    async fn set_shard(&self, number: u8, shard: &ExclusionShard) -> Result<bool, PortError> {
        let set = |state: &mut LedgerState| {
            let stands = state.exclusions.entry(number).or_default();
            let is_same = stands.version == shard.version;
            if is_same {
                *stands = ExclusionShard { version: shard.version + 1, keys: shard.keys.clone() };
            }
            is_same
        };
        self.call(Operation::SetExclusions, number, set).await
    }
}

impl Runs for MemoryLedger {
    async fn runs(&self, most: usize) -> Result<Vec<StoredRun>, PortError> {
        let read = |state: &mut LedgerState| state.runs.iter().take(most).cloned().collect();
        self.call(Operation::ReadRuns, LEDGER, read).await
    }

    async fn set_run(&self, stored: &StoredRun) -> Result<bool, PortError> {
        let of = |run: &Run| (run.campaign.clone(), run.name.clone());
        let set = |state: &mut LedgerState| {
            let next = StoredRun { version: stored.version + 1, run: stored.run.clone() };
            match state.runs.iter_mut().find(|known| of(&known.run) == of(&stored.run)) {
                Some(known) if known.version == stored.version => *known = next,
                None if stored.version == 0 => state.runs.insert(0, next),
                _ => return false,
            }
            state.runs.truncate(RUNS_KEPT);
            true
        };
        self.call(Operation::SetRun, &stored.run.name, set).await
    }
}

/// The control record as it is stored, and as it is read. Each claim reads it, so it is read once when it is written.
#[derive(Debug)]
struct ControlItems {
    stored: StoredControl,
    version: u64,
    whole: Control,
    /// The record without what a claim does not return.
    for_pollers: Control,
    /// Size of the claim's item, of which the record is the largest part.
    claim_bytes: usize,
}

impl Default for ControlItems {
    fn default() -> Self {
        Self::new(StoredControl::default(), 0)
    }
}

impl ControlItems {
    /// The record was written by this ledger, so it always parses.
    fn new(stored: StoredControl, version: u64) -> Self {
        let mut claimed = stored.clone();
        claimed.apart.remove(NOT_FOR_POLLERS);
        Self {
            whole: stored.control().unwrap_or_default(),
            for_pollers: claimed.control().unwrap_or_default(),
            claim_bytes: of_claim(&stored),
            stored,
            version,
        }
    }
}

const LARGEST: usize = 400 * 1_024;

/// Bytes of a number with up to ten digits: DynamoDB stores two digits in a byte, and one byte
/// more.
const NUMBER: usize = 6;
const TOKEN: usize = 32;
/// The rate factor as JSON, with a cap.
const FACTOR: usize = 120;

/// The DynamoDB read and write units that the ledger's calls would have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerUnits {
    /// Read units: one for each begun 4 KB of an item.
    pub read: usize,
    /// Write units: one for each begun KB of the whole item, however little of it was changed.
    pub written: usize,
}

impl LedgerUnits {
    fn add_read(&mut self, bytes: usize) {
        self.read += bytes.div_ceil(4 * 1_024).max(1);
    }

    fn add_written(&mut self, bytes: usize) {
        self.written += bytes.div_ceil(1_024).max(1);
    }
}

/// Bytes of the claim's item: the names of its attributes and their values.
fn of_claim(stored: &StoredControl) -> usize {
    const NUMBERS: [&str; 13] = [
        "window",
        "opened",
        "rate",
        "margin",
        "initial_limits",
        "prev_window",
        "prev_rate",
        "prev_margin",
        "prev_initial_limits",
        "limits",
        "claimed_limits",
        "prev_claimed_limits",
        "control_version",
    ];
    const FACTORS: [&str; 3] = ["factor", "claimed_factor", "prev_claimed_factor"];
    "pk".len()
        + "regulator".len()
        + NUMBERS.iter().map(|name| name.len() + NUMBER).sum::<usize>()
        + FACTORS.iter().map(|name| name.len() + FACTOR).sum::<usize>()
        + ["token", "control_token"].iter().map(|name| name.len() + TOKEN).sum::<usize>()
        + "control".len()
        + stored.inline_bytes()
}

fn of_part(part: &Part) -> usize {
    let digits = |number: u64| number.checked_ilog10().map_or(1, |digits| digits as usize + 1);
    let counters = part.counters.iter();
    let counters = counters
        .map(|(name, sum)| "n.".len() + name.len() + digits(sum.unsigned_abs()).div_ceil(2) + 1);
    let idle = part.idle.iter().map(|(queue, idle)| {
        "idle.".len() + queue.len() + digits(idle.until.epoch_second()) + 1 + digits(idle.pause)
    });
    let left = part.left.keys().map(|name| "left.".len() + name.len() + NUMBER);
    let numbers = ["parts", "last_find", "last_empty"].iter().map(|name| name.len() + NUMBER);
    let all = counters.chain(idle).chain(left).chain(numbers).sum::<usize>();
    all + "pk".len() + "sums#15".len() + "last_report".len() + TOKEN
}
