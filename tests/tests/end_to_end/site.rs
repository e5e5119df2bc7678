//! A local AWS with Tidegate in it, and what the tests do to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use aws_sdk_lambda::error::DisplayErrorContext;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::LogType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tempfile::TempDir;
use tidegate_adapters::aws::SystemClock;
use tidegate_core::Timestamp;
use tidegate_core::channel::Channel;
use tidegate_core::dead_letter::DeadLetter;
use tidegate_delivery::ports::{
    Clock as _, FailureKind, Ledger as _, Outgoing, QueueDepth, QueueUrl, Queues as _, Received,
};
use tidegate_devstack::{
    Infra, LocalAws, LocalCampaign, LocalPlan, MailArrival, Mode, RunFigures, RunSettings,
    SandboxStats, Setup, Sqs, figures, fill, is_of_plan,
};
use tidegate_tests::local::sdk_config;
use tokio::sync::{Mutex, RwLock, RwLockReadGuard, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep};

/// The account's quota in all tests: recipients a second, SES's own for a new account.
pub(crate) const QUOTA: u64 = 14;
pub(crate) const RATE: f64 = 14.0;

/// The rate margin of what is measured: the sandbox refuses whatever exceeds the quota. What the default of 0.02 keeps
/// free is 20 ms of delay on the way, and a machine that runs tests wakes a program later than that once in some
/// hundred mails; the benchmark measures with the default.
pub(crate) const RATE_MARGIN: f64 = 0.05;

/// The rate margin of strict tests that others run beside: it has room for 250 ms of delay. A machine that runs six of
/// them delays a mail by more than 100 ms now and then. What they look for is larger: a window that two pollers serve
/// has up to 14 recipients too many.
const BESIDE_OTHERS: f64 = 0.25;

/// The template's outputs that name the queues.
pub(crate) const BIG: &str = "FirstCampaignQueueUrl";
pub(crate) const SMALL: &str = "SecondCampaignQueueUrl";
pub(crate) const EXPRESS: &str = "ExpressQueueUrl";
pub(crate) const DEAD_LETTERS: &str = "DeadLetterQueueUrl";

/// Local AWSs at once: most of the time they wait.
const SITES: u32 = 6;
static FREE_SITES: Semaphore = Semaphore::const_new(SITES as usize);
/// All places, which the sites that are measured have together: while they send they need little of the processor.
static MEASURED: Mutex<Weak<SemaphorePermit<'static>>> = Mutex::const_new(Weak::new());
/// While a site is measured none starts, which takes all of the processor. The lock is fair: those that wait to start
/// come before one that would be measured.
static MEASURING: RwLock<()> = RwLock::const_new(());

/// A local AWS with Tidegate in it. Dropped while a test fails it leaves its logs, and says where.
pub(crate) struct Site {
    pub(crate) aws: LocalAws,
    pub(crate) sdk: aws_config::SdkConfig,
    lambda: aws_sdk_lambda::Client,
    arrivals: Vec<MailArrival>,
    seq: u64,
    folder: Option<TempDir>,
    _places: Arc<SemaphorePermit<'static>>,
    measuring: Option<RwLockReadGuard<'static, ()>>,
}

/// A function's response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) payload: Value,
    /// Whether Lambda reports a function error.
    pub(crate) failed: bool,
    /// The last 4 KB of its log.
    pub(crate) log: String,
}

/// Two campaigns, 90/10, of so many mails of one recipient.
pub(crate) fn plan(big: u64, small: u64) -> LocalPlan {
    let campaign = |name: &str, weight, mails| LocalCampaign {
        name: name.to_owned(),
        weight,
        mails,
        recipients: 1,
    };
    LocalPlan {
        channel: Channel::Email,
        quota: RATE,
        campaigns: vec![campaign("big", 90, big), campaign("small", 10, small)],
    }
}

pub(crate) fn checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn given(variable: &str, default: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| checkout(default), PathBuf::from)
}

pub(crate) fn bin_dir() -> PathBuf {
    given("TIDEGATE_BIN_DIR", "target/local")
}

pub(crate) fn python() -> PathBuf {
    given("TIDEGATE_PYTHON", ".tools/local/bin/python")
}

pub(crate) fn event(name: &str) -> String {
    std::fs::read_to_string(checkout("events").join(name)).unwrap()
}

/// A message with nothing but a body.
pub(crate) fn message(body: impl Into<tidegate_delivery::ports::Body>) -> Outgoing {
    Outgoing { body: body.into(), attributes: Vec::new(), delay: Duration::ZERO, fifo: None }
}

/// A mail in the short form.
pub(crate) fn mail(to: &str) -> Outgoing {
    let body = serde_json::json!({
        "to_address": to, "from_address": "news@example.org", "subject": "News", "body": "Text.",
    });
    message(body.to_string())
}

