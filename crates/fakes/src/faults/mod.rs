//! Fault injection: each fake asks, at each call, which faults its plan has for it.

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use strum::IntoStaticStr;
use tidegate_core::Timestamp;
use tidegate_delivery::ports::{FailureKind, PortError};
use tokio::sync::Notify;

use crate::clock::{Latency, SeededEntropy, Universe, wait};
use crate::shared::SharedState;

/// The faults of one handle on a fake; none unless the handle was given a plan. `E` is the error of
/// a failed call.
#[derive(Clone, Debug)]
pub(crate) struct Faults<E = FailureKind>(Option<FaultPlan<E>>);

impl<E> Default for Faults<E> {
    fn default() -> Self {
        Self(None)
    }
}

impl<E: Clone> From<&FaultPlan<E>> for Faults<E> {
    fn from(plan: &FaultPlan<E>) -> Self {
        Self(Some(plan.clone()))
    }
}

impl<E: Clone> Faults<E> {
    /// The faults that strike a call, which then [runs](CallFaults::run) under them.
    pub(crate) fn decide(&self, operation: Operation, resource: impl Display) -> CallFaults<E> {
        let mut decision = CallFaults::none(self.0.clone());
        if let Some(plan) = &self.0 {
            plan.decide(operation, &resource.to_string(), &mut decision);
        }
        decision
    }
}

impl Faults {
    /// One call of a port: `act` under the faults that the plan has for it.
    pub(crate) async fn call<R>(
        &self,
        operation: Operation,
        resource: impl Display,
        act: impl Future<Output = Result<R, FailureKind>>,
    ) -> Result<R, PortError> {
        let decision = self.decide(operation, &resource);
        decision.run(act).await.map_err(|kind| operation.failed(resource, kind))
    }
}

/// A port in memory: its state, and the faults of this handle. A clone is another handle on the same state.
#[derive(Debug, Default)]
pub struct Fake<S> {
    pub(crate) state: SharedState<S>,
    faults: Faults,
}

impl<S> Clone for Fake<S> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), faults: self.faults.clone() }
    }
}

impl<S> Fake<S> {
    /// A handle on the same state whose calls fail as `plan` says.
    pub fn with_faults(self, plan: &FaultPlan) -> Self {
        Self { faults: plan.into(), ..self }
    }

    /// One call, which fails only if the plan says so.
    pub(crate) async fn call<R>(
        &self,
        operation: Operation,
        resource: impl Display,
        act: impl FnOnce(&mut S) -> R,
    ) -> Result<R, PortError> {
        self.try_call(operation, resource, |state| Ok(act(state))).await
    }

    pub(crate) async fn try_call<R>(
        &self,
        operation: Operation,
        resource: impl Display,
        act: impl FnOnce(&mut S) -> Result<R, FailureKind>,
    ) -> Result<R, PortError> {
        self.faults.call(operation, resource, async { self.state.with(act) }).await
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    pub at: Timestamp,
    /// The name of the fault, such as `HangAfter`.
    pub fault: &'static str,
    pub operation: Operation,
    pub resource: String,
}

/// Decides which calls fail and how, by rules that are scripted (`nth`) or drawn from a seed
/// (`chance`). A clone is the same plan; rules may be added and cleared while it runs.
///
/// `E` is the error of a failed call: [`FailureKind`] for queues, ledger, account and invoke, and
/// [`Failure`](tidegate_core::outcome::Failure) for the mailer.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tidegate_core::{Timestamp, Window};
/// use tidegate_delivery::ports::{FailureKind, Ledger};
/// use tidegate_fakes::{Fault, FaultPlan, MemoryLedger, Operation, Rule, Universe};
/// let plan = FaultPlan::new(Universe::starting_at(Timestamp::from_millis(1_000)), 1);
/// plan.add(Rule::new(Fault::Before(FailureKind::TimedOut)).on(Operation::Read).nth(2));
/// let ledger = MemoryLedger::default().with_faults(&plan);
/// assert!(ledger.read().await.is_ok());
/// assert!(ledger.read().await.is_err());
/// assert!(ledger.read().await.is_ok());
/// assert_eq!(plan.strikes().len(), 1);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FaultPlan<E = FailureKind> {
    universe: Universe,
    entropy: SeededEntropy,
    state: SharedState<PlanState<E>>,
    hung: Arc<Notify>,
}

#[derive(Debug)]
struct PlanState<E> {
    rules: Vec<Rule<E>>,
    strikes: Vec<Strike>,
}

impl<E: Clone> FaultPlan<E> {
    pub fn new(universe: Universe, seed: u64) -> Self {
        let state = PlanState { rules: Vec::new(), strikes: Vec::new() };
        let entropy = SeededEntropy::new(seed);
        Self { universe, entropy, state: SharedState::new(state), hung: Arc::default() }
    }

