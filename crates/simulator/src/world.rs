//! The names and URLs of the queues.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{LocalBoxFuture, join, join_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, select_biased};
use tidegate_core::config::{ConfigError, PollerConfig, SchedulerConfig, queue_key};
use tidegate_core::control::Control;
use tidegate_core::identity::CAMPAIGN_QUEUE_BYTES;
use tidegate_core::outcome::Failure;
use tidegate_core::rate::{InvalidRate, Rate};
use tidegate_core::tick::Tick;
use tidegate_core::timestamp::SECOND;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::back_pressure::{BackPressure, BackPressureMemory};
use tidegate_delivery::incidents::{IncidentMemory, tell};
use tidegate_delivery::ports::{
    BATCH, BATCH_BYTES, EntryError, FailureKind, Ledger as _, Outgoing, PortError, QueueUrl,
    Queues as _, Standing,
};
use tidegate_delivery::schedule::minute::{self, SchedulerRunReport, SumsMemory};
use tidegate_delivery::schedule::{self, SchedulePorts, ScheduleReport};
use tidegate_fakes::{
    FaultPlan, MemoryBucket, MemoryDeferralStore, MemoryFeedback, MemoryInvoke, MemoryLedger,
    MemoryQueues, MemorySes, MemoryTopic, QueueSettings, QueuedMessage, SeededEntropy, Universe,
};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::lambda::{LambdaEnvironment, LateStarts, PollerRun};
use crate::mail::{ProducedMail, produced};
use crate::settings::WorldSettings;

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
    pub deferral: MemoryDeferralStore,
    /// Faults of calls to queues, ledger, account and Invoke.
    pub faults: FaultPlan,
    pub mail_faults: FaultPlan<Failure>,
    pub invoke: MemoryInvoke,
    /// The topic that tells operators.
    pub topic: MemoryTopic,
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
        let topic = MemoryTopic::new(universe);
        let (invoke, ticks) = MemoryInvoke::new(universe, seed.wrapping_add(2));
        Ok(Self {
            universe,
            queues,
            ses: MemorySes::new(universe, seed.wrapping_add(3), ses),
            ledger: MemoryLedger::default(),
            bucket: MemoryBucket::new(universe),
            deferral: MemoryDeferralStore::default(),
            faults: FaultPlan::new(universe, seed.wrapping_add(4)),
            mail_faults: FaultPlan::new(universe, seed.wrapping_add(5)),
            invoke,
            topic,
            tick_rate: Cell::new(None),
            tick_delay: Cell::new(Duration::ZERO),
            starts: Cell::default(),
            unscheduled: Cell::new(false),
            schedule_reports: RefCell::default(),
            minute_reports: RefCell::default(),
            poller: RefCell::new(poller),
            scheduler,
            gauge: BackPressureMemory::default(),
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
        let bodies: Vec<Outgoing> = mails.iter().map(|mail| produced(mail.body())).collect();
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

    /// Clears the scheduler's reports, so that a long run does not keep them in memory.
    pub fn forget_schedule_reports(&self) {
        self.schedule_reports.borrow_mut().clear();
        self.minute_reports.borrow_mut().clear();
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
        let clock = self.universe.clock();
        let account = self.ses.account().with_faults(&self.faults);
        let ledger = self.ledger.clone().with_faults(&self.faults);
        let invoke = self.invoke.clone().with_faults(&self.faults);
        let config = &self.scheduler;
        let queues = self.queues.client().with_faults(&self.faults);
        let feedback = MemoryFeedback::new(self.queues.client(), url(FEEDBACK));
        let feedback = feedback.with_faults(&self.faults);
        let reading = config.feedback.as_ref().map(|config| (config, &feedback));
        let deferral = self.deferral.clone().with_faults(&self.faults);
        let back_pressure = BackPressure {
            config,
            queues: &queues,
            deferral: config.deferral.is_some().then_some(&deferral),
            entropy: &self.entropy,
            gauge: &self.gauge,
        };
        let ports = SchedulePorts {
            clock: &clock,
            account: &account,
            ledger: &ledger,
            invoke: &invoke,
            directory: &queues,
            queues: &queues,
        };
        let ticks = |before| Box::pin(schedule::run(config, woken, before, ports));
        let minute = minute::run(ticks, reading, back_pressure, &self.sums, &clock, &ledger);
        let (report, minute) = Box::pin(minute).await;
        let topic = self.topic.clone().with_faults(&self.faults);
        let (stack, told) = ("simulated", report.as_ref().ok());
        tell(&topic, stack, &self.incidents, told, &minute, &clock, &ledger).await;
        self.minute_reports.borrow_mut().push(minute);
        self.schedule_reports.borrow_mut().extend(report);
    }

    /// Starts a poller for `tick` after the latency of an asynchronous invoke.
    async fn dispatch(&self, tick: Tick) {
        let rate = self.tick_rate.get().unwrap_or(tick.rate);
        tokio::time::sleep(self.dispatch_latency() + self.tick_delay.get()).await;
        self.serve(Some(Tick { rate, ..tick })).await;
    }
}

/// `at`, or a second from now if `at` has passed.
fn later(at: Timestamp, now: Timestamp) -> Timestamp {
    if at > now { at } else { now + Duration::from_secs(1) }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum SettingsError {
    /// The account's quota or the rate that SES enforces is out of range.
    #[error("a quota is out of range")]
    Quota(#[from] InvalidRate),
    /// The poller or the scheduler would refuse these variables at start-up.
    #[error("the functions would not start")]
    Variables(#[from] ConfigError),
}

/// The merge queue's name. Campaign names contain no dots, so it cannot clash with one.
pub const MERGE: &str = "merge.fifo";
pub const EXPRESS: &str = "express";
pub const DEAD_LETTERS: &str = "dead.letters";
/// The name of the queue with SES's bounces and complaints.
pub const FEEDBACK: &str = "feedback.events";

/// The prefix of the limit queues' names.
const DOMAIN: &str = "domain.";

/// The name of the recipient domain's queue at `place`, from 0.
pub fn limit_queue(place: usize) -> String {
    format!("{DOMAIN}{}", place + 1)
}

/// The URL of the queue of this name; a campaign's queue has the campaign's name.
pub fn url(name: &str) -> QueueUrl {
    QueueUrl::new(format!("https://sqs.example/{name}"))
}