fn setup() -> Setup {
    Setup {
        settings: RunSettings {
            plan: plan(0, 0),
            // Several stacks share the processors, and each sends 10 ms late at most.
            rate_margin: Some(0.02),
            infra: Infra::Sam,
            mode: Mode::Merge,
            sqs: Sqs::Ministack,
            latency: Some("80ms".to_owned()),
            bucket_seconds: None,
            strict: false,
        },
        faults: Vec::new(),
        parameters: Vec::new(),
        port: None,
        sandbox_port: None,
        python: python(),
        bin_dir: bin_dir(),
        root: checkout(""),
        schedule: false,
    }
}

fn strict(setup: &mut Setup, rate_margin: f64) -> &mut Setup {
    setup.settings.strict = true;
    setup.settings.rate_margin = Some(rate_margin);
    setup.parameters.push(("Unsent".to_owned(), "release".to_owned()));
    setup
}

/// Waits until so many places are free, and takes them.
async fn places(count: u32) -> Arc<SemaphorePermit<'static>> {
    Arc::new(FREE_SITES.acquire_many(count).await.unwrap())
}

async fn measured_places() -> Arc<SemaphorePermit<'static>> {
    let mut measured = MEASURED.lock().await;
    if let Some(taken) = measured.upgrade() {
        return taken;
    }
    let taken = places(SITES).await;
    *measured = Arc::downgrade(&taken);
    taken
}

impl Site {
    /// One in merge mode that nothing fires; `change` makes it another.
    pub(crate) async fn start(change: impl FnOnce(&mut Setup)) -> Self {
        Self::start_in(places(1).await, change).await
    }

    /// One beside which no other runs.
    pub(crate) async fn alone(change: impl FnOnce(&mut Setup)) -> Self {
        Self::start_in(places(SITES).await, change).await
    }

    async fn start_in(
        places: Arc<SemaphorePermit<'static>>,
        change: impl FnOnce(&mut Setup),
    ) -> Self {
        let mut setup = setup();
        change(&mut setup);
        let folder = TempDir::with_prefix("tidegate-end-to-end-").unwrap();
        let aws = LocalAws::start(&setup, folder.path()).await.unwrap_or_else(|error| {
            let error = DisplayErrorContext(&error);
            panic!("`make test` builds and installs what this test needs: {error}")
        });
        let sdk = sdk_config(aws.endpoint()).await;
        Self {
            lambda: aws_sdk_lambda::Client::new(&sdk),
            sdk,
            aws,
            arrivals: Vec::new(),
            seq: 0,
            folder: Some(folder),
            _places: places,
            measuring: None,
        }
    }

    /// One whose sandbox refuses whatever exceeds the quota in any half-open second. A mail that misses
    /// its window goes into a later one at once: its visibility timeout would make the run's end 30 s
    /// longer.
    pub(crate) async fn strict(change: impl FnOnce(&mut Setup)) -> Self {
        Self::start_in(places(1).await, |setup| change(strict(setup, BESIDE_OTHERS))).await
    }

    /// A strict one that is measured: no other runs beside it but those that are measured, too.
    pub(crate) async fn measured(change: impl FnOnce(&mut Setup)) -> Self {
        let places = measured_places().await;
        let starting = MEASURING.write().await;
        let change = |setup: &mut Setup| change(strict(setup, RATE_MARGIN));
        let mut site = Box::pin(Self::start_in(places, change)).await;
        drop(starting);
        site.measuring = Some(MEASURING.read().await);
        site
    }

    /// Fires the scheduler with `EventBridge`'s event.
    pub(crate) async fn fire(&self) {
        let event = serde_json::from_str(&event("scheduled_event.json")).unwrap();
        self.aws.invoke("SchedulerFunction", &event).await.unwrap();
    }

    /// Invokes the poller with a payload, and waits for its answer.
    pub(crate) async fn poll(&self, payload: &str) -> Answer {
        let poller = self.aws.stack.output("PollerFunction").unwrap();
        let call = self.lambda.invoke().function_name(poller).log_type(LogType::Tail);
        let answer = call.payload(Blob::new(payload)).send().await.unwrap();
        let log = STANDARD.decode(answer.log_result().unwrap_or_default()).unwrap();
        Answer {
            payload: serde_json::from_slice(answer.payload().unwrap().as_ref()).unwrap(),
            failed: answer.function_error().is_some(),
            log: String::from_utf8_lossy(&log).into_owned(),
        }
    }

    pub(crate) fn queue(&self, output: &'static str) -> QueueUrl {
        self.aws.stack.queue(output).unwrap()
    }

    /// Puts messages onto a queue, in one batch.
    pub(crate) async fn put(&self, output: &'static str, messages: &[Outgoing]) {
        for entry in self.aws.sdk.queues.send(&self.queue(output), messages).await.unwrap() {
            entry.unwrap();
        }
    }

