use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidegate_core::Timestamp;
use tidegate_core::channel::MessageRules;
use tidegate_core::compression::decompress;
use tidegate_core::config::Campaign;
use tidegate_core::email::{AllowedSenders, Email};
use tidegate_delivery::ports::{FailureKind, Outgoing, QueueUrl, Store as _};
use tidegate_fakes::{
    Fault, FaultPlan, Latency, MemoryQueues, MemoryStore, Operation, QueueSettings, Rule, SimClock,
    Universe,
};
use tokio::sync::mpsc;
use tower::ServiceExt as _;

use super::*;
use axum::Extension;
use enqueue::PendingMail;
use refusal::Refusal;
use submission::{SmtpMail, Submit};

/// A relay before the queues of two campaigns and express mail.
struct World {
    queues: MemoryQueues,
    faults: FaultPlan,
    store: MemoryStore,
    relay: Arc<Relay<SimClock>>,
    memory: Arc<Semaphore>,
    others: Option<OtherCalls>,
    from: mpsc::Receiver<PendingMail>,
    clock: SimClock,
}

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const NAMES: [&str; 3] = ["news", "orders", "express"];

fn queue(name: &str) -> QueueUrl {
    QueueUrl::new(format!("https://sqs.example/1/{name}"))
}

impl World {
    fn new(keys: Option<&str>, messages: impl Into<MessageRules>) -> Self {
        let universe = Universe::starting_at(Timestamp::from_millis(1_795_207_000_300));
        let queues = MemoryQueues::new(universe, 7);
        let ms = Duration::from_millis;
        queues.set_latency(Latency::between(ms(5), ms(15)));
        for name in NAMES {
            queues.create(&queue(name), QueueSettings::default());
        }
        let faults = FaultPlan::new(universe, 8);
        let campaign = |name: &str| Campaign {
            name: name.to_owned(),
            queue_url: queue(name).to_string(),
            weight: 1,
            tenant: None,
            priority_queues: BTreeMap::new(),
        };
        let rules = SubmissionRules {
            campaigns: CampaignRules::default(),
            targets: Targets {
                campaigns: vec![campaign("news"), campaign("orders")],
                express: Some(queue("express")),
                default: Some("news".to_owned()),
            },
            messages: messages.into(),
            logins: keys.map(|keys| Arc::new(Logins::new(KeyPairs::read(keys).unwrap()))),
            takes_low: true,
        };
        let (enqueuer, from) = Enqueuer::new();
        let clock = universe.clock();
        let relay = Relay::new(watch::channel(Arc::new(rules)).1, enqueuer, clock.clone());
        let memory = Arc::new(Semaphore::new(MEMORY));
        let store = MemoryStore::default().with_faults(&faults);
        Self { queues, faults, store, relay: Arc::new(relay), memory, others: None, from, clock }
    }

    /// Runs `client` beside the relay, whose last mails are sent when it is done. Returns what the client returns, and
    /// the messages of each queue.
    async fn serve<R>(
        self,
        client: impl AsyncFnOnce(Router) -> R,
    ) -> (R, BTreeMap<&'static str, Vec<Value>>) {
        let (_, account) = watch::channel(Some(SesAccount {
            max_24_hour_send: 50_000.0,
            max_send_rate: 14.0,
            sent_last_24_hours: 7.0,
            sending_enabled: true,
        }));
        let logins = self.relay.rules.borrow().logins.clone();
        let Self { relay, memory, others, .. } = self;
        let health = Health { stack: "mail".to_owned() };
        let server = HttpServer { health, relay, logins, others, account, memory };
        let router = http::router(Arc::new(server)).layer(Extension(PEER));
        let queues = self.queues.clone().with_faults(&self.faults);
        let told = async { client(router).await };
        let (told, ()) = tokio::join!(
            told,
            enqueue::run(self.from, &queues, Some(&self.store), &self.clock, || {})
        );
        let messages = |name: &'static str| {
            let all = self.queues.contents(&queue(name)).into_iter();
            let read = |body: String| match decompress(&body) {
                Some(text) => serde_json::from_str(&text.unwrap()).unwrap(),
                None => serde_json::from_str(&body).unwrap(),
            };
            (name, all.map(|message| read(message.body.clone())).collect())
        };
        (told, NAMES.map(messages).into())
    }
}

