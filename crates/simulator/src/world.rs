use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, select_biased};
use tidegate_core::config::{PollerConfig, SchedulerConfig};
use tidegate_core::control::Control;
use tidegate_core::identity::CAMPAIGN_QUEUE_BYTES;
use tidegate_core::outcome::Failure;
use tidegate_core::rate::Rate;
use tidegate_core::tick::Tick;
use tidegate_core::timestamp::SECOND;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::minute::{self, MinuteReport};
use tidegate_delivery::ports::{
    Entry, Ledger as _, Outgoing, PortError, QueueUrl, Queues as _, Standing,
};
use tidegate_delivery::pressure::{Gauge, Pressure};
use tidegate_delivery::schedule::{self, ScheduleReport};
use tidegate_memory::{
    FaultPlan, Faulty, MemoryBucket, MemoryFeedback, MemoryInvoke, MemoryLedger, MemoryQueues,
    MemorySes, MemorySpill, QueueSettings, QueuedMessage, SeededEntropy, Universe,
};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::{PutError, SettingsError};
use crate::lambda::{LambdaEnvironment, PollerRun};
use crate::mail::{ProducedMail, produced};
use crate::settings::WorldSettings;

/// The merge queue's name. No campaign's name has a dot in it.
pub const MERGE: &str = "merge.fifo";
/// The express queue's name.
pub const EXPRESS: &str = "express";
/// The dead-letter queue's name.
pub const DEAD_LETTERS: &str = "dead.letters";
/// The name of the queue with SES's bounces and complaints.
pub const FEEDBACK: &str = "feedback.events";

/// What the names of recipient domains' queues begin with.
const DOMAIN: &str = "domain.";

/// The name of the recipient domain's queue at `place`, from 0.
pub fn domain_queue(place: usize) -> String {
    format!("{DOMAIN}{}", place + 1)
}

/// The URL of the queue of this name; a campaign's queue has the campaign's name.
pub(crate) fn url(name: &str) -> QueueUrl {
    QueueUrl::new(format!("https://sqs.example/{name}"))
}

fn create(queues: &MemoryQueues, name: &str, settings: QueueSettings) {
    // What producers put on a queue leaves room for our attributes.
    let fed = ![MERGE, DEAD_LETTERS].contains(&name) && !name.starts_with(DOMAIN);
    let largest = if fed { CAMPAIGN_QUEUE_BYTES } else { 1_048_576 };
    queues.create(&url(name), QueueSettings { max_message_bytes: largest, ..settings });
}

/// Queues, SES, ledger, and the pollers on them.
#[derive(Debug)]
pub struct World {
    /// What it is like.
    pub settings: WorldSettings,
    /// True time.
    pub universe: Universe,
    /// The queues, without faults.
    pub queues: MemoryQueues,
    /// The account.
    pub ses: MemorySes,
    /// The ledger, without faults.
    pub ledger: MemoryLedger,
    /// What pollers take from that are configured with a shared bucket, and other software.
    pub bucket: MemoryBucket,
    /// Deferred mail, without faults.
    pub spill: MemorySpill,
    /// What befalls calls to queues, ledger, account and Invoke.
    pub faults: FaultPlan,
    /// What befalls mails.
    pub mail_faults: FaultPlan<Failure>,
    /// What the scheduler invokes.
    pub invoke: MemoryInvoke,
    /// The quota that ticks carry from now on, instead of the one the scheduler read.
    pub tick_rate: Cell<Option<Rate>>,
    /// Longer on the way to its poller than usual, every tick from now on.
    pub tick_delay: Cell<Duration>,
    /// Without a scheduler from now on: no trigger starts one.
    pub unscheduled: Cell<bool>,
    /// What the scheduler's runs came to.
    pub schedule_reports: RefCell<Vec<ScheduleReport>>,
    /// What there was beside their ticks.
    pub minute_reports: RefCell<Vec<MinuteReport>>,
    /// What new environments are configured with.
    pub(crate) poller: RefCell<PollerConfig>,
    scheduler: SchedulerConfig,
    /// What the scheduler's environment remembers.
    gauge: Gauge,
    rate: Rate,
    pub(crate) entropy: SeededEntropy,
    pub(crate) environments: RefCell<Vec<Option<Rc<LambdaEnvironment>>>>,
    pub(crate) poller_runs: RefCell<Vec<PollerRun>>,
    pub(crate) enqueued: RefCell<BTreeMap<String, u32>>,
    ticks: RefCell<Option<UnboundedReceiver<Tick>>>,
}

