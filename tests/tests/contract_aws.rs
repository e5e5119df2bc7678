//! The ports' contracts on the AWS adapters: over real connections, on a local AWS and the SES
//! sandbox.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};
use aws_sdk_sesv2::types::SuppressionListReason;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_adapters::aws::{
    AwsMailer, DynamoLedger, S3Store, SesAccount, SesSuppressionList, SmsAccount, SnsTopic,
    SystemClock,
};
use tidegate_core::rate::Rate;
use tidegate_core::store::Location;
use tidegate_delivery::ports::{Account, Announce, Mailer, PortError, SuppressionReason};
use tidegate_fakes::sandbox::ses::{PeriodLimit, SesSandbox, SesSandboxConfig};
use tidegate_tests::contract::directory::directory_contract;
use tidegate_tests::contract::exclusions::exclusions_contract;
use tidegate_tests::contract::ledger::{LedgerRoom, ledger_contract};
use tidegate_tests::contract::mail::{
    Limits, MailRoom, MailSite, Taken, Trouble, account_contract, mailer_contract,
};
use tidegate_tests::contract::marks::marks_contract;
use tidegate_tests::contract::queues::queues_contract;
use tidegate_tests::contract::runs::runs_contract;
use tidegate_tests::contract::sqs::SqsRoom;
use tidegate_tests::contract::store::{StoreRoom, store_contract};
use tidegate_tests::contract::suppression::{SuppressionRoom, suppression_contract};
use tidegate_tests::contract::texts::text_contract;
use tidegate_tests::contract::topic::{TopicRoom, topic_contract};
use tidegate_tests::local::{Ministack, sdk_config};

#[tokio::test]
async fn queues_and_their_directory_on_sqs_keep_the_contract() {
    let local = Ministack::start().await.unwrap_or_else(|error| panic!("{error}"));
    let client = aws_sdk_sqs::Client::new(&local.sdk_config().await);
    let room = SqsRoom::new(client);
    queues_contract(&room).await;
    directory_contract(&room).await;
}

struct Ledgers {
    client: aws_sdk_dynamodb::Client,
    made: Cell<u32>,
}

impl LedgerRoom for Ledgers {
    type Ledger = DynamoLedger;

    async fn open(&self) -> DynamoLedger {
        let table = format!("contract-{}", self.made.replace(self.made.get() + 1));
        let key = KeySchemaElement::builder().attribute_name("pk").key_type(KeyType::Hash);
        let attribute = AttributeDefinition::builder().attribute_name("pk");
        let attribute = attribute.attribute_type(ScalarAttributeType::S);
        let call = self.client.create_table().table_name(&table);
        call.key_schema(key.build().unwrap())
            .attribute_definitions(attribute.build().unwrap())
            .billing_mode(BillingMode::PayPerRequest)
            .send()
            .await
            .unwrap();
        DynamoLedger::new(&self.client, table)
    }

    async fn sizes(&self) -> BTreeMap<String, usize> {
        let table = format!("contract-{}", self.made.get() - 1);
        let items = self.client.scan().table_name(table).into_paginator().items().send();
        let items: Vec<_> = items.collect::<Result<_, _>>().await.unwrap();
        let size = |(name, value): (&String, &AttributeValue)| {
            let value = match value {
                AttributeValue::S(text) => text.len(),
                AttributeValue::N(number) => number.len().div_ceil(2) + 1,
                other => unreachable!("{name} is {other:?}: the ledger holds texts and numbers"),
            };
            name.len() + value
        };
        let key = |item: &HashMap<String, AttributeValue>| item["pk"].as_s().unwrap().clone();
        items.iter().map(|item| (key(item), item.iter().map(size).sum())).collect()
    }
}

#[tokio::test]
async fn the_ledger_and_its_marks_on_dynamodb_keep_the_contract() {
    let local = Ministack::start().await.unwrap_or_else(|error| panic!("{error}"));
    let client = aws_sdk_dynamodb::Client::new(&local.sdk_config().await);
    let room = Ledgers { client, made: Cell::new(0) };
    ledger_contract(&room).await;
    marks_contract(&room).await;
    exclusions_contract(&room).await;
    runs_contract(&room).await;
}

struct Stores {
    client: aws_sdk_s3::Client,
    made: Cell<u32>,
}

impl Stores {
    fn bucket(&self) -> String {
        format!("contract-{}", self.made.get())
    }
}

impl StoreRoom for Stores {
    type Store = S3Store;

