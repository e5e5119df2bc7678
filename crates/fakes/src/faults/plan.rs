use std::ops::Range;
use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_delivery::ports::FailureKind;
use tokio::sync::Notify;

use super::rule::{Fault, Operation, Rule};
use crate::clock::Universe;
use crate::entropy::SeededEntropy;
use crate::latency::{Latency, wait};
use crate::shared::SharedState;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    pub at: Timestamp,
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
    rules: Vec<CountedRule<E>>,
    strikes: Vec<Strike>,
}

/// A rule, and how many calls it matched.
#[derive(Debug)]
struct CountedRule<E> {
    rule: Rule<E>,
    matched: u64,
}

impl<E: Clone> FaultPlan<E> {
    pub fn new(universe: Universe, seed: u64) -> Self {
        let state = PlanState { rules: Vec::new(), strikes: Vec::new() };
        let entropy = SeededEntropy::new(seed);
        Self { universe, entropy, state: SharedState::new(state), hung: Arc::default() }
    }

    /// Adds a rule; a later one of the same kind overrides an earlier.
    pub fn add(&self, rule: Rule<E>) {
        self.state.with(|state| state.rules.push(CountedRule { rule, matched: 0 }));
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

    pub(super) fn decide(&self, operation: Operation, resource: &str) -> CallFaults<E> {
        let now = self.universe.now();
        self.state.with(|state| {
            let mut decision = CallFaults::default();
            for counted in &mut state.rules {
                let rule = &counted.rule;
                if !rule.covers(operation, resource) || !holds(rule.during.as_ref(), now) {
                    continue;
                }
                // Counted before `nth` and `chance` decide, so that `nth` means the nth call that
                // the rule covers.
                counted.matched += 1;
                if rule.nth.is_some_and(|nth| nth != counted.matched)
                    || !self.entropy.chance(rule.chance)
                {
                    continue;
                }
                decision.take(rule.fault.clone());
                let resource = resource.to_owned();
                state.strikes.push(Strike { at: now, operation, resource });
            }
            decision
        })
    }

    /// Which of `count` entries an entry fault hits.
    pub(super) fn pick(&self, count: usize, share: f64) -> Vec<bool> {
        (0..count).map(|_| self.entropy.chance(share)).collect()
    }

    /// Runs one call, which `act` makes, under the faults of `decision`.
    pub(super) async fn run<R>(
        &self,
        decision: CallFaults<E>,
        act: impl Future<Output = Result<R, E>>,
    ) -> Result<R, E> {
        self.delay_or_hang(&decision).await;
        if let Some(error) = decision.before {
            return Err(error);
        }
        let done = act.await?;
        if decision.hang_after {
            self.hang().await;
        }
        decision.after.map_or(Ok(done), Err)
    }

    /// Applies the faults that strike before the call has an effect: a delay, or a hang.
    pub(super) async fn delay_or_hang(&self, decision: &CallFaults<E>) {
        wait(decision.slow.draw(&self.entropy)).await;
        if decision.hang_before {
            self.hang().await;
        }
    }

    async fn hang(&self) {
        self.hung.notify_one();
        std::future::pending::<()>().await;
    }
}

fn holds(during: Option<&Range<Timestamp>>, now: Timestamp) -> bool {
    during.is_none_or(|span| span.contains(&now))
}

/// The faults that strike one call: at most one of each kind, and a later rule overrides an earlier
/// one.
#[derive(Debug)]
pub(crate) struct CallFaults<E> {
    pub(super) slow: Latency,
    pub(super) before: Option<E>,
    pub(super) after: Option<E>,
    pub(super) hang_before: bool,
    pub(super) hang_after: bool,
    pub(crate) refuse_entries: f64,
    pub(crate) lose_entries: f64,
    pub(crate) duplicate: Option<Latency>,
    pub(crate) nothing: bool,
}

impl<E> Default for CallFaults<E> {
    fn default() -> Self {
        Self {
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
}

impl<E> CallFaults<E> {
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

    /// The true time at which the duplicate is delivered; `None` without that fault.
    pub(super) fn duplicate_at(&self, plan: &FaultPlan<E>) -> Option<Timestamp>
    where
        E: Clone,
    {
        let later = self.duplicate?;
        Some(plan.universe.now() + later.draw(&plan.entropy))
    }
}