impl World {
    /// A world with empty queues. Must be called inside a paused tokio runtime.
    ///
    /// # Errors
    /// [`SettingsError`] on settings that the functions or SES would refuse.
    pub fn new(settings: WorldSettings) -> Result<Self, SettingsError> {
        let (poller, scheduler) = (settings.poller()?, settings.scheduler()?);
        let (ses, rate) = (settings.ses()?, Rate::per_second(settings.quota)?);
        let universe = Universe::starting_at(settings.epoch);
        let seed = settings.seed.wrapping_mul(1_000);
        let queues = MemoryQueues::new(universe, seed.wrapping_add(1));
        let names = settings.campaigns.iter().map(|(name, _)| name.as_str());
        let create = |name: &str| create(&queues, name, settings.queues);
        names.chain([MERGE, EXPRESS, DEAD_LETTERS]).for_each(create);
        (0..poller.domains.queues.len()).for_each(|place| create(&domain_queue(place)));
        if scheduler.feedback.is_some() {
            create(FEEDBACK);
        }
        queues.set_latency(settings.sqs_latency);
        let (invoke, ticks) = MemoryInvoke::new(universe, seed.wrapping_add(2));
        Ok(Self {
            universe,
            queues,
            ses: MemorySes::new(universe, seed.wrapping_add(3), ses),
            ledger: MemoryLedger::default(),
            bucket: MemoryBucket::new(universe),
            spill: MemorySpill::default(),
            faults: FaultPlan::new(universe, seed.wrapping_add(4)),
            mail_faults: FaultPlan::new(universe, seed.wrapping_add(5)),
            invoke,
            tick_rate: Cell::new(None),
            tick_delay: Cell::new(Duration::ZERO),
            unscheduled: Cell::new(false),
            schedule_reports: RefCell::default(),
            minute_reports: RefCell::default(),
            poller: RefCell::new(poller),
            scheduler,
            gauge: Gauge::default(),
            rate,
            entropy: SeededEntropy::new(seed.wrapping_add(6)),
            environments: RefCell::default(),
            poller_runs: RefCell::default(),
            enqueued: RefCell::default(),
            ticks: RefCell::new(Some(ticks)),
            settings,
        })
    }

    /// How many recipient domains' queues there are.
    pub fn domain_queues(&self) -> usize {
        self.poller.borrow().domains.queues.len()
    }

    /// Makes a queue of this name, as another stack does.
    pub fn add_queue(&self, name: &str) {
        create(&self.queues, name, self.settings.queues);
    }

    /// Deletes the queue of this name with all that is on it.
    pub fn remove_queue(&self, name: &str) {
        self.queues.remove(&url(name));
    }

    /// Tags the queue of this name, or takes the tag off it (none).
    pub fn tag(&self, queue: &str, tag: &str, value: Option<&str>) {
        self.queues.tag(&url(queue), tag, value);
    }

    /// Puts mails on the queue of this name, as producers do; they count as accepted.
    ///
    /// # Errors
    /// [`PutError`] where the queue does not take them.
    pub async fn put(&self, queue: &str, mails: &[ProducedMail]) -> Result<(), PutError> {
        let bodies: Vec<Outgoing> = mails.iter().map(|mail| produced(mail.body())).collect();
        self.put_raw(queue, &bodies).await?;
        let mut enqueued = self.enqueued.borrow_mut();
        enqueued.extend(mails.iter().map(|mail| (mail.id.clone(), mail.recipients)));
        Ok(())
    }