async fn call(router: &Router, request: Request<Body>) -> (StatusCode, String) {
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let body = to_bytes(answer.into_body(), 1_000_000).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn mail(text: &str) -> Value {
    json!({
        "FromEmailAddress": "news@example.org",
        "Destination": {"ToAddresses": ["Ada <ada@example.com>"]},
        "Content": {"Simple": {"Subject": {"Data": "Hello"}, "Body": {"Text": {"Data": text}}}},
    })
}

async fn send(router: &Router, id: &str, mail: &Value) -> (StatusCode, Value) {
    let request = Request::post("/v2/email/outbound-emails").header("amz-sdk-invocation-id", id);
    let (status, body) = call(router, request.body(mail.to_string().into()).unwrap()).await;
    (status, serde_json::from_str(&body).unwrap())
}

fn open() -> World {
    World::new(None, AllowedSenders::everyone())
}

#[tokio::test(start_paused = true)]
async fn under_back_pressure_mail_of_low_priority_is_to_come_again_and_all_other_is_taken() {
    let mut world = open();
    let mut rules = SubmissionRules::clone(&world.relay.rules.borrow());
    rules.takes_low = false;
    let relay = Arc::get_mut(&mut world.relay).unwrap();
    relay.rules = watch::channel(Arc::new(rules)).1;
    let (answers, messages) = world
        .serve(async |router: Router| {
            let mut answers = Vec::new();
            for priority in ["low", "normal", "high"] {
                let mut mail = mail("Text.");
                mail["Content"]["Simple"]["Headers"] =
                    json!([{"Name": "X-Tidegate-Priority", "Value": priority}]);
                let call = Request::post("/v2/email/outbound-emails");
                let call = call.body(Body::from(mail.to_string())).unwrap();
                let answer = router.clone().oneshot(call).await.unwrap();
                answers.push((answer.status(), answer.headers().get("retry-after").cloned()));
            }
            answers
        })
        .await;
    let later = Some(HeaderValue::from_static("60"));
    let refused = (StatusCode::SERVICE_UNAVAILABLE, later);
    assert_eq!(answers, [refused, (StatusCode::OK, None), (StatusCode::OK, None)]);
    assert_eq!(messages["news"].len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_mail_by_ses_s_api_is_a_message_whose_id_is_answered() {
    let ((status, answer), messages) = open()
        .serve(async |router: Router| {
            let mut mail = mail("Text.");
            mail["ReplyToAddresses"] = json!(["answers@example.org"]);
            mail["EmailTags"] = json!([{"Name": "edition", "Value": "7"}]);
            mail["ConfigurationSetName"] = json!("set");
            mail["Content"]["Simple"]["Headers"] = json!([{"Name": "X-One", "Value": "1"}]);
            mail["Content"]["Simple"]["Attachments"] =
                json!([{"FileName": "a.pdf", "RawContent": "QUJD", "ContentDisposition": "ATTACHMENT"}]);
            send(&router, "call-1", &mail).await
        })
        .await;
    assert_eq!(status, StatusCode::OK);
    let id = answer["MessageId"].as_str().unwrap();
    let expected = json!({
        "id": id, "priority": "normal", "from": "news@example.org", "to": ["Ada <ada@example.com>"],
        "reply_to": ["answers@example.org"], "subject": "Hello", "text": "Text.", "tags": {"edition": "7"},
        "configuration_set": "set", "headers": {"X-One": "1"},
        "attachments": [{"name": "a.pdf", "content": "QUJD", "content_type": null, "content_id": null,
            "disposition": "attachment"}],
    });
    assert_eq!(messages["news"], [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_has_the_same_id_and_another_mail_with_it_is_refused() {
    let ((first, again, other), messages) = open()
        .serve(async |router: Router| {
            let first = send(&router, "call-1", &mail("Text.")).await;
            let again = send(&router, "call-1", &mail("Text.")).await;
            (first, again, send(&router, "call-1", &mail("Other.")).await)
        })
        .await;
    assert_eq!(first, again);
    assert_eq!(other.0, StatusCode::BAD_REQUEST);
    assert!(other.1["message"].as_str().unwrap().contains("came before with another mail"));
    // The poller and the merge queue recognise the second one by its id.
    assert_eq!(messages["news"].len(), 2);
    assert_eq!(messages["news"][0]["id"], messages["news"][1]["id"]);
}

#[tokio::test(start_paused = true)]
async fn mails_of_many_clients_share_batches_and_a_mail_alone_waits_five_milliseconds() {
    let world = open();
    let queues = world.queues.clone();
    let ((), messages) = world
        .serve(async |router: Router| {
            let calls: Vec<_> = (0..100).map(|n| format!("call-{n}")).collect();
            let mail = mail("Text.");
            let sent = join_all(calls.iter().map(|id| send(&router, id, &mail))).await;
            assert!(sent.iter().all(|(status, _)| *status == StatusCode::OK));
            let began = tokio::time::Instant::now();
            send(&router, "alone", &mail).await;
            let took = began.elapsed();
            assert!(took < Duration::from_millis(5 + 15 + 2), "{took:?}");
        })
        .await;
    assert_eq!(messages["news"].len(), 101);
    assert_eq!(queues.calls_of(&queue("news"), Operation::Send), 11);
}

#[tokio::test(start_paused = true)]
async fn a_mail_is_accepted_only_if_sqs_took_it() {
    let world = open();
    world
        .faults
        .add(Rule::new(Fault::Before(FailureKind::Unreachable)).on(Operation::Send).at("news"));
    let ((refused, other), messages) = world
        .serve(async |router: Router| {
            let refused = send(&router, "call-1", &mail("Text.")).await;
            let mut express = mail("Text.");
            express["EmailTags"] = json!([{"Name": "campaign", "Value": "express"}]);
            (refused, send(&router, "call-2", &express).await)
        })
        .await;
    assert_eq!(refused.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((other.0, messages["express"].len()), (StatusCode::OK, 1));
}

#[tokio::test(start_paused = true)]
async fn members_that_are_not_carried_and_campaigns_that_are_not_there_are_refused_by_name() {
    let ((others, campaign, arn), messages) = open()
        .serve(async |router: Router| {
            let mut others = mail("Text.");
            others["ListManagementOptions"] = json!({"ContactListName": "l"});
            others["TenantName"] = json!("a");
            let mut campaign = mail("Text.");
            campaign["EmailTags"] = json!([{"Name": "campaign", "Value": "nwes"}]);
            let mut arn = mail("Text.");
            arn["Content"] = json!({"Template": {"TemplateArn": "arn:aws:ses:x:1:template/t"}});
            (
                send(&router, "1", &others).await,
                send(&router, "2", &campaign).await,
                send(&router, "3", &arn).await,
            )
        })
        .await;
    for ((status, answer), named) in [
        (others, "ListManagementOptions"),
        (campaign, "news, orders, express"),
        (arn, "TemplateArn"),
    ] {
        let message = answer["message"].as_str().unwrap();
        assert!(status == StatusCode::BAD_REQUEST && message.contains(named), "{message}");
    }
    assert!(messages.values().all(Vec::is_empty));
}

#[tokio::test(start_paused = true)]
async fn a_template_s_numbers_and_each_mail_of_a_bulk_go_as_they_were_given() {
    let ((status, answer), messages) = open()
        .serve(async |router: Router| {
            let bulk = json!({
                "FromEmailAddress": "news@example.org",
                "DefaultContent": {"Template": {"TemplateName": "t", "TemplateData": "{\"price\": 19.90}"}},
                "BulkEmailEntries": [
                    {"Destination": {"ToAddresses": ["a@example.com"]}},
                    {"Destination": {"ToAddresses": ["nobody"]}},
                    {"Destination": {"ToAddresses": ["b@example.com"]}},
                ],
            });
            let request = Request::post("/v2/email/outbound-bulk-emails");
            call(&router, request.body(bulk.to_string().into()).unwrap()).await
        })
        .await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let results = answer["BulkEmailEntryResults"].as_array().unwrap();
    let told: Vec<&str> = results.iter().map(|result| result["Status"].as_str().unwrap()).collect();
    assert_eq!(
        (status, &told[..]),
        (StatusCode::OK, &["SUCCESS", "INVALID_PARAMETER", "SUCCESS"][..])
    );
    assert_eq!(messages["news"].len(), 2);
}

#[tokio::test(start_paused = true)]
async fn each_mail_of_a_bulk_has_an_id_of_its_own_which_a_retry_has_again() {
    let ((), messages) = open()
        .serve(async |router: Router| {
            let to = |to: &str| json!({"Destination": {"ToAddresses": [to]}});
            let bulk = json!({
                "FromEmailAddress": "news@example.org",
                "DefaultContent": {"Template": {"TemplateName": "t", "TemplateData": "{}"}},
                "BulkEmailEntries": [to("a@example.com"), to("b@example.com"), to("a@example.com")],
            });
            for _ in 0..2 {
                let request = Request::post("/v2/email/outbound-bulk-emails");
                let request = request.header("amz-sdk-invocation-id", "call-1");
                let (status, answer) =
                    call(&router, request.body(bulk.to_string().into()).unwrap()).await;
                assert_eq!((status, answer.matches("SUCCESS").count()), (StatusCode::OK, 3));
            }
        })
        .await;
    let ids = messages["news"].iter().map(|message| message["id"].as_str().unwrap());
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    ids.for_each(|id| *times.entry(id).or_default() += 1);
    assert_eq!(times.into_values().collect::<Vec<_>>(), [2, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn version_one_and_its_quota_are_answered_in_xml() {
    let ((sent, quota, unknown), messages) = open()
        .serve(async |router: Router| {
            let form = |form: &str| Request::post("/").body(Body::from(form.to_owned())).unwrap();
            let raw =
                "From: news@example.org\r\nTo: a@example.com\r\nSubject: Hello\r\n\r\nText.\r\n";
            let raw = STANDARD.encode(raw).replace('+', "%2B").replace('=', "%3D");
            let send = format!("Action=SendRawEmail&Version=2010-12-01&RawMessage.Data={raw}");
            (
                call(&router, form(&send)).await,
                call(&router, form("Action=GetSendQuota&Version=2010-12-01")).await,
                call(&router, form("Action=ListIdentities&Version=2010-12-01")).await,
            )
        })
        .await;
    assert!(
        sent.0 == StatusCode::OK && sent.1.contains("<SendRawEmailResult><MessageId>"),
        "{sent:?}"
    );
    assert!(quota.1.contains("<MaxSendRate>14.0</MaxSendRate>"), "{quota:?}");
    assert!(
        unknown.0 == StatusCode::NOT_FOUND && unknown.1.contains("ListIdentities"),
        "{unknown:?}"
    );
    let sent = &messages["news"][0];
    assert_eq!(sent["to"], json!(["a@example.com"]));
    assert!(
        STANDARD.decode(sent["raw"].as_str().unwrap()).unwrap().ends_with(b"\r\n\r\nText.\r\n")
    );
}

#[tokio::test(start_paused = true)]
async fn a_mail_to_many_by_smtp_is_a_message_for_each_fifty_with_the_settings_of_its_header() {
    let world = open();
    let relay = Arc::clone(&world.relay);
    let (id, messages) = world
        .serve(async |_: Router| {
            let data = "From: news@example.org\r\nTo: list@example.com\r\nMessage-ID: <1@example.org>\r\n\
                X-Tidegate-Campaign: orders\r\nX-Tidegate-Priority: high\r\nX-SES-CONFIGURATION-SET: set\r\n\
                X-Tidegate-Not-Before: 2026-12-24T09:00:00+01:00\r\n\
                X-SES-MESSAGE-TAGS: a=b, c=d\r\n\r\nText.\r\n";
            let mail = SmtpMail {
                user: None,
                from: "news@example.org".to_owned(),
                to: (0..120).map(|n| format!("{n}@example.com")).collect(),
                data: data.into(),
            };
            let relay = relay;
            Submit::submit(&*relay, mail).await.unwrap()
        })
        .await;
    let orders = &messages["orders"];
    let numbers: Vec<usize> =
        orders.iter().map(|mail| mail["to"].as_array().unwrap().len()).collect();
    assert_eq!((numbers.iter().sum::<usize>(), numbers.len()), (120, 3));
    for mail in orders {
        assert!(id.contains(mail["id"].as_str().unwrap()));
        assert_eq!(
            (&mail["priority"], &mail["configuration_set"]),
            (&json!("high"), &json!("set"))
        );
        assert_eq!(mail["tags"], json!({"a": "b", "c": "d"}));
        assert_eq!(mail["not_before"], "2026-12-24T08:00:00.000Z");
    }
}

#[tokio::test(start_paused = true)]
async fn one_message_id_to_two_recipients_is_two_mails_and_a_hop_s_header_makes_no_third() {
    let world = open();
    let relay = Arc::clone(&world.relay);
    let (ids, _) = world
        .serve(async |_: Router| {
            let relay = relay;
            let mail = |to: &str, trace: &str| SmtpMail {
                user: None,
                from: "news@example.org".to_owned(),
                to: vec![to.to_owned()],
                data: format!(
                    "{trace}From: news@example.org\r\nMessage-ID: <1@example.org>\r\n\r\nText.\r\n"
                )
                .into(),
            };
            let mut ids = Vec::new();
            for (to, trace) in [
                ("a@example.com", ""),
                ("b@example.com", ""),
                ("a@example.com", "Received: by hop; Fri, 27 Nov 2026 00:00:00 +0000\r\n"),
            ] {
                ids.push(Submit::submit(&*relay, mail(to, trace)).await.unwrap());
            }
            ids
        })
        .await;
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[0], ids[2]);
}

#[tokio::test(start_paused = true)]
async fn listmonk_s_mail_is_taken_from_who_may_send() {
    let keys = r#"{"LISTMONK": {"secret": "0123456789abcdef", "campaigns": ["news"]}}"#;
    let mail = json!({
        "subject": "Hello", "from_email": "news@example.org", "content_type": "html", "body": "<p>Text.</p>",
        "recipients": [{"uuid": "r-1", "email": "ada@example.com", "name": "Ada", "attribs": {}, "status": "enabled"}],
        "campaign": {"uuid": "c-1", "name": "Monday", "tags": []}, "attachments": [{"name": "a.png", "content": "QUJD",
            "header": {"Content-Type": ["image/png; name=\"a.png\""], "Content-ID": ["<a>"], "Content-Disposition": ["inline"]}}],
    });
    let world = World::new(Some(keys), AllowedSenders::everyone());
    let ((nobody, wrong, right), messages) = world
        .serve(async |router: Router| {
            let request = |password: Option<&str>| {
                let basic =
                    |password| format!("Basic {}", STANDARD.encode(format!("LISTMONK:{password}")));
                let request = Request::post("/listmonk");
                let request = password
                    .map(basic)
                    .into_iter()
                    .fold(request, |request, basic| request.header("authorization", basic));
                request.body(Body::from(mail.to_string())).unwrap()
            };
            (
                call(&router, request(None)).await.0,
                call(&router, request(Some("0123456789abcdeg"))).await.0,
                call(&router, request(Some("0123456789abcdef"))).await.0,
            )
        })
        .await;
    let statuses = (nobody, wrong, right);
    assert_eq!(statuses, (StatusCode::UNAUTHORIZED, StatusCode::UNAUTHORIZED, StatusCode::OK));
    let sent = &messages["news"][0];
    assert_eq!((&sent["html"], &sent["to"]), (&json!("<p>Text.</p>"), &json!(["ada@example.com"])));
    let file = json!({"name": "a.png", "content": "QUJD", "content_type": "image/png", "content_id": "a", "disposition": "inline"});
    assert_eq!(sent["attachments"], json!([file]));
}

#[tokio::test(start_paused = true)]
async fn wrong_passwords_by_http_slow_the_next_login_of_their_address() {
    let keys = r#"{"LISTMONK": {"secret": "0123456789abcdef"}}"#;
    let world = World::new(Some(keys), AllowedSenders::everyone());
    let (waits, _) = world
        .serve(async |router: Router| {
            let mut waits = Vec::new();
            for password in ["a", "b", "c", "0123456789abcdef", "0123456789abcdef"] {
                let began = tokio::time::Instant::now();
                let basic = format!("Basic {}", STANDARD.encode(format!("LISTMONK:{password}")));
                let request = Request::post("/listmonk").header("authorization", basic);
                let (status, _) = call(&router, request.body(Body::from("{}")).unwrap()).await;
                waits.push((status.as_u16(), began.elapsed().as_secs()));
            }
            waits
        })
        .await;
    // The body of those that are let in is no mail.
    assert_eq!(waits, [(401, 0), (401, 1), (401, 2), (400, 4), (400, 0)]);
}

/// Answers with what it was asked, in a form that is none of SES's.
#[derive(Debug)]
struct Echo;

impl HttpConnector for Echo {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let signature = request.headers().get("authorization").unwrap_or_default();
        let is_signed = signature.contains("Credential=AKIDRELAY/");
        let content_type = request.headers().get("content-type").unwrap_or_default();
        let body = String::from_utf8_lossy(request.body().bytes().unwrap_or_default());
        let told = format!(
            "{} {} {content_type} {body} signed: {is_signed}",
            request.method(),
            request.uri()
        );
        let mut response = HttpResponse::new(409.try_into().unwrap(), SdkBody::from(told));
        response.headers_mut().insert("x-amzn-errortype", "ConflictException");
        HttpConnectorFuture::ready(Ok(response))
    }
}

#[tokio::test(start_paused = true)]
async fn other_calls_are_made_to_ses_itself_with_the_relay_s_credentials() {
    let config = aws_sdk_sesv2::Config::builder()
        .behavior_version_latest()
        .region(aws_sdk_sesv2::config::Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("AKIDRELAY", "secret", None, None, "a test"))
        .http_client(http_client_fn(|_, _| SharedHttpConnector::new(Echo)))
        .endpoint_url("http://ses.test");
    let client = aws_sdk_sesv2::Client::from_conf(config.build());
    let world = World { others: Some(OtherCalls::new(client)), ..open() };
    let ((put, form, own), messages) = world
        .serve(async |router: Router| {
            let put = Request::put("/v2/email/templates/t%20a?x=1")
                .header("content-type", "application/json")
                .body(Body::from("{}"));
            let form = Request::post("/").body(Body::from("Action=ListIdentities"));
            let own = Request::get("/v2/email/account").body(Body::empty());
            (
                router.clone().oneshot(put.unwrap()).await.unwrap(),
                call(&router, form.unwrap()).await,
                call(&router, own.unwrap()).await,
            )
        })
        .await;
    assert_eq!(put.status(), StatusCode::CONFLICT);
    assert_eq!(put.headers()["x-amzn-errortype"], "ConflictException");
    let put = to_bytes(put.into_body(), 1_000).await.unwrap();
    let expected =
        "PUT http://ses.test/v2/email/templates/t%20a?x=1 application/json {} signed: true";
    assert_eq!(put, expected);
    assert_eq!(form.1, "POST http://ses.test/  Action=ListIdentities signed: true");
    assert!(own.0 == StatusCode::OK && own.1.contains("14.0"), "{own:?}");
    assert!(messages.values().all(Vec::is_empty));
}

#[tokio::test(start_paused = true)]
async fn a_key_pair_sends_only_to_its_campaigns_from_its_senders_and_nobody_sends_unsigned() {
    let keys = r#"{"SHOP": {"secret": "0123456789abcdef", "campaigns": ["orders"], "senders": ["shop@example.org"]}}"#;
    let world = World::new(Some(keys), AllowedSenders::everyone());
    let relay = Arc::clone(&world.relay);
    let ((unsigned, told), messages) = world
        .serve(async |router: Router| {
            let relay = relay;
            let unsigned = send(&router, "1", &mail("Text.")).await.0;
            let mail = |campaign: &str, from: &str| SmtpMail {
                user: Some("SHOP".to_owned()),
                from: "shop@example.org".to_owned(),
                to: vec!["a@example.com".to_owned()],
                data: format!("From: {from}\r\nX-Tidegate-Campaign: {campaign}\r\n\r\nText.\r\n")
                    .into(),
            };
            let mut told = Vec::new();
            for (campaign, from) in [
                ("orders", "shop@example.org"),
                ("news", "shop@example.org"),
                ("orders", "ceo@example.org"),
            ] {
                told.push(Submit::submit(&*relay, mail(campaign, from)).await.is_ok());
            }
            (unsigned, told)
        })
        .await;
    assert!(unsigned.is_client_error());
    assert_eq!(told, [true, false, false]);
    assert_eq!(messages["orders"].len(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_users_with_one_message_id_send_two_mails() {
    let keys =
        r#"{"SHOP": {"secret": "0123456789abcdef"}, "CLUB": {"secret": "fedcba9876543210"}}"#;
    let world = World::new(Some(keys), AllowedSenders::everyone());
    let relay = Arc::clone(&world.relay);
    let ((), messages) = world
        .serve(async |_: Router| {
            let relay = relay;
            for user in ["SHOP", "CLUB"] {
                let mail = SmtpMail {
                    user: Some(user.to_owned()),
                    from: "news@example.org".to_owned(),
                    to: vec!["a@example.com".to_owned()],
                    data: "From: news@example.org\r\nMessage-ID: <1@example.org>\r\n\r\nText.\r\n"
                        .into(),
                };
                assert!(Submit::submit(&*relay, mail).await.is_ok(), "{user}");
            }
        })
        .await;
    assert_eq!(messages["news"].len(), 2);
    assert_ne!(messages["news"][0]["id"], messages["news"][1]["id"]);
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_does_not_fit_into_sqs_is_refused_with_its_size_and_the_limit() {
    let ((status, answer), _) = open()
        .serve(async |router: Router| send(&router, "1", &mail(&"x".repeat(1_048_576))).await)
        .await;
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("allowed are 1031"), "{message}");
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

/// A relay of a stack with a store.
fn with_store() -> World {
    World::new(None, MessageRules { has_store: true, ..AllowedSenders::everyone().into() })
}

/// The mail that a message and its object in the store make.
async fn whole(store: &MemoryStore, message: &Value) -> Email {
    let pointer = message.to_string();
    assert!(pointer.len() < 1_000, "{pointer}");
    let stored = Email::parse(&pointer).unwrap().stored().cloned().unwrap();
    let (object, _) = store.get(&stored.key()).await.unwrap().unwrap();
    assert_eq!(object.len() as u64, stored.bytes);
    Email::with_object(&pointer, &object).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_large_mail_by_ses_s_api_has_its_content_in_the_store() {
    let world = with_store();
    let store = world.store.clone();
    let file = vec![7; 12_000_000];
    let mut large = mail("Text.");
    large["Content"]["Simple"]["Attachments"] =
        json!([{ "FileName": "a.pdf", "RawContent": STANDARD.encode(&file) }]);
    let ((status, answer), messages) =
        world.serve(async |router: Router| send(&router, "1", &large).await).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let [message] = messages["news"].as_slice() else { panic!("{messages:?}") };
    assert_eq!(message["id"], answer["MessageId"]);
    let email = whole(&store, message).await;
    assert!(email.attachments[0].content == file);
}

#[tokio::test(start_paused = true)]
async fn a_large_mail_by_smtp_has_its_content_in_the_store() {
    let world = with_store();
    let (store, relay) = (world.store.clone(), Arc::clone(&world.relay));
    let line = format!("{}\r\n", "x".repeat(898));
    let mime = format!("From: news@example.org\r\n\r\n{}", line.repeat(12_000_000 / 900));
    let mail = |recipients: usize| SmtpMail {
        user: None,
        from: "news@example.org".to_owned(),
        to: (0..recipients).map(|n| format!("ada{n}@example.com")).collect(),
        data: mime.clone().into(),
    };
    let (few, many) = (mail(2), mail(51));
    let (told, messages) = world
        .serve(async move |_| {
            [Submit::submit(&*relay, few).await, Submit::submit(&*relay, many).await]
        })
        .await;
    let [Ok(id), Err(refused)] = told else { panic!("{told:?}") };
    assert_eq!(refused.to_string(), "a mail of this size has at most 50 recipients");
    let [message] = messages["news"].as_slice() else { panic!("{messages:?}") };
    assert_eq!(message["id"], id);
    let email = whole(&store, message).await;
    assert_eq!(email.recipients(), 2);
    let sent = STANDARD.decode(email.raw().unwrap().base64()).unwrap();
    assert!(sent == mime.as_bytes(), "byte for byte");
}

#[tokio::test(start_paused = true)]
async fn a_large_mail_is_not_accepted_while_the_store_takes_none_and_others_are() {
    let world = with_store();
    world.faults.add(Rule::new(Fault::Before(FailureKind::TimedOut)).on(Operation::PutObject));
    let large = mail(&"x".repeat(2_000_000));
    let (statuses, messages) = world
        .serve(async |router: Router| {
            let small = mail("Text.");
            let (large, small) =
                tokio::join!(send(&router, "1", &large), send(&router, "2", &small));
            [large.0, small.0]
        })
        .await;
    assert_eq!(statuses, [StatusCode::SERVICE_UNAVAILABLE, StatusCode::OK]);
    assert_eq!(messages["news"].len(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_request_is_larger_than_ses_takes() {
    for (world, most) in [(open(), 10_485_760), (with_store(), 56_623_104)] {
        let (answer, _) = world
            .serve(async |router: Router| send(&router, "1", &mail(&"x".repeat(most))).await)
            .await;
        assert_eq!(answer.0, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(answer.1["message"].as_str().unwrap().contains(&most.to_string()));
    }
}

#[tokio::test(start_paused = true)]
async fn wherever_the_relay_is_killed_a_mail_that_was_answered_is_on_its_queue() {
    let mut last_poll = 0;
    loop {
        let (world, answered) = (open(), Cell::new(false));
        let queues = world.queues.clone();
        let ended = {
            let client = async |router: Router| {
                let (status, _) = send(&router, "call-1", &mail("Text.")).await;
                answered.set(status == StatusCode::OK);
            };
            let (mut serving, mut polls) = (pin!(world.serve(client)), 0);
            poll_fn(|context| {
                polls += 1;
                if polls > last_poll {
                    return Poll::Ready(false);
                }
                serving.as_mut().poll(context).map(|_| true)
            })
            .await
        };
        let on_queue = queues.contents(&queue("news")).len();
        assert!(!answered.get() || on_queue == 1, "killed at poll {last_poll}");
        if ended {
            break;
        }
        last_poll += 1;
    }
    assert!(last_poll > 4, "it was killed at {last_poll} polls alone");
}

#[tokio::test(start_paused = true)]
async fn headers_of_ours_name_the_campaign_of_any_mail_and_do_not_leave() {
    let ((status, twice), messages) = open()
        .serve(async |router: Router| {
            let mut own = mail("Text.");
            own["Content"]["Simple"]["Headers"] = json!([
                {"Name": "X-Tidegate-Campaign", "Value": "orders"}, {"Name": "X-One", "Value": "1"},
                {"Name": "x-tidegate-priority", "Value": "low"},
            ]);
            let mut twice = mail("Text.");
            twice["Content"]["Simple"]["Headers"] = json!([
                {"Name": "X-Tidegate-Campaign", "Value": "orders"}, {"Name": "X-Tidegate-Campaign", "Value": "news"},
            ]);
            (send(&router, "1", &own).await.0, send(&router, "2", &twice).await.1)
        })
        .await;
    assert_eq!((status, messages["orders"].len()), (StatusCode::OK, 1));
    let sent = &messages["orders"][0];
    assert_eq!((&sent["headers"], &sent["priority"]), (&json!({"X-One": "1"}), &json!("low")));
    assert!(twice["message"].as_str().unwrap().contains("stands twice"));
}

#[tokio::test(start_paused = true)]
async fn a_web_page_sends_no_mail_and_a_file_s_id_does_not_make_it_inline() {
    let (page, messages) = open()
        .serve(async |router: Router| {
            let body = || Body::from(mail("Text.").to_string());
            let page =
                Request::post("/v2/email/outbound-emails").header("origin", "https://evil.example");
            let page = call(&router, page.body(body()).unwrap()).await.0;
            let mut file = mail("Text \u{fffe}.");
            file["Content"]["Simple"]["Attachments"] =
                json!([{"FileName": "a.pdf", "RawContent": "QUJD", "ContentId": "a"}]);
            send(&router, "1", &file).await;
            page
        })
        .await;
    assert_eq!((page, messages["news"].len()), (StatusCode::FORBIDDEN, 1));
    assert_eq!(messages["news"][0]["attachments"][0]["disposition"], "attachment");
    assert_eq!(messages["news"][0]["text"], "Text \u{fffe}.");
}

#[tokio::test(start_paused = true)]
async fn a_test_of_a_listmonk_campaign_is_not_the_campaign_s_mail() {
    let mail = |body: &str| {
        json!({
            "subject": "Hello", "from_email": "news@example.org", "content_type": "html", "body": body,
            "recipients": [{"email": "ada@example.com"}], "campaign": {"uuid": "c-1"},
        })
    };
    let (told, messages) = open()
        .serve(async |router: Router| {
            let mut told = Vec::new();
            for body in ["<p>Draft.</p>", "<p>Text.</p>", "<p>Text.</p>"] {
                let request =
                    Request::post("/listmonk").body(mail(body).to_string().into()).unwrap();
                told.push(call(&router, request).await.0);
            }
            told
        })
        .await;
    assert_eq!(told, [StatusCode::OK; 3]);
    let ids: Vec<&Value> = messages["news"].iter().map(|mail| &mail["id"]).collect();
    assert!(ids[0] != ids[1] && ids[1] == ids[2]);
}

#[tokio::test(start_paused = true)]
async fn a_request_holds_its_room_until_it_is_answered_and_one_without_a_body_holds_none() {
    let world = open();
    let memory = Arc::clone(&world.memory);
    world
        .serve(async |router: Router| {
            let free = memory.available_permits();
            let mail = mail("Text.");
            let sending = send(&router, "1", &mail);
            let looking = async {
                tokio::time::sleep(Duration::from_millis(2)).await;
                assert_eq!(free - memory.available_permits(), mail.to_string().len());
                let request = Request::get("/v2/email/account").body(Body::empty()).unwrap();
                assert_eq!(call(&router, request).await.0, StatusCode::OK);
            };
            tokio::join!(sending, looking);
            assert_eq!(memory.available_permits(), free);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_mail_whose_client_has_gone_before_its_turn_is_not_sent() {
    let ((), messages) = open()
        .serve(async |router: Router| {
            let mail = mail("Text.");
            let _ = futures_util::FutureExt::now_or_never(send(&router, "1", &mail));
            send(&router, "2", &mail).await;
        })
        .await;
    assert_eq!(messages["news"].len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_sqs_refuses_for_its_text_is_not_to_be_tried_again_and_the_one_beside_it_goes()
{
    let World { queues, clock, .. } = open();
    let (enqueuer, from) = Enqueuer::new();
    let told = async move {
        let put = |text: &str| enqueuer.put(queue("news"), Outgoing::new(text), None);
        tokio::join!(put("\u{ffff}"), put("Text."))
    };
    let ((refused, taken), ()) =
        tokio::join!(told, enqueue::run(from, &queues, None::<&MemoryStore>, &clock, || {}));
    let refused = refused.unwrap_err();
    assert!(
        matches!(&refused, Refusal::Invalid(why) if why.contains("InvalidMessageContents")),
        "{refused}"
    );
    assert_eq!(taken, Ok(()));
}