    async fn open(&self) -> S3Store {
        self.made.set(self.made.get() + 1);
        self.client.create_bucket().bucket(self.bucket()).send().await.unwrap();
        let location = Location::parse(&format!("s3://{}/store", self.bucket())).unwrap();
        S3Store::new(&self.client, location).with_pages_of(2)
    }
}

#[tokio::test]
async fn the_store_on_s3_keeps_the_contract() {
    let local = Ministack::start().await.unwrap_or_else(|error| panic!("{error}"));
    let config = aws_sdk_s3::config::Builder::from(&local.sdk_config().await);
    let client = aws_sdk_s3::Client::from_conf(config.force_path_style(true).build());
    store_contract(&Stores { client, made: Cell::new(0) }).await;
}

/// An account on the sandbox.
struct Site<M, A> {
    sandbox: SesSandbox,
    mailer: M,
    account: A,
    clock: SystemClock,
}

struct Sites;

fn limit(config: &mut SesSandboxConfig, limits: Limits) {
    config.quota = Rate::per_second(limits.rate).unwrap();
    config.daily_quota = PeriodLimit(limits.daily);
    config.spend_limit = PeriodLimit(limits.spend);
    config.paused = limits.paused;
}

impl MailRoom for Sites {
    type Site = Site<AwsMailer, SesAccount>;

    async fn open(&self, limits: Limits) -> Self::Site {
        let mut config = SesSandboxConfig::default();
        limit(&mut config, limits);
        let sandbox = SesSandbox::start(config, ([127, 0, 0, 1], 0).into()).await.unwrap();
        let client = aws_sdk_sesv2::Client::new(&sdk_config(sandbox.url()).await);
        let clock = SystemClock::new();
        let mailer = AwsMailer::email(&client, clock, Duration::from_secs(5));
        Site { sandbox, mailer, account: SesAccount::new(&client), clock }
    }
}

impl<M: Mailer, A: Account> MailSite for Site<M, A> {
    type Mailer = M;
    type Account = A;
    type Clock = SystemClock;

    fn mailer(&self) -> &M {
        &self.mailer
    }

    fn account(&self) -> &A {
        &self.account
    }

    fn clock(&self) -> &SystemClock {
        &self.clock
    }

    fn taken(&self) -> Vec<Taken> {
        let mails = self.sandbox.mails(0, 1_000);
        let tag = |mail: &tidegate_fakes::sandbox::ses::MailRecord, name| {
            mail.tag(name).unwrap_or_default().to_owned()
        };
        let raw = |seq| {
            let request = self.sandbox.request(seq)?;
            let request: serde_json::Value = serde_json::from_slice(&request).ok()?;
            STANDARD.decode(request["Content"]["Raw"]["Data"].as_str()?).ok()
        };
        mails
            .iter()
            .map(|mail| Taken {
                message_id: mail.message_id(),
                campaign: tag(mail, "tidegate_campaign"),
                id: tag(mail, "tidegate_id"),
                slots: mail.recipients(),
                tenant: mail.tenant().map(str::to_owned),
                raw: raw(mail.seq),
            })
            .collect()
    }

    fn limit(&self, limits: Limits) {
        self.sandbox.change(|config| limit(config, limits));
    }

    fn set_tenants(&self, tenants: &[&str]) {
        let tenants = tenants.iter().map(|tenant| tenant.parse().unwrap()).collect();
        self.sandbox.change(|config| config.tenants = tenants);
    }

    fn trouble(&self, _: &str, to: &str, trouble: Trouble) {
        let (kind, said) = match trouble {
            Trouble::Rejected if to.starts_with('+') => ("DESTINATION_PHONE_NUMBER_OPTED_OUT", ""),
            Trouble::Rejected => ("MessageRejected", ",message=It is on the suppression list."),
            Trouble::ServerError => ("InternalServiceErrorException,status=500", ""),
            Trouble::AnswerLost => ("lost-answer", ""),
        };
        let fault = format!("{kind},to={to}{said}").parse().unwrap();
        self.sandbox.change(|config| config.faults = vec![fault]);
    }
}

#[tokio::test]
async fn the_mailer_on_ses_keeps_the_contract() {
    mailer_contract(&Sites).await;
}

#[tokio::test]
async fn the_account_on_ses_keeps_the_contract() {
    account_contract(&Sites).await;
}

/// Accounts for text messages.
struct TextSites;

impl MailRoom for TextSites {
    type Site = Site<AwsMailer, SmsAccount>;

