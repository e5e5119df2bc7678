//! A simulated world: queues, SES, a ledger, EventBridge and Lambda with its environments.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{LocalBoxFuture, join, join_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, select_biased};
use tidegate_core::config::{POLLER_TIMEOUT, PollerConfig, SchedulerConfig, queue_key};
use tidegate_core::control::Control;
use tidegate_core::identity::CAMPAIGN_QUEUE_BYTES;
use tidegate_core::outcome::Failure;
use tidegate_core::rate::Rate;
use tidegate_core::tick::Tick;
use tidegate_core::timestamp::SECOND;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::back_pressure::{BackPressure, BackPressureMemory};
use tidegate_delivery::bucketed::Bucketed;
use tidegate_delivery::incidents::{IncidentMemory, Listeners, tell, tell_finished};
use tidegate_delivery::poll::{PollError, Poller, WindowReport};
use tidegate_delivery::ports::{
    BATCH, BATCH_BYTES, Entropy as _, EntryError, FailureKind, Ledger as _, Outgoing, PortError,
    Ports, QueueUrl, Queues as _, Standing,
};
use tidegate_delivery::schedule::minute::{self, SchedulerRunReport, SumsMemory};
use tidegate_delivery::schedule::refill::{Refill, RefillMemory};
use tidegate_delivery::schedule::{self, SchedulePorts, ScheduleReport};
use tidegate_fakes::{
    FaultPlan, MemoryAccount, MemoryBucket, MemoryBus, MemoryInvoke, MemoryLedger, MemoryMailer,
    MemoryQueues, MemorySes, MemoryStore, MemoryTopic, QueueSettings, QueuedMessage, SeededEntropy,
    SimClock, Universe,
};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::mail::ProducedMail;
use crate::settings::{
    DEAD_LETTERS, DOMAIN, EXPRESS, FEEDBACK, MERGE, SettingsError, WorldSettings, limit_queue, url,
};

fn create(queues: &MemoryQueues, name: &str, settings: QueueSettings) {
    // What producers put on a queue leaves room for our attributes.
    let fed = ![MERGE, DEAD_LETTERS].contains(&name) && !name.starts_with(DOMAIN);
    let largest = if fed { CAMPAIGN_QUEUE_BYTES } else { BATCH_BYTES };
    queues.create(&url(name), QueueSettings { max_message_bytes: largest, ..settings });
}

/// Queues, SES, ledger, and the pollers on them.
#[derive(Debug)]
// More than 12 fields: one for each port and fault plan of a simulation.
pub struct World {
    pub settings: WorldSettings,
    pub universe: Universe,
    pub queues: MemoryQueues,
    pub ses: MemorySes,
    pub ledger: MemoryLedger,
    /// The shared bucket, for pollers that are configured with one and for other software.
    pub bucket: MemoryBucket,
    pub store: MemoryStore,
    /// Faults of calls to queues, ledger, account and Invoke.
    pub faults: FaultPlan,
    pub mail_faults: FaultPlan<Failure>,
    pub invoke: MemoryInvoke,
    /// The topic that tells operators.
    pub topic: MemoryTopic,
    /// The bus that tells other programs.
    pub bus: MemoryBus,
    /// If set, ticks carry this rate instead of the quota that the scheduler read.
    pub tick_rate: Cell<Option<Rate>>,
    /// Additional latency of every tick on its way to the poller.
    pub tick_delay: Cell<Duration>,
    /// How late functions start.
    pub starts: Cell<LateStarts>,
    /// If set, EventBridge's trigger no longer starts a scheduler.
    pub unscheduled: Cell<bool>,
    /// The reports of the scheduler's runs.
    pub schedule_reports: RefCell<Vec<ScheduleReport>>,
    /// The reports of the scheduler's other work: feedback, back-pressure, replay of deferred mail.
    pub minute_reports: RefCell<Vec<SchedulerRunReport>>,
    pub poller: RefCell<PollerConfig>,
    scheduler: SchedulerConfig,
    gauge: BackPressureMemory,
    refills: RefillMemory,
    incidents: IncidentMemory,
    sums: SumsMemory,
    pub(crate) entropy: SeededEntropy,
    /// The execution environments in the order of creation; `None` for one that is gone.
    pub environments: RefCell<Vec<Option<Rc<LambdaEnvironment>>>>,
    pub(crate) poller_runs: RefCell<Vec<PollerRun>>,
    ticks: RefCell<Option<UnboundedReceiver<Tick>>>,
}