    /// Puts messages on the queue of this name, whatever they are.
    ///
    /// # Errors
    /// [`PutError`] where the queue does not take one; others may stand on it.
    pub async fn put_raw(&self, queue: &str, messages: &[Outgoing]) -> Result<(), PutError> {
        let url = url(queue);
        let sends = messages.chunks(10).map(|batch| self.put_batch(&url, batch.to_vec()));
        for answer in join_all(sends).await {
            let named = || queue.to_owned();
            let entries = answer.map_err(|source| PutError::Batch { queue: named(), source })?;
            for entry in entries {
                entry.map_err(|entry| PutError::Entry { queue: named(), entry })?;
            }
        }
        Ok(())
    }

    /// Sends a batch, again and again what fails by no fault of its own; gives what else fails.
    async fn put_batch(
        &self,
        url: &QueueUrl,
        mut batch: Vec<Outgoing>,
    ) -> Result<Vec<Entry>, PortError> {
        let mut refused = Vec::new();
        while !batch.is_empty() {
            let answers = self.queues.send(url, &batch).await?;
            let mut answers = answers.into_iter();
            batch.retain(|_| match answers.next() {
                Some(Err(error)) if error.code == "InternalError" => true,
                Some(Err(error)) => {
                    refused.push(Err(error));
                    false
                }
                _ => false,
            });
        }
        Ok(refused)
    }

    /// Puts `count` mails of one recipient on a campaign's queue, `name-0` and so on.
    ///
    /// # Errors
    /// [`PutError`] where the queue does not take them.
    pub async fn fill(&self, campaign: &str, count: usize) -> Result<(), PutError> {
        self.put(campaign, &ProducedMail::several(campaign, count, 1)).await
    }

    /// What stands on the queue of this name.
    pub fn contents(&self, queue: &str) -> Vec<QueuedMessage> {
        self.queues.contents(&url(queue))
    }

    /// The mails that ever came to stand on the queue of this name with an identity, and when.
    pub fn taken(&self, queue: &str) -> Vec<(Timestamp, String)> {
        self.queues.taken(&url(queue))
    }

    /// The tick of a window at the quota.
    pub fn tick(&self, window: Window) -> Tick {
        Tick { window, rate: self.tick_rate.get().unwrap_or(self.rate) }
    }

    /// The next window that a scheduler starting now would send a tick for.
    pub fn next_window(&self) -> Window {
        let lead = self.scheduler.lead;
        Window::containing(self.universe.now() + lead).plus(1)
    }

    /// Sleeps until `after` past the opening of window number `number`, counted from `first`.
    pub async fn until(&self, first: Window, number: u64, after: Duration) {
        self.universe.sleep_until(first.plus(number).opens() + after).await;
    }

