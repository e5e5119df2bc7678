//! Lambda's part of the simulation: environments, invocations, and what a poller's run gave.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tidegate_core::Timestamp;
use tidegate_core::config::POLLER_TIMEOUT;
use tidegate_core::tick::Tick;
use tidegate_delivery::bucketed::Bucketed;
use tidegate_delivery::poll::{PollError, Poller, WindowReport};
use tidegate_delivery::ports::{Entropy as _, Ports};
use tidegate_fakes::{
    MemoryAccount, MemoryBucket, MemoryDeferralStore, MemoryLedger, MemoryMailer, MemoryQueues,
    SeededEntropy, SimClock,
};
use tokio::sync::Notify;

use crate::world::World;

impl World {
    /// Creates environment number `number`. Its wall clock is `ahead` nanoseconds ahead of true
    /// time.
    fn new_environment(&self, number: usize, ahead: i64) -> LambdaEnvironment {
        let clock = self.universe.clock_with_offset(ahead);
        let poller = self.poller.borrow().clone();
        let mailer = self.ses.mailer_of(number, &clock).with_faults(&self.mail_faults);
        let mailer = match &poller.shared_bucket {
            Some(shared) => Bucketed::new(mailer, self.bucket.clone(), shared.lost),
            None => Bucketed::alone(mailer),
        };
        let env = Ports::<SimulatedPorts> {
            queues: self.queues.client().with_faults(&self.faults),
            mailer,
            account: self.ses.account().with_faults(&self.faults),
            ledger: self.ledger.clone().with_faults(&self.faults),
            clock: clock.clone(),
            entropy: self.entropy.fork(),
            deferral: poller
                .deferral
                .is_some()
                .then(|| self.deferral.clone().with_faults(&self.faults)),
        };
        let poller = Poller::new(env, poller);
        let (busy, retired) = (Cell::new(false), Cell::new(false));
        LambdaEnvironment { poller, clock, busy, retired, crash: Notify::new() }
    }

    /// The latency of an asynchronous invoke, as measured on Lambda: about 70 ms, and up to 225 ms
    /// for 2 % of the invokes.
    pub(crate) fn dispatch_latency(&self) -> Duration {
        let (unit, tail) = (self.entropy.unit(), self.entropy.unit());
        if tail < 0.02 {
            Duration::from_millis(100) + Duration::from_millis(125).mul_f64(unit)
        } else {
            Duration::from_millis(45) + Duration::from_millis(50).mul_f64(unit)
        }
    }

    /// Takes the first warm environment that is free, or creates one, which takes time.
    fn environment(&self) -> (usize, Rc<LambdaEnvironment>, Duration) {
        let mut environments = self.environments.borrow_mut();
        let free = environments.iter().position(|e| e.as_ref().is_some_and(|e| !e.is_busy()));
        if let Some(index) = free
            && let Some(Some(environment)) = environments.get(index)
        {
            return (index, Rc::clone(environment), Duration::ZERO);
        }
        let index = environments.len();
        let ahead = self.settings.clocks.get(index).copied().unwrap_or(0);
        let environment = Rc::new(self.new_environment(index, ahead));
        environments.push(Some(Rc::clone(&environment)));
        (index, environment, self.starts.get().cold)
    }

    /// Runs a poller with `tick` without dispatch latency. Its result is added to
    /// [`World::poller_runs`] when it ends.
    pub fn serve(&self, tick: Option<Tick>) -> LocalBoxFuture<'_, ()> {
        Box::pin(self.serve_in_environment(tick))
    }

    // Boxed by `serve`, as the scheduler's run is by `run_scheduler`, which says why.
    async fn serve_in_environment(&self, tick: Option<Tick>) {
        let (index, environment, cold) = self.environment();
        environment.busy.set(true);
        tokio::time::sleep(cold).await;
        let at = self.universe.now();
        let start = tokio::select! {
            biased;
            () = environment.crash.notified() => PollerEnd::Crashed,
            () = tokio::time::sleep(POLLER_TIMEOUT) => PollerEnd::Crashed,
            served = Box::pin(environment.poller.serve(tick)) => match served {
                Ok(report) => PollerEnd::Reported(Box::new(report)),
                Err(error) => PollerEnd::Failed(error),
            },
        };
        environment.busy.set(false);
        let is_over = match &start {
            PollerEnd::Crashed => true,
            PollerEnd::Reported(report) => report.ends_environment(),
            PollerEnd::Failed(_) => false,
        };
        if (is_over || environment.retired.get())
            && let Some(gone) = self.environments.borrow_mut().get_mut(index)
        {
            *gone = None; // Lambda starts a new one
        }
        let ended = self.universe.now();
        self.poller_runs.borrow_mut().push(PollerRun {
            tick,
            at,
            ended,
            environment: index,
            end: start,
        });
    }
}

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
    pub retired: Cell<bool>,
    /// Ends a run of its poller.
    pub crash: Notify,
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
