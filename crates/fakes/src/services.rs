use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::events::StackEvent;
use tidegate_core::tick::Tick;
use tidegate_delivery::ports::{
    Announce, Events, FailureKind, Invoke, Monitor, MonitorReport, PastRates, PortError,
};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::clock::{Latency, SeededEntropy, Universe};
use crate::faults::{Fake, FaultPlan, Faults, Operation};
use crate::shared::SharedState;

/// Asynchronous invokes in memory. Every accepted tick is recorded and passed, in order, to the
/// receiver that [`MemoryInvoke::new`] returns. The reader of it decides when, whether and how
/// often a poller starts. A clone is the same.
#[derive(Clone, Debug)]
pub struct MemoryInvoke {
    universe: Universe,
    entropy: SeededEntropy,
    latency: SharedState<Latency>,
    accepted: SharedState<Vec<(Timestamp, Tick)>>,
    hand_over: UnboundedSender<Tick>,
    faults: Faults,
}

impl MemoryInvoke {
    /// An invoker without latency, and the ticks it accepts.
    pub fn new(universe: Universe, seed: u64) -> (Self, UnboundedReceiver<Tick>) {
        let (hand_over, ticks) = mpsc::unbounded_channel();
        let invoke = Self {
            universe,
            entropy: SeededEntropy::new(seed),
            latency: SharedState::new(Latency::NONE),
            accepted: SharedState::new(Vec::new()),
            hand_over,
            faults: Faults::default(),
        };
        (invoke, ticks)
    }

    /// A handle on the same poller whose invokes fail as `plan` says.
    pub fn with_faults(self, plan: &FaultPlan) -> Self {
        Self { faults: plan.into(), ..self }
    }

    /// How long an invoke takes to be accepted from now on.
    pub fn set_latency(&self, latency: Latency) {
        self.latency.with(|current| *current = latency);
    }

    /// The ticks accepted so far, with the true time of each.
    pub fn accepted(&self) -> Vec<(Timestamp, Tick)> {
        self.accepted.with(|accepted| accepted.clone())
    }
}

impl Invoke for MemoryInvoke {
    /// # Errors
    /// `NotFound` once the receiver is gone: there is no poller any more.
    async fn tick(&self, tick: &Tick) -> Result<(), PortError> {
        let decision = self.faults.decide(Operation::Tick, tick.window);
        let times = match (decision.nothing, decision.duplicate.is_some()) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 1,
        };
        let act = async {
            for _ in 0..times {
                let accept = async {
                    self.hand_over.send(*tick).map_err(|_| FailureKind::NotFound)?;
                    self.accepted.with(|accepted| accepted.push((self.universe.now(), *tick)));
                    Ok(())
                };
                self.latency.with(|latency| *latency).around(&self.entropy, accept).await?;
            }
            Ok(())
        };
        let done = decision.run(act).await;
        done.map_err(|kind| Operation::Tick.failed(tick.window, kind))
    }
}

/// A monitoring service in memory that reports what it was told, and knows no past. A clone is the same.
pub type MemoryMonitor = Fake<MonitorReport>;

impl MemoryMonitor {
    pub fn set_report(&self, report: MonitorReport) {
        self.state.with(|told| *told = report);
    }
}

impl Monitor for MemoryMonitor {
    async fn report(&self, _: Timestamp) -> Result<MonitorReport, PortError> {
        self.call(Operation::Monitor, "monitor", |told| told.clone()).await
    }

    async fn past(
        &self,
        _: &[String],
        _: Timestamp,
        _: Timestamp,
        step: Duration,
    ) -> Result<Vec<PastRates>, PortError> {
        assert!(
            step.as_secs() > 0 && step.as_secs().is_multiple_of(60),
            "CloudWatch refuses {step:?}"
        );
        self.call(Operation::Monitor, "monitor", |_| Vec::new()).await
    }
}

/// A topic in memory that keeps what was told. A clone is the same.
#[derive(Clone, Debug)]
pub struct MemoryTopic {
    universe: Universe,
    told: SharedState<Vec<(Timestamp, String)>>,
    faults: Faults,
}

impl MemoryTopic {
    pub fn new(universe: Universe) -> Self {
        Self { universe, told: SharedState::new(Vec::new()), faults: Faults::default() }
    }

    /// A handle on the same topic whose calls fail as `plan` says.
    pub fn with_faults(self, plan: &FaultPlan) -> Self {
        Self { faults: plan.into(), ..self }
    }

    /// The subjects told so far, with the true time of each.
    pub fn told(&self) -> Vec<(Timestamp, String)> {
        self.told.with(|told| told.clone())
    }
}

impl Announce for MemoryTopic {
    async fn announce(&self, subject: &str, _: &str) -> Result<(), PortError> {
        assert!(subject.len() <= 100 && subject.is_ascii(), "SNS refuses {subject:?}");
        let act = async {
            let at = self.universe.now();
            self.told.with(|told| told.push((at, subject.to_owned())));
            Ok(())
        };
        self.faults.call(Operation::Announce, "topic", act).await
    }
}

/// A bus in memory that keeps what was put onto it. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct MemoryBus {
    events: SharedState<Vec<StackEvent>>,
    faults: Faults,
}

impl MemoryBus {
    /// A handle on the same bus whose calls fail as `plan` says.
    pub fn with_faults(self, plan: &FaultPlan) -> Self {
        Self { faults: plan.into(), ..self }
    }

    /// The events put so far.
    pub fn events(&self) -> Vec<StackEvent> {
        self.events.with(|events| events.clone())
    }
}

impl Events for MemoryBus {
    async fn put(&self, events: &[StackEvent]) -> Result<(), PortError> {
        let act = async {
            self.events.with(|all| all.extend_from_slice(events));
            Ok(())
        };
        self.faults.call(Operation::PutEvents, "bus", act).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate_core::{Window, rate::Rate};

    #[tokio::test(start_paused = true)]
    async fn accepted_ticks_are_recorded_and_handed_over_in_order() {
        let universe = Universe::starting_at(Timestamp::from_millis(100_000));
        let (invoke, mut ticks) = MemoryInvoke::new(universe, 1);
        invoke.set_latency(Latency::always(Duration::from_millis(20)));
        let rate = Rate::per_second(14.0).unwrap();
        let tick = |second| Tick { window: Window::from_epoch_second(second), quota: rate };
        invoke.tick(&tick(101)).await.unwrap();
        invoke.tick(&tick(102)).await.unwrap();
        assert_eq!(ticks.recv().await, Some(tick(101)));
        assert_eq!(ticks.recv().await, Some(tick(102)));
        let at = Timestamp::from_millis;
        assert_eq!(invoke.accepted(), [(at(100_010), tick(101)), (at(100_030), tick(102))]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_poller_a_tick_is_not_accepted() {
        let (invoke, ticks) = MemoryInvoke::new(Universe::starting_at(Timestamp::default()), 1);
        drop(ticks);
        let window = Window::from_epoch_second(1);
        let error = invoke.tick(&Tick { window, quota: Rate::MIN }).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::NotFound);
        assert!(invoke.accepted().is_empty());
    }
}
