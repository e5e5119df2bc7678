//! The ports' contracts on the fakes, in simulated time.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_core::Timestamp;
use tidegate_core::identity::EpochMillis;
use tidegate_core::outcome::Failure;
use tidegate_core::rate::Rate;
use tidegate_delivery::ports::{FailureKind, QueueUrl, SuppressionReason};
use tidegate_fakes::{
    Fault, FaultPlan, Latency, MemoryAccount, MemoryBucket, MemoryLedger, MemoryMailer,
    MemoryQueues, MemorySes, MemoryStore, MemorySuppressionList, MemoryTopic, Operation,
    QueueSettings, Rule, SesSettings, SimClock, Universe, failures,
};
use tidegate_tests::contract::bucket::{BucketRoom, bucket_contract};
use tidegate_tests::contract::directory::{DirectoryRoom, directory_contract};
use tidegate_tests::contract::exclusions::exclusions_contract;
use tidegate_tests::contract::ledger::{LedgerRoom, ledger_contract};
use tidegate_tests::contract::mail::{
    Limits, MailRoom, MailSite, Taken, Trouble, account_contract, mailer_contract,
};
use tidegate_tests::contract::marks::marks_contract;
use tidegate_tests::contract::queues::{QueueRoom, queues_contract, sqs_contract};
use tidegate_tests::contract::runs::runs_contract;
use tidegate_tests::contract::store::{StoreRoom, store_contract};
use tidegate_tests::contract::suppression::{SuppressionRoom, suppression_contract};
use tidegate_tests::contract::texts::text_contract;
use tidegate_tests::contract::topic::{TopicRoom, topic_contract};

fn universe() -> Universe {
    Universe::starting_at(Timestamp::from_millis(1_795_207_000_000))
}

/// With a plan of no faults: so the contract holds for handles with plans as well.
struct Queues {
    sqs: MemoryQueues,
    settings: QueueSettings,
    made: Cell<u32>,
}

impl Queues {
    fn new() -> Self {
        Self::with(QueueSettings::default())
    }

    fn with(settings: QueueSettings) -> Self {
        let universe = universe();
        let sqs = MemoryQueues::new(universe, 1).with_faults(&FaultPlan::new(universe, 1));
        Self { sqs, settings, made: Cell::new(0) }
    }
}

impl QueueRoom for Queues {
    type Queues = MemoryQueues;

    fn queues(&self) -> &Self::Queues {
        &self.sqs
    }

    async fn create(&self, fifo: bool) -> QueueUrl {
        let number = self.made.replace(self.made.get() + 1);
        let url = QueueUrl::new(format!("memory://{number}{}", if fifo { ".fifo" } else { "" }));
        self.sqs.create(&url, self.settings);
        url
    }

    fn short_polls(&self) -> usize {
        // A server that each poll asks with 0.3 is left out by all of forty once in a million times.
        if self.settings.sampling < 1.0 { 40 } else { 1 }
    }
}

#[tokio::test(start_paused = true)]
async fn memory_queues_keep_the_contract() {
    queues_contract(&Queues::new()).await;
}

#[tokio::test(start_paused = true)]
async fn memory_queues_whose_short_polls_sample_keep_the_contract() {
    let sampling = QueueSettings { sampling: 0.3, ..QueueSettings::default() };
    queues_contract(&Queues::with(sampling)).await;
    sqs_contract(&Queues::with(sampling)).await;
}

#[tokio::test(start_paused = true)]
async fn memory_queues_do_what_sqs_does_beyond_the_contract() {
    sqs_contract(&Queues::new()).await;
}

#[tokio::test(start_paused = true)]
async fn memory_queues_with_latency_keep_the_contract() {
    let room = Queues::new();
    let ms = Duration::from_millis;
    room.sqs.set_latency(Latency::between(ms(2), ms(20)));
    queues_contract(&room).await;
}

impl DirectoryRoom for Queues {
    type Directory = MemoryQueues;

    fn directory(&self) -> &Self::Directory {
        &self.sqs
    }

    async fn create(&self, name: &str) -> QueueUrl {
        let url = QueueUrl::new(format!("memory://{name}"));
        self.sqs.create(&url, QueueSettings::default());
        url
    }

    async fn tag(&self, queue: &QueueUrl, name: &str, value: Option<&str>) {
        self.sqs.tag(queue, name, value);
    }

    async fn delete(&self, queue: &QueueUrl) {
        self.sqs.remove(queue);
    }
}

#[tokio::test(start_paused = true)]
async fn the_directory_of_memory_queues_keeps_the_contract() {
    directory_contract(&Queues::new()).await;
}

struct Stores;

impl StoreRoom for Stores {
    type Store = MemoryStore;

    async fn open(&self) -> Self::Store {
        MemoryStore::default().with_pages_of(2).with_faults(&FaultPlan::new(universe(), 1))
    }
}

#[tokio::test(start_paused = true)]
async fn the_store_in_memory_keeps_the_contract() {
    store_contract(&Stores).await;
}

#[derive(Default)]
struct Ledgers {
    last: RefCell<MemoryLedger>,
}

impl LedgerRoom for Ledgers {
    type Ledger = MemoryLedger;