    /// Puts a plan's mails onto the campaigns' queues.
    pub(crate) async fn fill(&self, plan: &LocalPlan) {
        let urls = [self.queue(BIG), self.queue(SMALL)];
        fill(&self.aws.sdk.queues, plan, &urls).await.unwrap();
    }

    /// Asks again where the local AWS has no answer in time: it shares the processor with
    /// everything that the test runs, and a look at a queue is no part of what is tested.
    pub(crate) async fn depth(&self, output: &'static str) -> QueueDepth {
        let queue = self.queue(output);
        for _ in 0..9 {
            match self.aws.sdk.queues.depth(&queue).await {
                Err(error) if error.kind == FailureKind::TimedOut => {}
                answer => return answer.unwrap(),
            }
        }
        self.aws.sdk.queues.depth(&queue).await.unwrap()
    }

    /// Reads new arrivals, and returns all.
    pub(crate) async fn look(&mut self) -> &[MailArrival] {
        self.aws.check().unwrap_or_else(|error| panic!("{error}"));
        let (new, seq) = self.aws.sandbox.mails_after(self.seq).await.unwrap();
        self.seq = seq;
        self.arrivals.extend(new);
        self.arrivals.sort_by_key(|arrival| arrival.at_ns);
        &self.arrivals
    }

    /// Waits until as many mails have arrived, at most so many seconds.
    pub(crate) async fn wait_for(&mut self, mails: usize, seconds: u64) {
        let until = Instant::now() + Duration::from_secs(seconds);
        while self.look().await.len() < mails {
            let arrived = self.arrivals.len();
            assert!(Instant::now() < until, "{arrived} of {mails} mails in {seconds} s");
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until nothing is left in any queue but the dead letters, then for what may come late.
    pub(crate) async fn wait_until_empty(&mut self, seconds: u64) {
        let until = Instant::now() + Duration::from_secs(seconds);
        loop {
            let mut left = BTreeMap::new();
            for queue in [BIG, SMALL, EXPRESS, "MergeQueueUrl"] {
                if self.aws.stack.queue(queue).is_ok() {
                    left.insert(queue, self.depth(queue).await);
                }
            }
            if left.values().all(|depth| *depth == QueueDepth::default()) {
                break;
            }
            assert!(Instant::now() < until, "left after {seconds} s: {left:?}");
            sleep(Duration::from_millis(500)).await;
        }
        sleep(Duration::from_secs(1)).await;
        self.look().await;
    }

    pub(crate) fn figures(&self, plan: &LocalPlan) -> RunFigures {
        figures(plan, &self.arrivals, |campaign, key| is_of_plan(plan, campaign, key))
    }

    pub(crate) fn arrivals(&self) -> &[MailArrival] {
        &self.arrivals
    }

    pub(crate) async fn stats(&self) -> SandboxStats {
        self.aws.sandbox.stats().await.unwrap()
    }

    pub(crate) async fn change(&self, change: Value) {
        self.aws.sandbox.change(&change).await.unwrap();
    }

    /// The sums of the pollers' reports, once `name` has reached `sum` there: a poller reports when
    /// all of its window is settled.
    pub(crate) async fn counters_with(&self, name: &str, sum: i64) -> BTreeMap<String, i64> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let counters = self.aws.ledger().unwrap().read().await.unwrap().counters;
            let reached = counters.get(name).copied().unwrap_or_default();
            if reached >= sum {
                assert_eq!(reached, sum, "{name}: {counters:?}");
                return counters;
            }
            assert!(Instant::now() < until, "{name} is {reached}, not {sum}: {counters:?}");
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Takes so many dead letters from their queue.
    pub(crate) async fn dead_letters(&self, letters: usize, seconds: u64) -> Vec<DeadLetter> {
        let until = Instant::now() + Duration::from_secs(seconds);
        let mut taken = Vec::new();
        while taken.len() < letters {
            let count = taken.len();
            assert!(Instant::now() < until, "{count} of {letters} dead letters in {seconds} s");
            taken.extend(self.take(DEAD_LETTERS).await);
        }
        let read = |letter: &Received| {
            let attribute = |name: &str| letter.attributes.get(name).map(String::as_str);
            DeadLetter::from_queue_message(&letter.body, attribute).unwrap()
        };
        taken.iter().map(read).collect()
    }

    async fn take(&self, output: &'static str) -> Vec<Received> {
        let (queue, wait) = (self.queue(output), Duration::from_secs(1));
        self.aws.sdk.queues.receive(&queue, 10, wait).await.unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let failing = std::thread::panicking();
        if let Some(folder) = self.folder.take().filter(|_| failing) {
            println!("the logs of this local AWS are in {}", folder.keep().display());
        }
    }
}

/// Now, on the same clock that the mailbox tells.
pub(crate) fn now() -> Timestamp {
    SystemClock::new().wall()
}
