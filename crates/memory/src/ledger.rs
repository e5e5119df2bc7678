use std::collections::BTreeMap;

use tidegate_core::Timestamp;
use tidegate_core::Window;
use tidegate_core::control::{ChangeRecord, Control, LONGEST, NOT_FOR_POLLERS, StoredControl};
use tidegate_core::deduplication::{Mark, MarkState};
use tidegate_core::factor::RateFactor;
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_core::idle::QueueChecks;
use tidegate_core::parts::{KEPT, campaign_of};
use tidegate_delivery::ports::{
    CHANGES_KEPT, Claim, ClaimRequest, FailureKind, History, Ledger, LedgerReport, MarkRequest,
    MarkResult, Marks, Part, PartChange, PortError, PreviousClaim, Standing,
};

use crate::ledger_size::{LARGEST, LedgerUnits, of_claim, of_part};
use crate::shared::SharedState;

/// The ledger in memory: good for the pollers of one process. A clone is the same ledger.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tidegate_core::{Window, rate::{RateMargin, Rate}};
/// use tidegate_delivery::ports::{Claim, ClaimRequest, Ledger};
/// use tidegate_memory::MemoryLedger;
/// let ledger = MemoryLedger::default();
/// let mut request = ClaimRequest {
///     window: Window::from_epoch_second(1_795_207_000),
///     rate: Rate::per_second(14.0).unwrap(),
///     rate_margin: RateMargin::default(),
///     limits: 0,
///     token: "first".into(),
/// };
/// assert!(matches!(ledger.claim(&request).await, Ok(Claim::Claimed(_))));
/// request.token = "second".into();
/// assert!(matches!(ledger.claim(&request).await, Ok(Claim::Taken { .. })));
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryLedger(SharedState<LedgerState>);

#[derive(Debug, Default)]
struct LedgerState {
    newest: Option<NewestClaim>,
    factor: RateFactor,
    control: StoredControl,
    control_version: u64,
    units: LedgerUnits,
    /// The counters' parts by number, each with the window at which it expires.
    parts: BTreeMap<u32, (Part, Option<Window>)>,
    /// The number of parts, as the newest report gives it.
    count: u32,
    looks: QueueChecks,
    marks: BTreeMap<Identity, StoredMark>,
    changes: Vec<ChangeRecord>,
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

impl Default for MemoryLedger {
    fn default() -> Self {
        Self(SharedState::new(LedgerState::default()))
    }
}

impl MemoryLedger {
    /// The DynamoDB units that the calls so far would have used, without those of marks.
    pub fn units(&self) -> LedgerUnits {
        self.0.with(|state| state.units)
    }

    /// The sizes of its items in bytes, by key, as DynamoDB would store them; marks and the history
    /// of changes are left out.
    pub fn sizes(&self) -> BTreeMap<String, usize> {
        self.0.with(|state| {
            let parts = state.parts.iter();
            let parts = parts.map(|(place, (part, _))| (format!("sums#{place}"), of_part(part)));
            let claim = ("regulator".to_owned(), of_claim(&state.control));
            let control = state.control.apart.iter();
            let control = control.map(|(name, (_, text))| (format!("control#{name}"), text.len()));
            parts.chain(control).chain([claim]).collect()
        })
    }
}

impl LedgerState {
    fn claim(&mut self, request: &ClaimRequest) -> Claim {
        let claim = PreviousClaim {
            window: request.window,
            rate: request.rate,
            rate_margin: request.rate_margin,
            limits: request.limits,
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
        self.units.add_written(of_claim(&self.control));
        let previous = self.newest.as_ref().and_then(|newest| newest.previous);
        let mut standing = self.standing(previous, request.window);
        let mut control = self.control.clone();
        control.apart.remove(NOT_FOR_POLLERS);
        standing.control = read(&control);
        Claim::Claimed(standing)
    }

    fn advance(&mut self, token: &str, through: Window) -> bool {
        match &mut self.newest {
            Some(newest) if newest.token == token && newest.claim.window <= through => {
                newest.claim.window = through;
                true
            }
            _ => false,
        }
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
        Ok(())
    }

    fn set_control(&mut self, version: u64, control: &Control) -> Result<bool, FailureKind> {
        // Another writer was faster: the caller reads again and repeats its change.
        if self.control_version != version {
            return Ok(false);
        }
        let stored = StoredControl::of(control, version + 1, &self.control.apart);
        let stored = stored.map_err(|error| FailureKind::Refused(error.to_string()))?;
        if stored.apart.values().any(|(_, text)| text.len() > LONGEST) {
            return Err(FailureKind::Refused("ValidationException".to_owned()));
        }
        self.units.add_written(of_claim(&stored));
        let written = stored.apart.values().filter(|(at, _)| at.version == version + 1);
        // A transactional write costs twice as much as a single one.
        written.for_each(|(_, text)| self.units.add_written(2 * text.len()));
        // Members that the writer did not read keep their items and references.
        let before = std::mem::replace(&mut self.control, stored);
        let stored_apart: Vec<String> =
            self.control.references().map(|(name, _)| name.to_owned()).collect();
        for (name, member) in
            before.apart.into_iter().filter(|(name, _)| stored_apart.contains(name))
        {
            self.control.apart.entry(name).or_insert(member);
        }
        self.control_version += 1;
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
        };
        let stored_mark = StoredMark { mark, until: request.now + request.kept };
        self.marks.insert(request.identity.clone(), stored_mark);
        MarkResult::Ours
    }