    async fn open(&self) -> Self::Ledger {
        self.last.replace(MemoryLedger::default());
        self.last.borrow().clone().with_faults(&FaultPlan::new(universe(), 1))
    }

    async fn sizes(&self) -> BTreeMap<String, usize> {
        self.last.borrow().sizes()
    }
}

#[tokio::test(start_paused = true)]
async fn the_memory_ledger_and_its_marks_keep_the_contract() {
    let room = Ledgers::default();
    ledger_contract(&room).await;
    marks_contract(&room).await;
    exclusions_contract(&room).await;
    runs_contract(&room).await;
}

struct Site {
    ses: MemorySes,
    mailer: MemoryMailer,
    account: MemoryAccount,
    clock: SimClock,
    plan: FaultPlan<Failure>,
}

struct Sites;

fn settings(limits: Limits) -> SesSettings {
    SesSettings {
        max_24_hour_send: limits.daily,
        sending_enabled: !limits.paused,
        spend_limit: limits.spend,
        ..SesSettings::of_rate(Rate::per_second(limits.rate).unwrap())
    }
}

impl MailRoom for Sites {
    type Site = Site;

    async fn open(&self, limits: Limits) -> Site {
        let universe = universe();
        let ses = MemorySes::new(universe, 1, settings(limits));
        let (clock, plan) = (universe.clock_with_offset(-200_000_000), FaultPlan::new(universe, 1));
        let mailer = ses.mailer(&clock).with_faults(&plan);
        Site { mailer, account: ses.account(), clock, plan, ses }
    }
}

impl MailSite for Site {
    type Mailer = MemoryMailer;
    type Account = MemoryAccount;
    type Clock = SimClock;

    fn mailer(&self) -> &Self::Mailer {
        &self.mailer
    }

    fn account(&self) -> &Self::Account {
        &self.account
    }

    fn clock(&self) -> &Self::Clock {
        &self.clock
    }

    fn taken(&self) -> Vec<Taken> {
        let accepted = self.ses.accepted().into_iter();
        accepted
            .filter_map(|arrival| {
                Some(Taken {
                    message_id: arrival.verdict.ok()?,
                    campaign: arrival.campaign,
                    id: arrival.id,
                    slots: arrival.recipients,
                    tenant: arrival.tenant,
                    raw: arrival.raw.map(|raw| STANDARD.decode(raw).unwrap()),
                })
            })
            .collect()
    }

    fn limit(&self, limits: Limits) {
        self.ses.configure(|current| *current = settings(limits));
    }

    fn set_tenants(&self, tenants: &[&str]) {
        self.ses.set_tenants(tenants.iter().map(|tenant| tenant.parse().unwrap()).collect());
    }

    fn trouble(&self, id: &str, to: &str, trouble: Trouble) {
        let rejected = if to.starts_with('+') {
            failures::usual("DESTINATION_PHONE_NUMBER_OPTED_OUT")
        } else {
            failures::rejected()
        };
        match trouble {
            Trouble::Rejected => self.ses.refuse_address(to, rejected),
            Trouble::ServerError => self.ses.refuse_address(to, failures::server_error()),
            Trouble::AnswerLost => {
                let lost = Rule::new(Fault::After(failures::answer_lost()));
                self.plan.add(lost.on(Operation::Mail).at(&format!("/{id}")));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_memory_mailer_keeps_the_contract() {
    mailer_contract(&Sites).await;
}

#[tokio::test(start_paused = true)]
async fn the_memory_account_keeps_the_contract() {
    account_contract(&Sites).await;
}

#[tokio::test(start_paused = true)]
async fn text_messages_in_memory_keep_the_contract() {
    text_contract(&Sites).await;
}

struct Buckets;

impl BucketRoom for Buckets {
    type Bucket = MemoryBucket;

    async fn open(&self) -> MemoryBucket {
        MemoryBucket::new(universe())
    }

    async fn wait(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_memory_bucket_keeps_the_contract() {
    bucket_contract(&Buckets).await;
}

struct SuppressionLists;

impl SuppressionRoom for SuppressionLists {
    type List = MemorySuppressionList;

    async fn open(&self, addresses: &[(&str, SuppressionReason)]) -> MemorySuppressionList {
        let list = MemorySuppressionList::default();
        for (address, reason) in addresses {
            list.put(address, *reason, EpochMillis::new(1));
        }
        list
    }
}

#[tokio::test(start_paused = true)]
async fn the_memory_suppression_list_keeps_the_contract() {
    suppression_contract(&SuppressionLists).await;
}

struct Topics;

impl TopicRoom for Topics {
    type Topic = MemoryTopic;

    async fn open(&self) -> MemoryTopic {
        MemoryTopic::new(Universe::starting_at(Timestamp::default()))
    }

    async fn missing(&self) -> MemoryTopic {
        let topic = self.open().await;
        let plan = FaultPlan::new(Universe::starting_at(Timestamp::default()), 1);
        plan.add(Rule::new(Fault::Before(FailureKind::NotFound)));
        topic.with_faults(&plan)
    }

    async fn told(&self, topic: &MemoryTopic, _: usize) -> Vec<String> {
        topic.told().into_iter().map(|(_, subject)| subject).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn the_memory_topic_keeps_the_contract() {
    topic_contract(&Topics).await;
}