impl World {
    /// A world with empty queues. Must be called inside a paused tokio runtime.
    ///
    /// # Errors
    /// [`SettingsError`] on settings that the functions or SES would refuse.
    pub fn new(settings: WorldSettings) -> Result<Self, SettingsError> {
        let (poller, scheduler) = (settings.poller()?, settings.scheduler()?);
        let ses = settings.ses()?;
        let universe = Universe::starting_at(settings.epoch);
        let seed = settings.seed.wrapping_mul(1_000);
        let queues = MemoryQueues::new(universe, seed.wrapping_add(1));
        let names = settings.campaigns.iter().map(|(name, _)| name.as_str());
        let create = |name: &str| create(&queues, name, settings.queues);
        names.chain([MERGE, EXPRESS, DEAD_LETTERS]).for_each(create);
        let others = settings.priority_queues.iter();
        others.for_each(|(campaign, priority)| create(&queue_key(campaign, *priority)));
        (0..poller.limits.queues.len()).for_each(|place| create(&limit_queue(place)));
        if scheduler.feedback.is_some() {
            create(FEEDBACK);
        }
        queues.set_latency(settings.sqs_latency);
        let (topic, bus) = (MemoryTopic::new(universe), MemoryBus::default());
        let (invoke, ticks) = MemoryInvoke::new(universe, seed.wrapping_add(2));
        Ok(Self {
            universe,
            queues,
            ses: MemorySes::new(universe, seed.wrapping_add(3), ses),
            ledger: MemoryLedger::default(),
            bucket: MemoryBucket::new(universe),
            store: MemoryStore::default(),
            faults: FaultPlan::new(universe, seed.wrapping_add(4)),
            mail_faults: FaultPlan::new(universe, seed.wrapping_add(5)),
            invoke,
            topic,
            bus,
            tick_rate: Cell::new(None),
            tick_delay: Cell::new(Duration::ZERO),
            starts: Cell::default(),
            unscheduled: Cell::new(false),
            schedule_reports: RefCell::default(),
            minute_reports: RefCell::default(),
            poller: RefCell::new(poller),
            scheduler,
            gauge: BackPressureMemory::default(),
            refills: RefillMemory::default(),
            incidents: IncidentMemory::default(),
            sums: SumsMemory::default(),
            entropy: SeededEntropy::new(seed.wrapping_add(6)),
            environments: RefCell::default(),
            poller_runs: RefCell::default(),
            ticks: RefCell::new(Some(ticks)),
            settings,
        })
    }

    /// The number of limit queues.
    pub fn limit_queues(&self) -> usize {
        self.poller.borrow().limits.queues.len()
    }

    /// Puts messages on the queue of this name.
    ///
    /// # Errors
    /// [`PortError`] where the queue does not take one; others may stand on it.
    pub async fn put_raw(&self, queue: &str, messages: &[Outgoing]) -> Result<(), PortError> {
        let url = url(queue);
        let sends = messages.chunks(BATCH).map(|batch| self.put_batch(&url, batch.to_vec()));
        join_all(sends).await.into_iter().collect()
    }

    /// Sends a batch. Entries that fail with `InternalError` are sent again; the first other one that is refused is
    /// the error.
    async fn put_batch(&self, url: &QueueUrl, mut batch: Vec<Outgoing>) -> Result<(), PortError> {
        while !batch.is_empty() {
            let mut answers = self.queues.send(url, &batch).await?.into_iter();
            let mut refused = None;
            batch.retain(|_| match answers.next() {
                Some(Err(error)) if error.code == "InternalError" => true,
                Some(Err(error)) => {
                    refused.get_or_insert(error);
                    false
                }
                _ => false,
            });
            if let Some(EntryError { code, message }) = refused {
                let kind = FailureKind::Refused(format!("{code}: {message}"));
                let (operation, resource) = ("SendMessageBatch", url.to_string());
                return Err(PortError { operation, resource, kind, source: None });
            }
        }
        Ok(())
    }