    fn set_sent(&mut self, identity: &Identity) -> bool {
        let stored_mark = self.marks.get_mut(identity);
        stored_mark.map(|stored_mark| stored_mark.mark.state = MarkState::Sent).is_some()
    }

    fn set_parked(&mut self, identity: &Identity, token: &str, pass: u32) -> bool {
        match self.marks.get_mut(identity) {
            Some(StoredMark { mark, .. }) if mark.token == token => {
                (mark.state, mark.pass) = (MarkState::Parked, pass);
                true
            }
            _ => false,
        }
    }

    fn unmark(&mut self, identity: &Identity, token: &str) -> bool {
        let ours = |stored_mark: &StoredMark| {
            stored_mark.mark.token == token && stored_mark.mark.state == MarkState::Sending
        };
        let stands = self.marks.get(identity).is_some_and(ours);
        if stands {
            self.marks.remove(identity);
        }
        stands
    }

    /// The ledger's state at `now`. DynamoDB deletes expired items days late, so items that have
    /// expired are skipped here.
    fn standing(&mut self, previous: Option<PreviousClaim>, now: Window) -> Standing {
        let parts = self.parts.iter().filter(|(_, (_, until))| until.is_none_or(|at| at > now));
        let parts: BTreeMap<u32, Part> =
            parts.map(|(place, (part, _))| (*place, part.clone())).collect();
        for part in parts.values() {
            self.units.add_read(of_part(part));
        }
        let standing = Standing {
            previous,
            factor: self.factor,
            control: read(&self.control),
            control_version: self.control_version,
            looks: self.looks,
            ..Standing::default()
        };
        standing.with_parts(parts, self.count)
    }
}

/// Reads a control record that was written by this ledger, so it always parses.
fn read(stored: &StoredControl) -> Control {
    stored.control().unwrap_or_default()
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

impl Ledger for MemoryLedger {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, PortError> {
        Ok(self.0.with(|state| state.claim(request)))
    }

    async fn advance(&self, token: &str, through: Window) -> Result<bool, PortError> {
        Ok(self.0.with(|state| state.advance(token, through)))
    }

    /// A read claims nothing, so its `previous` is the newest claim.
    async fn read(&self) -> Result<Standing, PortError> {
        Ok(self.0.with(|state| {
            let newest = state.newest.as_ref().map(|newest| newest.claim);
            state.standing(newest, newest.map(|claim| claim.window).unwrap_or_default())
        }))
    }

    async fn report(&self, report: &LedgerReport) -> Result<(), PortError> {
        self.0.with(|state| state.report(report)).map_err(refused)
    }

    async fn set_factor(&self, from: RateFactor, to: RateFactor) -> Result<bool, PortError> {
        Ok(self.0.with(|state| {
            let stands = state.factor == from;
            if stands {
                state.factor = to;
            }
            stands
        }))
    }

    async fn set_control(&self, version: u64, control: &Control) -> Result<bool, PortError> {
        self.0.with(|state| state.set_control(version, control)).map_err(refused)
    }
}

fn refused(kind: FailureKind) -> PortError {
    PortError { operation: "UpdateItem", resource: "memory ledger".to_owned(), kind, source: None }
}

impl History for MemoryLedger {
    async fn add(&self, change: &ChangeRecord) -> Result<(), PortError> {
        self.0.with(|state| {
            state.changes.insert(0, change.clone());
            state.changes.truncate(CHANGES_KEPT);
        });
        Ok(())
    }

    async fn changes(&self) -> Result<Vec<ChangeRecord>, PortError> {
        Ok(self.0.with(|state| state.changes.clone()))
    }
}

impl Marks for MemoryLedger {
    async fn mark(&self, request: &MarkRequest) -> Result<MarkResult, PortError> {
        Ok(self.0.with(|state| state.mark(request)))
    }

    async fn set_sent(&self, identity: &Identity) -> Result<bool, PortError> {
        Ok(self.0.with(|state| state.set_sent(identity)))
    }

    async fn set_parked(
        &self,
        identity: &Identity,
        token: &str,
        pass: u32,
    ) -> Result<bool, PortError> {
        Ok(self.0.with(|state| state.set_parked(identity, token, pass)))
    }

    async fn unmark(&self, identity: &Identity, token: &str) -> Result<bool, PortError> {
        Ok(self.0.with(|state| state.unmark(identity, token)))
    }

    async fn find(&self, identities: &[Identity]) -> Result<Vec<Option<Mark>>, PortError> {
        let found = |state: &mut LedgerState| {
            let mark = |identity| Some(state.marks.get(identity)?.mark.clone());
            identities.iter().map(mark).collect()
        };
        Ok(self.0.with(found))
    }
}
