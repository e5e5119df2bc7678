use std::time::Duration;

use aws_config::Region;
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tidegate_core::bucket::Pace;
use tidegate_core::channel::Content;
use tidegate_core::email::ses_tag_value;
use tidegate_core::outcome::{Failure, Outcome, Stage, classify};
use tidegate_core::rate::RateMargin;
use tidegate_core::text_message::{TextMessage, classify_text};
use tidegate_delivery::ports::{Clock as _, FailureKind, Mail, Mailer as _, Monotonic};

use super::*;
use crate::aws::tests::fake::{Fake, FakeAnswer, config};
use crate::aws::tests::loopback::{EndpointBehaviour, Loopback};
use crate::aws::{AwsMailer, SystemClock, Wire};

const SENT: &str = r#"{"MessageId":"862a8790-60c0"}"#;
const TIMEOUT: Duration = Duration::from_secs(5);

fn text(members: &str) -> Content {
    let body = format!(r#"{{"to_phone": "+12065550100", "text": "Grüße"{members}}}"#);
    Content::Text(TextMessage::parse(&body).unwrap())
}

fn mailer(config: &SdkConfig) -> AwsMailer {
    AwsMailer::texts(config, SystemClock::new(), TIMEOUT)
}

fn on_wire(service: &Loopback) -> AwsMailer {
    let config = config(Wire::new()).into_builder().endpoint_url(service.url()).build();
    mailer(&config)
}

fn mail(content: &Content) -> Mail<'_> {
    let pace = Pace { rate: Rate::MIN, rate_margin: RateMargin::default() };
    Mail { limits: Some("campaign:spring"), ..Mail::new(content, "spring", "order 7", pace) }
}

/// Sends with a minute to spare, so that the request is not late.
async fn send(mailer: &AwsMailer, content: &Content) -> Result<String, Failure> {
    let latest = mailer.clock.monotonic() + Duration::from_mins(1);
    mailer.send(mail(content), latest).await.result
}

async fn refusal(answer: FakeAnswer) -> Failure {
    send(&mailer(&Fake::new([answer]).config()), &text("")).await.unwrap_err()
}

#[tokio::test]
async fn a_text_goes_out_with_all_its_members_and_tags() {
    let service = Fake::once(200, SENT);
    let long = r#", "origination": "pool-1", "type": "promotional", "configuration_set": "texts", "tags": {"list": "a"}"#;
    let id = send(&mailer(&service.config()), &text(long)).await;
    assert_eq!(id.as_deref(), Ok("862a8790-60c0"));
    let seen = service.seen();
    let expected = json!({
        "DestinationPhoneNumber": "+12065550100",
        "MessageBody": "Grüße",
        "OriginationIdentity": "pool-1",
        "MessageType": "PROMOTIONAL",
        "ConfigurationSetName": "texts",
        "Context": {
            "list": "a",
            "tidegate_campaign": "spring",
            "tidegate_id": ses_tag_value("order 7"),
            "tidegate_limit": ses_tag_value("campaign:spring"),
        },
    });
    assert_eq!(seen[0].body, expected);
    assert_eq!(seen[0].target.as_deref(), Some("PinpointSMSVoiceV2.SendTextMessage"));
    assert_eq!(seen[0].path, "https://sms-voice.eu-west-1.amazonaws.com/");
    assert_eq!(seen[0].header("content-type"), Some("application/x-amz-json-1.0"));
    let signature = seen[0].header("authorization").unwrap();
    assert!(signature.contains("/eu-west-1/sms-voice/aws4_request"), "{signature}");
}

#[tokio::test]
async fn a_text_that_names_no_configuration_set_gets_the_poller_one() {
    let service = Fake::once(200, SENT);
    let mailer = mailer(&service.config()).with_configuration_set(Some("all".to_owned()));
    send(&mailer, &text("")).await.unwrap();
    let seen = service.seen();
    assert_eq!(seen[0].body["ConfigurationSetName"], "all");
    let left_out = ["OriginationIdentity", "MessageType"];
    assert!(left_out.iter().all(|member| seen[0].body.get(member).is_none()));
}

