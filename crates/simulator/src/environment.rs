//! An execution environment, and what a poller's run in it gave.

use std::cell::Cell;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::tick::Tick;
use tidegate_delivery::bucketed::Bucketed;
use tidegate_delivery::poll::{PollError, Poller, WindowReport};
use tidegate_fakes::{
    MemoryAccount, MemoryBucket, MemoryDeferralStore, MemoryLedger, MemoryMailer, MemoryQueues,
    SeededEntropy, SimClock,
};
use tokio::sync::Notify;

/// The ports of one execution environment's poller: fakes with fault injection.
pub type SimulatedPorts = (
    MemoryQueues,
    Bucketed<MemoryMailer, MemoryBucket>,
    MemoryAccount,
    MemoryLedger,
    SimClock,
    SeededEntropy,
    MemoryDeferralStore,
);

/// How late functions start; not at all by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct LateStarts {
    /// From the minute until EventBridge's trigger starts a scheduler.
    pub trigger: Duration,
    /// The start of a new environment for a poller.
    pub cold: Duration,
}

/// An execution environment: a poller that serves one window at a time.
#[derive(Debug)]
pub struct LambdaEnvironment {
    pub poller: Poller<SimulatedPorts>,
    pub clock: SimClock,
    pub(crate) busy: Cell<bool>,
    /// The environment belongs to an older deployment and gets no more ticks.
    pub(crate) retired: Cell<bool>,
    pub(crate) crash: Notify,
}

#[derive(Debug)]
pub enum PollerEnd {
    Reported(Box<WindowReport>),
    Failed(PollError),
    /// A test or Lambda's time-out killed it.
    Crashed,
}

#[derive(Debug)]
pub struct PollerRun {
    /// The tick it was started with.
    pub tick: Option<Tick>,
    pub at: Timestamp,
    pub ended: Timestamp,
    /// The index of its environment, in the order of creation.
    pub environment: usize,
    pub end: PollerEnd,
}

impl PollerRun {
    /// The window report, if the poller ended with one.
    pub fn report(&self) -> Option<&WindowReport> {
        match &self.end {
            PollerEnd::Reported(report) => Some(report),
            PollerEnd::Failed(_) | PollerEnd::Crashed => None,
        }
    }
}

impl LambdaEnvironment {
    /// Whether it serves a window now.
    pub fn is_busy(&self) -> bool {
        self.busy.get()
    }
}