    async fn open(&self, limits: Limits) -> Self::Site {
        let mut config = SesSandboxConfig::default();
        limit(&mut config, limits);
        let sandbox = SesSandbox::start(config, ([127, 0, 0, 1], 0).into()).await.unwrap();
        let (config, clock) = (sdk_config(sandbox.url()).await, SystemClock::new());
        let mailer = AwsMailer::texts(&config, clock, Duration::from_secs(5));
        let account = SmsAccount::new(&config, None, Some("pool-sandbox"));
        Site { sandbox, mailer, account, clock }
    }
}

#[tokio::test]
async fn text_messages_on_end_user_messaging_keep_the_contract() {
    text_contract(&TextSites).await;
}

/// Suppression lists of sandboxes, which end with the room.
#[derive(Default)]
struct SuppressionLists(RefCell<Vec<SesSandbox>>);

impl SuppressionRoom for SuppressionLists {
    type List = SesSuppressionList;

    async fn open(&self, addresses: &[(&str, SuppressionReason)]) -> SesSuppressionList {
        let config = SesSandboxConfig::default();
        let sandbox = SesSandbox::start(config, ([127, 0, 0, 1], 0).into()).await.unwrap();
        let client = aws_sdk_sesv2::Client::new(&sdk_config(sandbox.url()).await);
        for (address, reason) in addresses {
            let reason = match reason {
                SuppressionReason::Bounce => SuppressionListReason::Bounce,
                SuppressionReason::Complaint => SuppressionListReason::Complaint,
            };
            let put = client.put_suppressed_destination().email_address(*address).reason(reason);
            put.send().await.unwrap();
        }
        self.0.borrow_mut().push(sandbox);
        SesSuppressionList::new(client).with_pages_of(3)
    }
}

#[tokio::test]
async fn the_suppression_list_on_ses_keeps_the_contract() {
    suppression_contract(&SuppressionLists::default()).await;
}

/// Topics of a local AWS, each with a queue that is subscribed to it.
struct Topics {
    config: aws_config::SdkConfig,
    made: RefCell<HashMap<String, String>>,
}

impl Topics {
    async fn create(&self) -> String {
        let name = format!("topic-{}", self.made.borrow().len());
        let (sns, sqs) =
            (aws_sdk_sns::Client::new(&self.config), aws_sdk_sqs::Client::new(&self.config));
        let topic = sns.create_topic().name(&name).send().await.unwrap();
        let arn = topic.topic_arn().unwrap().to_owned();
        let queue = sqs.create_queue().queue_name(&name).send().await.unwrap();
        let endpoint = format!("arn:aws:sqs:us-east-1:000000000000:{name}");
        let subscribe = sns.subscribe().topic_arn(&arn).protocol("sqs").endpoint(endpoint);
        subscribe.send().await.unwrap();
        self.made.borrow_mut().insert(arn.clone(), queue.queue_url().unwrap().to_owned());
        arn
    }
}

/// A topic, and its ARN, by which the room finds its queue.
struct TopicOnSns(SnsTopic, String);

impl Announce for TopicOnSns {
    async fn announce(&self, subject: &str, text: &str) -> Result<(), PortError> {
        self.0.announce(subject, text).await
    }
}

impl TopicRoom for Topics {
    type Topic = TopicOnSns;

    async fn open(&self) -> TopicOnSns {
        let arn = self.create().await;
        TopicOnSns(SnsTopic::new(&aws_sdk_sns::Client::new(&self.config), arn.as_str()), arn)
    }

    async fn missing(&self) -> TopicOnSns {
        let arn = "arn:aws:sns:us-east-1:000000000000:missing".to_owned();
        TopicOnSns(SnsTopic::new(&aws_sdk_sns::Client::new(&self.config), arn.as_str()), arn)
    }

    async fn told(&self, topic: &TopicOnSns, count: usize) -> Vec<String> {
        let url = self.made.borrow()[&topic.1].clone();
        let sqs = aws_sdk_sqs::Client::new(&self.config);
        let mut told = Vec::new();
        while told.len() < count {
            let receive = sqs.receive_message().queue_url(&url).wait_time_seconds(5);
            let answer = receive.max_number_of_messages(10).send().await.unwrap();
            assert!(!answer.messages().is_empty(), "{told:?} of {count} arrived");
            told.extend(answer.messages().iter().map(|message| {
                let body: serde_json::Value =
                    serde_json::from_str(message.body().unwrap()).unwrap();
                body["Subject"].as_str().unwrap().to_owned()
            }));
        }
        told
    }
}

#[tokio::test]
async fn a_topic_on_sns_keeps_the_contract() {
    let local = Ministack::start().await.unwrap_or_else(|error| panic!("{error}"));
    let config = local.sdk_config().await;
    topic_contract(&Topics { config, made: RefCell::default() }).await;
}
