//! Fault injection: each fake asks, at each call, which faults its plan has for it.

mod plan;
mod rule;
#[cfg(test)]
mod tests;

use std::fmt::Display;

use tidegate_core::Timestamp;
use tidegate_delivery::ports::{FailureKind, PortError};

use plan::CallFaults;
pub use plan::{FaultPlan, Strike};
pub use rule::{Fault, Operation, Rule};

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
    /// The faults that strike a call, to be given to [`Faults::run`].
    pub(crate) fn decide(&self, operation: Operation, resource: impl Display) -> CallFaults<E> {
        let Some(plan) = &self.0 else { return CallFaults::default() };
        plan.decide(operation, &resource.to_string())
    }

    /// Runs one call: fails, delays or hangs it before and after `act` takes effect.
    pub(crate) async fn run<R>(
        &self,
        decision: CallFaults<E>,
        act: impl Future<Output = Result<R, E>>,
    ) -> Result<R, E> {
        match &self.0 {
            Some(plan) => plan.run(decision, act).await,
            None => act.await,
        }
    }

    /// Delays or hangs a call that cannot fail.
    pub(crate) async fn delay_or_hang(&self, operation: Operation) {
        if let Some(plan) = &self.0 {
            plan.delay_or_hang(&plan.decide(operation, "")).await;
        }
    }

    /// Which of `count` entries an entry fault hits.
    pub(crate) fn pick(&self, count: usize, share: f64) -> Vec<bool> {
        self.0.as_ref().map_or_else(|| vec![false; count], |plan| plan.pick(count, share))
    }

    /// The true time at which the messages of a receive are delivered once more; `None` without that
    /// fault.
    pub(crate) fn duplicate_at(&self, decision: &CallFaults<E>) -> Option<Timestamp> {
        decision.duplicate_at(self.0.as_ref()?)
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
        self.run(decision, act).await.map_err(|kind| operation.failed(resource, kind))
    }
}