    /// Puts `count` mails of one recipient on a campaign's queue, `name-0` and so on.
    ///
    /// # Errors
    /// [`PortError`] where the queue does not take them.
    pub async fn fill(&self, campaign: &str, count: usize) -> Result<(), PortError> {
        let mails = ProducedMail::several(campaign, count, 1);
        let bodies: Vec<Outgoing> = mails.iter().map(|mail| Outgoing::new(mail.body())).collect();
        self.put_raw(campaign, &bodies).await
    }

    /// All messages on the queue of this name.
    pub fn contents(&self, queue: &str) -> Vec<QueuedMessage> {
        self.queues.contents(&url(queue))
    }

    /// The next window that a scheduler starting now would send a tick for.
    pub fn next_window(&self) -> Window {
        let lead = self.scheduler.lead;
        Window::containing(self.universe.now() + lead).plus(1)
    }

    /// All poller runs that have ended, in the order of their ends.
    pub fn poller_runs(&self) -> RefMut<'_, Vec<PollerRun>> {
        self.poller_runs.borrow_mut()
    }

    /// The current state of the ledger.
    ///
    /// # Errors
    /// None: the memory ledger answers.
    pub async fn ledger_now(&self) -> Result<Standing, PortError> {
        self.ledger.read().await
    }

    /// Changes the control record as an operator does; false if another writer changed it in
    /// between.
    ///
    /// # Errors
    /// None: the memory ledger answers.
    pub async fn control(&self, change: impl FnOnce(&mut Control)) -> Result<bool, PortError> {
        let mut standing = self.ledger_now().await?;
        change(&mut standing.control);
        let version = standing.control_version;
        self.ledger.set_control(version, &standing.control).await
    }

    /// Runs `windows` windows with the production scheduler, waits for the last poller and returns
    /// the first window.
    pub async fn run(&self, windows: u64) -> Window {
        self.play(windows, async |_| {}).await
    }

    /// [`World::run`] with a `script` that runs at the same time and gets the first window.
    pub async fn play(&self, windows: u64, script: impl AsyncFnOnce(Window)) -> Window {
        let first = self.next_window();
        let end = Cell::new(first.plus(windows));
        join(self.drive(&end), script(first)).await;
        first
    }

    /// Runs the production scheduler until `script`, which gets the first window, is done and all
    /// pollers have ended. Returns the result of `script`.
    pub async fn play_until_done<R>(&self, script: impl AsyncFnOnce(Window) -> R) -> R {
        let end = Cell::new(Window::from_epoch_second(u64::MAX / SECOND));
        let scripted = async {
            let done = script(self.next_window()).await;
            end.set(self.next_window());
            done
        };
        join(self.drive(&end), scripted).await.1
    }

    /// Plays EventBridge and Lambda until the window `end`, which the script may bring forward
    /// meanwhile. Boxed: see [`World::run_scheduler`].
    fn drive<'a>(&'a self, end: &'a Cell<Window>) -> LocalBoxFuture<'a, ()> {
        Box::pin(self.drive_until(end))
    }

    async fn drive_until(&self, end: &Cell<Window>) {
        let Some(mut ticks) = self.ticks.take() else { return };
        // No tick is left over from another run.
        while ticks.try_recv().is_ok() {}
        let mut pollers = FuturesUnordered::new();
        let mut schedulers = FuturesUnordered::new();
        let mut trigger = self.universe.now();
        loop {
            // EventBridge: a trigger every minute, also while an earlier scheduler still runs.
            if self.universe.now() >= trigger {
                trigger = trigger + Duration::from_mins(1);
                if !self.unscheduled.get() {
                    schedulers.push(self.trigger());
                }
            }
            // Schedulers that are still running are dropped; they would only send ticks after the
            // end.
            if self.universe.now() >= end.get().opens() && pollers.is_empty() {
                break;
            }
            let next = trigger.min(later(end.get().opens(), self.universe.now()));
            let mut wait = std::pin::pin!(self.universe.sleep_until(next).fuse());
            let mut tick = std::pin::pin!(ticks.recv().fuse());
            select_biased! {
                // Lambda: each tick starts a poller of its own. Ticks for windows after the end are
                // dropped.
                tick = tick => if let Some(tick) = tick && tick.window < end.get() {
                    pollers.push(self.dispatch(tick));
                },
                () = pollers.select_next_some() => {}
                () = schedulers.select_next_some() => {}
                () = wait => {}
            }
        }
        self.ticks.replace(Some(ticks));
    }

    /// EventBridge's trigger of a minute, which may be late.
    async fn trigger(&self) {
        tokio::time::sleep(self.starts.get().trigger).await;
        self.run_scheduler(false).await;
    }

    /// One run of the production scheduler, invoked by EventBridge, or (`woken`) by somebody else.
    ///
    /// Boxed by a function that is not async: the compiler translates an async function in each program that
    /// awaits it, and a box of it here. A test binary would else contain all of the scheduler and the poller, which takes 15 s.
    pub fn run_scheduler(&self, woken: bool) -> LocalBoxFuture<'_, ()> {
        Box::pin(self.run_whole_scheduler(woken))
    }

    async fn run_whole_scheduler(&self, woken: bool) {
        let (config, clock) = (&self.scheduler, &self.universe.clock());
        let account = &self.ses.account().with_faults(&self.faults);
        let ledger = &self.ledger.clone().with_faults(&self.faults);
        let invoke = &self.invoke.clone().with_faults(&self.faults);
        let queues = &self.queues.client().with_faults(&self.faults);
        let store = &self.store.clone().with_faults(&self.faults);
        let pressure = BackPressure { config, queues, gauge: &self.gauge };
        let store = config.store.is_some().then_some(store);
        let refill = Refill { store, queues, entropy: &self.entropy, memory: &self.refills };
        let ports = SchedulePorts { clock, account, ledger, invoke, directory: queues, queues };
        let ticks = |before| Box::pin(schedule::run(config, woken, before, ports));
        let feedback = config.feedback.as_ref();
        let minute = minute::run(ticks, feedback, pressure, refill, &self.sums, clock, ledger);
        let (report, minute) = Box::pin(minute).await;
        let topic = self.topic.clone().with_faults(&self.faults);
        let bus = self.bus.clone().with_faults(&self.faults);
        let bus = config.event_bus.is_some().then_some(&bus);
        let listeners = Listeners { stack: "simulated", topic: Some(&topic), bus };
        let told = report.as_ref().ok();
        tell(&listeners, &self.incidents, told, &minute, clock, ledger).await;
        if let (Some(known), Some(now)) = (&config.back_pressure, &minute.standing) {
            tell_finished(&listeners, &known.campaigns, now, queues, clock, ledger).await;
        }
        self.minute_reports.borrow_mut().push(minute);
        self.schedule_reports.borrow_mut().extend(report);
    }

    /// Starts a poller for `tick` after the latency of an asynchronous invoke.
    async fn dispatch(&self, tick: Tick) {
        let rate = self.tick_rate.get().unwrap_or(tick.quota);
        tokio::time::sleep(self.dispatch_latency() + self.tick_delay.get()).await;
        self.serve(Some(Tick { quota: rate, ..tick })).await;
    }
}