    /// All pollers that ended, in that order.
    pub fn poller_runs(&self) -> RefMut<'_, Vec<PollerRun>> {
        self.poller_runs.borrow_mut()
    }

    /// Forgets what schedulers reported: a long run need not keep it.
    pub fn forget_schedule_reports(&self) {
        self.schedule_reports.borrow_mut().clear();
        self.minute_reports.borrow_mut().clear();
    }

    /// What stands in the ledger.
    ///
    /// # Errors
    /// None: the memory ledger answers.
    pub async fn ledger_now(&self) -> Result<Standing, PortError> {
        self.ledger.read().await
    }

    /// Changes the control record, as an operator does; false where another writer came in between.
    ///
    /// # Errors
    /// None: the memory ledger answers.
    pub async fn control(&self, change: impl FnOnce(&mut Control)) -> Result<bool, PortError> {
        let mut standing = self.ledger_now().await?;
        change(&mut standing.control);
        let version = standing.control_version;
        self.ledger.set_control(version, &standing.control).await
    }

    /// Runs `windows` windows under the production scheduler and waits for the last poller; gives
    /// the first window.
    pub async fn run(&self, windows: u64) -> Window {
        self.play(windows, async |_| {}).await
    }

    /// As [`World::run`], with `script` beside it, which is given the first window.
    pub async fn play(&self, windows: u64, script: impl AsyncFnOnce(Window)) -> Window {
        let first = self.next_window();
        let end = Cell::new(first.plus(windows));
        join(self.drive(&end), script(first)).await;
        first
    }

    /// Runs under the production scheduler until `script` is done, which is given the first window,
    /// and then until the pollers under way have ended; gives what `script` gave.
    pub async fn play_until_done<R>(&self, script: impl AsyncFnOnce(Window) -> R) -> R {
        let end = Cell::new(Window::from_epoch_second(u64::MAX / SECOND));
        let scripted = async {
            let done = script(self.next_window()).await;
            end.set(self.next_window());
            done
        };
        join(self.drive(&end), scripted).await.1
    }

    /// EventBridge and Lambda, up to the window `end`, which may come to lie earlier meanwhile.
    async fn drive(&self, end: &Cell<Window>) {
        let Some(mut ticks) = self.ticks.take() else { return };
        // No tick is left over from another run.
        while ticks.try_recv().is_ok() {}
        let mut pollers = FuturesUnordered::new();
        let mut schedulers = FuturesUnordered::new();
        let mut trigger = self.universe.now();
        loop {
            if self.universe.now() >= trigger {
                trigger = trigger + Duration::from_mins(1);
                if !self.unscheduled.get() {
                    schedulers.push(self.schedule());
                }
            }
            if self.universe.now() >= end.get().opens() && pollers.is_empty() {
                break;
            }
            let next = trigger.min(later(end.get().opens(), self.universe.now()));
            let mut wait = std::pin::pin!(self.universe.sleep_until(next).fuse());
            let mut tick = std::pin::pin!(ticks.recv().fuse());
            select_biased! {
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

    /// One run of the production scheduler.
    pub async fn schedule(&self) {
        let clock = self.universe.clock();
        let account = Faulty::new(self.ses.account(), self.faults.clone());
        let ledger = Faulty::new(self.ledger.clone(), self.faults.clone());
        let invoke = Faulty::new(self.invoke.clone(), self.faults.clone());
        let config = &self.scheduler;
        let queues = Faulty::new(self.queues.client(), self.faults.clone());
        let feedback = MemoryFeedback::new(self.queues.client(), url(FEEDBACK));
        let feedback = Faulty::new(feedback, self.faults.clone());
        let reading = config.feedback.as_ref().map(|config| (config, &feedback));
        let spill = Faulty::new(self.spill.clone(), self.faults.clone());
        let pressure = Pressure {
            config,
            queues: &queues,
            spill: config.spill.is_some().then_some(&spill),
            entropy: &self.entropy,
            gauge: &self.gauge,
        };
        let ticks = Box::pin(schedule::run(config, &clock, &account, &ledger, &invoke, &queues));
        let minute = minute::run(ticks, reading, pressure, &clock, &ledger);
        let (report, minute) = Box::pin(minute).await;
        self.minute_reports.borrow_mut().push(minute);
        self.schedule_reports.borrow_mut().extend(report);
    }

    /// An asynchronous invoke: some time later a poller starts.
    async fn dispatch(&self, tick: Tick) {
        let rate = self.tick_rate.get().unwrap_or(tick.rate);
        tokio::time::sleep(self.dispatch_latency() + self.tick_delay.get()).await;
        self.serve(Some(Tick { rate, ..tick })).await;
    }
}

/// `at`, or a second from now where that has passed.
fn later(at: Timestamp, now: Timestamp) -> Timestamp {
    if at > now { at } else { now + Duration::from_secs(1) }
}
