use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tidegate_core::config::{POLLER_TIMEOUT, PollerConfig};
use tidegate_core::outcome::Failure;
use tidegate_core::tick::Tick;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::bucketed::{Bucketed, MaybeBucketed};
use tidegate_delivery::environment::Ports;
use tidegate_delivery::poll::{PollError, Poller, WindowReport};
use tidegate_delivery::ports::Entropy as _;
use tidegate_memory::{
    Faulty, MemoryAccount, MemoryBucket, MemoryLedger, MemoryMailer, MemoryQueues, MemorySpill,
    SeededEntropy, SimClock,
};
use tokio::sync::Notify;

use crate::world::World;

/// What one execution environment's poller runs on.
pub type SimulatedPorts = Ports<
    Faulty<MemoryQueues>,
    MaybeBucketed<Faulty<MemoryMailer, Failure>, MemoryBucket>,
    Faulty<MemoryAccount>,
    Faulty<MemoryLedger>,
    SimClock,
    SeededEntropy,
    Faulty<MemorySpill>,
>;

/// An execution environment: a poller that serves one window at a time.
#[derive(Debug)]
pub struct LambdaEnvironment {
    /// The poller.
    pub poller: Poller<SimulatedPorts>,
    /// Its clock.
    pub clock: SimClock,
    busy: Cell<bool>,
    /// Of an older deployment: it gets no more ticks.
    retired: Cell<bool>,
    crash: Notify,
}

/// How a poller's start ended.
#[derive(Debug)]
pub enum PollerEnd {
    /// With a report.
    Reported(Box<WindowReport>),
    /// With an error.
    Failed(PollError),
    /// It was killed, by a test or at the time-out.
    Crashed,
}

/// One start of a poller.
#[derive(Debug)]
pub struct PollerRun {
    /// The tick it was started with.
    pub tick: Option<Tick>,
    /// When, on the true clock.
    pub at: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// Which environment it ran in, in the order of their making.
    pub environment: usize,
    /// How it ended.
    pub end: PollerEnd,
}

impl PollerRun {
    /// Its report, where it came to one.
    pub fn report(&self) -> Option<&WindowReport> {
        match &self.end {
            PollerEnd::Reported(report) => Some(report),
            PollerEnd::Failed(_) | PollerEnd::Crashed => None,
        }
    }
}

impl LambdaEnvironment {
    /// Environment number `number` of `world`, whose wall clock is `ahead` nanoseconds ahead of true time.
    pub fn new(world: &World, number: usize, ahead: i64) -> Self {
        let clock = world.universe.clock_with_offset(ahead);
        let poller = world.poller.borrow().clone();
        let mailer = Faulty::new(world.ses.mailer_of(number, &clock), world.mail_faults.clone());
        let mailer = match &poller.shared_bucket {
            Some(shared) => {
                MaybeBucketed::Shared(Bucketed::new(mailer, world.bucket.clone(), shared.lost))
            }
            None => MaybeBucketed::Alone(mailer),
        };
        let env = Ports {
            queues: Faulty::new(world.queues.client(), world.faults.clone()),
            mailer,
            account: Faulty::new(world.ses.account(), world.faults.clone()),
            ledger: Faulty::new(world.ledger.clone(), world.faults.clone()),
            clock: clock.clone(),
            entropy: world.entropy.fork(),
            spill: poller
                .spill
                .is_some()
                .then(|| Faulty::new(world.spill.clone(), world.faults.clone())),
        };
        let poller = Poller::new(env, poller);
        Self {
            poller,
            clock,
            busy: Cell::new(false),
            retired: Cell::new(false),
            crash: Notify::new(),
        }
    }

    /// Whether it serves a window now.
    pub fn is_busy(&self) -> bool {
        self.busy.get()
    }
}

impl World {
    /// How long an asynchronous invoke takes to start a poller: about 70 ms, one in fifty up to 225.
    pub(crate) fn dispatch_latency(&self) -> Duration {
        let (unit, tail) = (self.entropy.unit(), self.entropy.unit());
        if tail < 0.02 {
            Duration::from_millis(100) + Duration::from_millis(125).mul_f64(unit)
        } else {
            Duration::from_millis(45) + Duration::from_millis(50).mul_f64(unit)
        }
    }

    /// A free environment: the first warm one, else a new one.
    fn environment(&self) -> (usize, Rc<LambdaEnvironment>) {
        let mut environments = self.environments.borrow_mut();
        let free = environments.iter().position(|e| e.as_ref().is_some_and(|e| !e.is_busy()));
        if let Some(index) = free
            && let Some(Some(environment)) = environments.get(index)
        {
            return (index, Rc::clone(environment));
        }
        let index = environments.len();
        let ahead = self.settings.clocks.get(index).copied().unwrap_or(0);
        let environment = Rc::new(LambdaEnvironment::new(self, index, ahead));
        environments.push(Some(Rc::clone(&environment)));
        (index, environment)
    }

    /// Starts a poller with `tick` at once, as an invoke that is dispatched does; kept in
    /// [`World::starts`] when it ends.
    pub async fn serve(&self, tick: Option<Tick>) {
        let (index, environment) = self.environment();
        environment.busy.set(true);
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
        if (matches!(start, PollerEnd::Crashed) || environment.retired.get())
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

    /// Kills every poller that is serving: their futures are dropped where they stand.
    pub fn crash(&self) {
        for environment in self.environments.borrow().iter().flatten() {
            if environment.is_busy() {
                environment.crash.notify_one();
            }
        }
    }

    /// Waits for the lead of the next window, as its tick does; gives the window.
    pub async fn next_lead(&self) -> Window {
        let window = self.next_window();
        let at = window.opens().saturating_sub(Duration::from_millis(330));
        self.universe.sleep_until(at).await;
        window
    }

    /// Serves the next window until a call hangs (a mail's, or any other), and kills the poller
    /// there; says whether one did.
    pub async fn crash_where_it_hangs(&self, mail: bool) -> bool {
        let window = self.next_lead().await;
        let hung = tokio::select! {
            biased;
            () = self.serve(Some(self.tick(window))) => false,
            () = self.faults.hung(), if !mail => true,
            () = self.mail_faults.hung(), if mail => true,
        };
        if hung {
            // The environment is gone with it.
            self.forget_environments();
        }
        hung
    }

    /// Deploys pollers with this configuration: those that are serving end with the old one, and new
    /// environments have the new.
    pub fn deploy(&self, poller: PollerConfig) {
        self.poller.replace(poller);
        for environment in self.environments.borrow_mut().iter_mut() {
            environment.take_if(|environment| !environment.is_busy());
        }
        for environment in self.environments.borrow().iter().flatten() {
            environment.retired.set(true);
        }
    }

    /// Takes all environments away, busy or not: whoever dropped [`World::serve`] half way crashed
    /// them.
    pub fn forget_environments(&self) {
        self.environments.borrow_mut().iter_mut().for_each(|environment| *environment = None);
    }

    /// The warm environments.
    pub fn warm(&self) -> Vec<Rc<LambdaEnvironment>> {
        self.environments.borrow().iter().flatten().cloned().collect()
    }
}