    /// Adds a rule; a later one of the same kind overrides an earlier.
    pub fn add(&self, rule: Rule<E>) {
        self.state.with(|state| state.rules.push(rule));
    }

    /// Removes all rules, so that later calls succeed. Calls that hang already keep hanging.
    pub fn clear(&self) {
        self.state.with(|state| state.rules.clear());
    }

    /// The faults that struck so far.
    pub fn strikes(&self) -> Vec<Strike> {
        self.state.with(|state| state.strikes.clone())
    }

    /// Waits until a call hangs. A test then drops the future that made the call: the caller
    /// crashed at that point. A hang that happened before this method was called counts once.
    pub async fn hung(&self) {
        self.hung.notified().await;
    }

    fn decide(&self, operation: Operation, resource: &str, decision: &mut CallFaults<E>) {
        let now = self.universe.now();
        self.state.with(|state| {
            for rule in &mut state.rules {
                if !rule.covers(operation, resource, now) {
                    continue;
                }
                // Counted before `nth` and `chance` decide, so that `nth` means the nth call that
                // the rule covers.
                rule.matched += 1;
                if rule.nth.is_none_or(|nth| nth == rule.matched)
                    && self.entropy.chance(rule.chance)
                {
                    let (fault, resource) = ((&rule.fault).into(), resource.to_owned());
                    state.strikes.push(Strike { at: now, fault, operation, resource });
                    decision.take(rule.fault.clone());
                }
            }
        });
    }
}

impl<E> FaultPlan<E> {
    async fn hang(&self) {
        self.hung.notify_one();
        std::future::pending::<()>().await;
    }
}

/// The faults that strike one call: at most one of each kind, and a later rule overrides an earlier
/// one.
#[derive(Debug)]
pub(crate) struct CallFaults<E> {
    plan: Option<FaultPlan<E>>,
    slow: Latency,
    before: Option<E>,
    after: Option<E>,
    hang_before: bool,
    hang_after: bool,
    pub(crate) refuse_entries: f64,
    pub(crate) lose_entries: f64,
    pub(crate) duplicate: Option<Latency>,
    pub(crate) nothing: bool,
}

impl<E> CallFaults<E> {
    fn none(plan: Option<FaultPlan<E>>) -> Self {
        Self {
            plan,
            slow: Latency::NONE,
            before: None,
            after: None,
            hang_before: false,
            hang_after: false,
            refuse_entries: 0.0,
            lose_entries: 0.0,
            duplicate: None,
            nothing: false,
        }
    }

    fn take(&mut self, fault: Fault<E>) {
        match fault {
            Fault::Before(error) => self.before = Some(error),
            Fault::After(error) => self.after = Some(error),
            Fault::RefuseEntries(share) => self.refuse_entries = share,
            Fault::LoseEntries(share) => self.lose_entries = share,
            Fault::Slow(latency) => self.slow = latency,
            Fault::HangBefore => self.hang_before = true,
            Fault::HangAfter => self.hang_after = true,
            Fault::Duplicate(later) => self.duplicate = Some(later),
            Fault::Nothing => self.nothing = true,
        }
    }

    /// Runs one call: fails, delays or hangs it before and after `act` takes effect.
    pub(crate) async fn run<R>(self, act: impl Future<Output = Result<R, E>>) -> Result<R, E> {
        self.delay_or_hang().await;
        if let Some(error) = self.before {
            return Err(error);
        }
        let done = act.await?;
        if let Some(plan) = self.plan.filter(|_| self.hang_after) {
            plan.hang().await;
        }
        self.after.map_or(Ok(done), Err)
    }

    /// Applies the faults that strike before the call has an effect: a delay, or a hang.
    pub(crate) async fn delay_or_hang(&self) {
        let Some(plan) = &self.plan else { return };
        wait(self.slow.draw(&plan.entropy)).await;
        if self.hang_before {
            plan.hang().await;
        }
    }

    /// Which of `count` entries an entry fault of this share hits.
    pub(crate) fn pick(&self, count: usize, share: f64) -> Vec<bool> {
        let plan = self.plan.as_ref();
        (0..count).map(|_| plan.is_some_and(|plan| plan.entropy.chance(share))).collect()
    }

    /// The true time at which the messages of a receive are delivered once more; `None` without that
    /// fault.
    pub(crate) fn duplicate_at(&self) -> Option<Timestamp> {
        let plan = self.plan.as_ref()?;
        Some(plan.universe.now() + self.duplicate?.draw(&plan.entropy))
    }
}