/// `at`, or a second from now if `at` has passed.
fn later(at: Timestamp, now: Timestamp) -> Timestamp {
    if at > now { at } else { now + Duration::from_secs(1) }
}

impl World {
    /// Creates environment number `number`. Its wall clock is `ahead` nanoseconds ahead of true
    /// time.
    fn new_environment(&self, number: usize, ahead: i64) -> LambdaEnvironment {
        let poller = self.poller.borrow().clone();
        let clock = self.universe.clock_with_offset(ahead).on(poller.memory);
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
            store: poller.store.is_some().then(|| self.store.clone().with_faults(&self.faults)),
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
        let free = environments.iter().position(|e| e.as_ref().is_some_and(|e| !e.busy.get()));
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
        let end = tokio::select! {
            biased;
            () = environment.crash.notified() => PollerEnd::Crashed,
            () = tokio::time::sleep(POLLER_TIMEOUT) => PollerEnd::Crashed,
            served = Box::pin(environment.poller.serve(tick)) => match served {
                Ok(report) => PollerEnd::Reported(Box::new(report)),
                Err(error) => PollerEnd::Failed(error),
            },
        };
        environment.busy.set(false);
        let is_over = match &end {
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
        let run = PollerRun { tick, at, ended, environment: index, end };
        self.poller_runs.borrow_mut().push(run);
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
    MemoryStore,
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
    /// It serves a window now.
    pub busy: Cell<bool>,
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