#[tokio::test]
async fn a_refusal_has_the_reason_as_its_code_and_is_made_once() {
    let body = |name: &str, reason: &str| {
        format!(r#"{{"__type":"com.amazonaws.x#{name}","Message":"Said.","Reason":"{reason}"}}"#)
    };
    for (status, body, code, outcome) in [
        (
            400,
            body("ConflictException", "DESTINATION_PHONE_NUMBER_OPTED_OUT"),
            "DESTINATION_PHONE_NUMBER_OPTED_OUT",
            Outcome::OptedOut,
        ),
        (
            400,
            body("ServiceQuotaExceededException", "MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT"),
            "MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT",
            Outcome::SpendLimit,
        ),
        (
            400,
            r#"{"__type":"ThrottlingException","Message":"Slow down"}"#.to_owned(),
            "ThrottlingException",
            Outcome::RateExceeded,
        ),
        (
            400,
            r#"{"__type":"AccessDeniedException","Message":"no"}"#.to_owned(),
            "AccessDeniedException",
            Outcome::Environment,
        ),
        (
            500,
            r#"{"__type":"InternalServerException","Message":"no"}"#.to_owned(),
            "InternalServerException",
            Outcome::Transient,
        ),
    ] {
        let failure = refusal(FakeAnswer::Http(status, &[], body)).await;
        assert_eq!((failure.code.as_deref(), failure.http_status), (Some(code), Some(status)));
        assert_eq!((failure.stage, classify_text(&failure)), (Stage::Answered, outcome));
    }
    let failure =
        refusal(FakeAnswer::Http(400, &[], body("ConflictException", "RESOURCE_NOT_ACTIVE"))).await;
    assert_eq!(failure.message, "ConflictException: Said.");
    let service = Fake::once(500, "");
    send(&mailer(&service.config()), &text("")).await.unwrap_err();
    assert_eq!(service.seen().len(), 1, "nothing is retried");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_may_have_sent_the_text() {
    let failure = refusal(FakeAnswer::Http(200, &[], "<html>".to_owned())).await;
    assert_eq!(classify(&failure), Outcome::Ambiguous, "{failure:?}");
    assert_eq!(refusal(FakeAnswer::Break).await.stage, Stage::AfterWrite);
}

#[tokio::test]
async fn a_lost_connection_and_silence_are_ambiguous_and_a_late_text_is_not_written() {
    let service = Loopback::start(EndpointBehaviour::Close).await;
    let failure = send(&on_wire(&service), &text("")).await.unwrap_err();
    assert_eq!((failure.stage, service.requests()), (Stage::AfterWrite, 1));
    let service = Loopback::start(EndpointBehaviour::Silence).await;
    let mut mailer = on_wire(&service);
    mailer.send_timeout = Duration::from_millis(60);
    let failure = send(&mailer, &text("")).await.unwrap_err();
    assert_eq!((failure.stage, service.requests()), (Stage::AfterWrite, 1));
    let content = text("");
    let failure = mailer.send(mail(&content), Monotonic::default()).await.result.unwrap_err();
    assert_eq!((failure.stage, service.requests()), (Stage::NotSent, 1));
}

#[tokio::test]
async fn warming_opens_the_connections_that_the_sends_use_and_sends_nothing() {
    let service = Loopback::start(EndpointBehaviour::Answer(SENT, Duration::from_millis(50))).await;
    let mailer = on_wire(&service);
    mailer.warm(4).await;
    assert_eq!((service.connections(), service.requests()), (4, 0));
    let content = text("");
    let sends = join_all((0..4).map(|_| send(&mailer, &content))).await;
    assert!(sends.iter().all(Result::is_ok), "{sends:?}");
    assert_eq!((service.connections(), service.requests()), (4, 4));
}

#[tokio::test]
async fn a_mail_is_not_sent_as_a_text() {
    let body = r#"{"to_address": "ada@example.com", "from_address": "news@example.org", "subject": "Hello", "body": "Text."}"#;
    let email = tidegate_core::email::Email::parse(body).unwrap().into();
    let service = Fake::once(200, SENT);
    let failure = send(&mailer(&service.config()), &email).await.unwrap_err();
    assert_eq!((classify(&failure), service.seen().len()), (Outcome::Permanent, 0));
}

fn answer(body: &Value) -> FakeAnswer {
    FakeAnswer::Http(200, &[], body.to_string())
}

fn limits() -> FakeAnswer {
    answer(&json!({ "SpendLimits": [
        { "Name": "VOICE_MESSAGE_MONTHLY_SPEND_LIMIT", "EnforcedLimit": 1, "MaxLimit": 1, "Overridden": false },
        { "Name": "TEXT_MESSAGE_MONTHLY_SPEND_LIMIT", "EnforcedLimit": 500, "MaxLimit": 1000, "Overridden": true },
    ]}))
}

fn number(id: &str, pool: &str, rate: &Value) -> Value {
    json!({
        "PhoneNumber": format!("+1206{id}"), "PhoneNumberId": format!("phone-{id}"), "PoolId": pool,
        "NumberType": "SHORT_CODE", "MessagingLimits": { "RateLimits": rate },
    })
}

fn pages() -> [FakeAnswer; 3] {
    let first = number("1", "pool-1", &json!({ "SMS": 3, "MMS": 1 }));
    let others = [number("2", "pool-1", &json!({ "SMS": 20 })), number("3", "pool-2", &json!({}))];
    [
        answer(&json!({ "PhoneNumbers": [first], "NextToken": "more" })),
        answer(&json!({ "PhoneNumbers": others })),
        limits(),
    ]
}

async fn rate_of(origin: Option<&str>, quota: Option<Rate>) -> Result<f64, PortError> {
    let service = Fake::new(pages());
    let account = SmsAccount::new(&service.config(), quota, origin).account().await?;
    assert_eq!(account.spend_limit, Some(500));
    Ok(account.max_send_rate)
}

#[tokio::test]
async fn the_quota_is_that_of_the_number_or_of_all_numbers_of_the_pool() {
    let rate = |origin| rate_of(Some(origin), None);
    for (origin, expected) in [("+12061", 3.0), ("phone-2", 20.0), ("pool-1", 23.0)] {
        assert!((rate(origin).await.unwrap() - expected).abs() < 1e-9, "{origin}");
    }
    let arn = "arn:aws:sms-voice:eu-west-1:1:pool/pool-1";
    assert!((rate(arn).await.unwrap() - 23.0).abs() < 1e-9);
    for unknown in ["+12063", "NEWS"] {
        let error = rate(unknown).await.unwrap_err().to_string();
        assert!(error.contains("set TIDEGATE_QUOTA_PER_SECOND"), "{error}");
    }
    assert!(rate_of(None, None).await.is_err());
}

#[tokio::test]
async fn with_a_configured_quota_no_number_is_asked_for() {
    let service = Fake::new([limits()]);
    let quota = Some(Rate::per_second(26.5).unwrap());
    let account = SmsAccount::new(&service.config(), quota, Some("NEWS")).account().await.unwrap();
    assert!((account.max_send_rate - 26.5).abs() < 1e-9 && account.sending_enabled);
    let targets: Vec<_> = service.seen().into_iter().filter_map(|seen| seen.target).collect();
    assert_eq!(targets, ["PinpointSMSVoiceV2.DescribeSpendLimits"]);
}

#[tokio::test(start_paused = true)]
async fn an_account_that_does_not_answer_at_first_or_throttles_is_asked_again_and_a_denial_is_told()
{
    let quota = Some(Rate::MAX);
    let throttled = r#"{"__type":"ThrottlingException","Message":"Rate exceeded"}"#;
    for first in [FakeAnswer::Break, FakeAnswer::Http(400, &[], throttled.to_owned())] {
        let service = Fake::new([first, limits()]);
        assert!(SmsAccount::new(&service.config(), quota, None).account().await.is_ok());
    }
    let denied = r#"{"__type":"AccessDeniedException","Message":"no"}"#;
    let service = Fake::once(400, denied);
    let error = SmsAccount::new(&service.config(), quota, None).account().await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Denied("AccessDeniedException".to_owned()));
}

/// Where a text goes from a region, with FIPS and dual stack or without.
async fn host(region: &'static str, fips: bool, dual_stack: bool) -> String {
    let service = Fake::once(200, SENT);
    let config = service.config().into_builder().region(Region::new(region));
    let config = config.use_fips(fips).use_dual_stack(dual_stack).build();
    send(&mailer(&config), &text("")).await.unwrap();
    service.seen()[0].path.clone()
}

#[tokio::test]
async fn texts_go_to_the_regions_host_of_its_partition_with_fips_and_dual_stack_as_configured() {
    for (region, fips, dual_stack, expected) in [
        ("eu-west-1", false, false, "sms-voice.eu-west-1.amazonaws.com"),
        ("us-east-2", true, false, "sms-voice-fips.us-east-2.amazonaws.com"),
        ("us-east-2", false, true, "sms-voice.us-east-2.api.aws"),
        ("us-east-2", true, true, "sms-voice-fips.us-east-2.api.aws"),
        ("us-gov-west-1", false, false, "sms-voice.us-gov-west-1.amazonaws.com"),
        ("us-gov-east-1", true, true, "sms-voice-fips.us-gov-east-1.api.aws"),
        ("eusc-de-east-1", false, false, "sms-voice.eusc-de-east-1.amazonaws.eu"),
        ("eusc-de-east-1", false, true, "sms-voice.eusc-de-east-1.api.amazonwebservices.eu"),
        ("cn-north-1", false, false, "sms-voice.cn-north-1.amazonaws.com.cn"),
        ("us-iso-east-1", true, false, "sms-voice-fips.us-iso-east-1.c2s.ic.gov"),
        ("us-isob-east-1", false, true, "sms-voice.us-isob-east-1.api.aws.scloud"),
    ] {
        assert_eq!(host(region, fips, dual_stack).await, format!("https://{expected}/"));
    }
}

/// The endpoint of End User Messaging in an environment or a profile.
#[derive(Debug)]
struct OwnEndpoint;

impl LoadServiceConfig for OwnEndpoint {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        let asked = (key.service_id(), key.env(), key.profile());
        assert_eq!(asked, ("Pinpoint SMS Voice V2", "AWS_ENDPOINT_URL", "endpoint_url"));
        Some("http://texts.example".to_owned())
    }
}

#[tokio::test]
async fn an_endpoint_of_its_own_goes_before_that_of_all_services_and_both_before_the_regions() {
    for (own, general, expected) in [
        (true, true, "http://texts.example/"),
        (false, true, "http://all.example/"),
        (true, false, "http://texts.example/"),
    ] {
        let service = Fake::once(200, SENT);
        let mut config = service.config().into_builder();
        config.set_endpoint_url(general.then(|| "http://all.example".to_owned()));
        config.set_service_config(own.then_some(OwnEndpoint));
        send(&mailer(&config.use_fips(true).build()), &text("")).await.unwrap();
        assert_eq!(service.seen()[0].path, expected);
    }
}