/// The calls of the ports. Errors name those of the queues as SQS does, the others as they are named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, IntoStaticStr)]
pub enum Operation {
    /// `Queues::receive`; the resource is the queue's URL, as for all five of `Queues`.
    #[strum(serialize = "ReceiveMessage")]
    Receive,
    #[strum(serialize = "SendMessageBatch")]
    Send,
    #[strum(serialize = "DeleteMessageBatch")]
    Delete,
    #[strum(serialize = "ChangeMessageVisibilityBatch")]
    SetVisibility,
    #[strum(serialize = "GetQueueAttributes")]
    Depth,
    Mail,
    /// `Mailer::warm`; without resource. It can only be slow or hang.
    Warm,
    /// `Ledger::claim`; the resource is the window.
    Claim,
    /// `Ledger::advance`; the resource is the window.
    Advance,
    Read,
    Report,
    SetFactor,
    SetControl,
    /// `History::add`; the resource is the action.
    AddChange,
    ReadChanges,
    /// `Marks::mark`; the resource is the mail's identity, as for the next two.
    Mark,
    SetMark,
    Unmark,
    FindMarks,
    ReadExclusions,
    /// `Exclusions::set_shard`; the resource is the shard's number.
    SetExclusions,
    ReadRuns,
    SetRun,
    /// `Directory::queues`; the resource is the prefix.
    ListQueues,
    /// `Directory::tags`; the resource is the queue's URL.
    #[strum(serialize = "ListQueueTags")]
    ListTags,
    /// `Store::put`; the resource is the object's name, as for all of `Store` but its list.
    PutObject,
    ListObjects,
    GetObject,
    DeleteObject,
    ReplaceObject,
    Account,
    /// `Account::tenant`; the resource is the tenant.
    Tenant,
    ListSuppressed,
    /// `SuppressionList::find`; the resource is the address.
    FindSuppressed,
    /// `Invoke::tick`; the resource is the window.
    Tick,
    Announce,
    PutEvents,
    /// Both calls of the monitoring service.
    Monitor,
}

impl Operation {
    pub(crate) fn failed(self, resource: impl Display, kind: FailureKind) -> PortError {
        let resource = resource.to_string();
        PortError { operation: self.into(), resource, kind, source: None }
    }
}

/// A fault of one call. A call can have several faults of different kinds.
#[derive(Clone, Debug, PartialEq, IntoStaticStr)]
pub enum Fault<E> {
    Before(E),
    /// The call takes effect, and its answer is lost: the caller gets this error.
    After(E),
    /// Each entry of a batch is refused with this probability, without effect. Queue batches only.
    RefuseEntries(f64),
    /// Each entry of a batch takes effect and is reported as failed with this probability. Queue
    /// batches only.
    LoseEntries(f64),
    /// Delays the call before it takes effect.
    Slow(Latency),
    /// Never answers and has no effect: a caller whose future is dropped here crashed before the
    /// call.
    HangBefore,
    /// Takes effect and never answers: a caller whose future is dropped here crashed after the
    /// call.
    HangAfter,
    /// The messages of this receive are delivered once more after the given delay, even if they
    /// were deleted (standard queues only). An accepted tick is accepted twice, at once. Receives
    /// and ticks only.
    Duplicate(Latency),
    /// Answers with success and has no effect: a receive finds nothing, an accepted tick starts no
    /// poller. Receives and ticks only.
    Nothing,
}

/// A fault and the calls that it strikes: every call of every operation, unless a method narrows
/// it.
#[derive(Clone, Debug)]
pub struct Rule<E> {
    fault: Fault<E>,
    operations: Vec<Operation>,
    resource: Option<String>,
    nth: Option<u64>,
    chance: f64,
    during: Option<Range<Timestamp>>,
    /// The calls that the rule has covered so far.
    matched: u64,
}

impl<E> Rule<E> {
    pub const fn new(fault: Fault<E>) -> Self {
        let operations = Vec::new();
        Self { fault, operations, resource: None, nth: None, chance: 1.0, during: None, matched: 0 }
    }

    /// Limits the rule to calls of `operation`; a second call adds another operation.
    pub fn on(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Only at calls whose resource contains `part`.
    pub fn at(mut self, part: &str) -> Self {
        self.resource = Some(part.to_owned());
        self
    }

    /// Only at the `nth` call (from 1) that the other conditions let through.
    pub const fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(nth);
        self
    }

    /// Strikes with this probability, 0.0 to 1.0, drawn from the plan's seed.
    pub const fn chance(mut self, share: f64) -> Self {
        self.chance = share;
        self
    }

    /// Only while true time is within `span`.
    pub const fn during(mut self, span: Range<Timestamp>) -> Self {
        self.during = Some(span);
        self
    }

    fn covers(&self, operation: Operation, resource: &str, now: Timestamp) -> bool {
        (self.operations.is_empty() || self.operations.contains(&operation))
            && self.resource.as_ref().is_none_or(|part| resource.contains(part))
            && self.during.as_ref().is_none_or(|span| span.contains(&now))
    }
}

#[cfg(test)]
mod tests;
