use std::collections::BTreeMap;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use futures_util::future::join_all;
use serde_json::json;
use tidegate_core::bucket::Pace;
use tidegate_core::channel::Content;
use tidegate_core::email::Email;
use tidegate_core::outcome::{Outcome, Stage, classify, classify_for_tenant};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::ports::{Clock as _, Mailer as _};

use super::*;
use crate::aws::system::SystemClock;
use crate::aws::tests::fake::{Fake, FakeAnswer};
use crate::aws::tests::loopback::{EndpointBehaviour, Loopback};

const SENT: &str = r#"{"MessageId":"0102018f-1"}"#;
const TIMEOUT: Duration = Duration::from_secs(5);

fn email() -> Content {
    let body = r#"{"to_address": "ada@example.com", "from_address": "news@example.org",
        "subject": "Hello", "body": "Text."}"#;
    Email::parse(body).unwrap().into()
}

/// Any pace will do: only a shared bucket uses it.
fn pace() -> Pace {
    Pace { rate: Rate::MIN, rate_margin: RateMargin::default() }
}

fn mailer(client: &aws_sdk_sesv2::Client) -> AwsMailer {
    AwsMailer::email(client, SystemClock::new(), TIMEOUT)
}

/// Sends with a minute to spare, so that the request is not late.
async fn send(mailer: &AwsMailer, email: &Content) -> Result<String, Failure> {
    let latest = mailer.clock.monotonic() + Duration::from_mins(1);
    mailer.send(mail(email, None), latest).await.result
}

fn mail<'a>(email: &'a Content, tenant: Option<&'a str>) -> Mail<'a> {
    Mail { tenant, ..Mail::new(email, "spring", "order 7", pace()) }
}

/// The body of the 403 as SES writes it, with a capital `Message`.
#[tokio::test]
async fn a_mail_goes_out_for_its_tenant_and_an_association_that_is_missing_is_the_tenants_problem()
{
    let email = email();
    let mailer_of = |ses: &Fake| mailer(&ses.ses());
    for (tenant, expected) in [(Some("acme"), Some("acme".into())), (None, None)] {
        let ses = Fake::once(200, SENT);
        let mailer = mailer_of(&ses);
        let latest = mailer.clock.monotonic() + Duration::from_mins(1);
        mailer.send(mail(&email, tenant), latest).await.result.unwrap();
        assert_eq!(ses.seen()[0].body.get("TenantName").cloned(), expected);
    }
    let said = r#"{"Message":"Tenant not associated with resources [arn:aws:ses:eu-west-1:1:identity/example.org]."}"#;
    let headers = &[("x-amzn-errortype", "AccessDeniedException")];
    let ses = Fake::new([FakeAnswer::Http(403, headers, said.to_owned())]);
    let mailer = mailer_of(&ses);
    let latest = mailer.clock.monotonic() + Duration::from_mins(1);
    let failure = mailer.send(mail(&email, Some("acme")), latest).await.result.unwrap_err();
    assert_eq!(classify_for_tenant(&failure), Outcome::Tenant, "{failure:?}");
    assert!(failure.message.contains("identity/example.org"));
}

#[tokio::test]
async fn the_configured_set_is_of_mails_that_name_none() {
    let named = r#"{"to": "ada@example.com", "from": "news@example.org", "subject": "Hello",
        "text": "Text.", "configuration_set": "own"}"#;
    let named: Content = Email::parse(named).unwrap().into();
    for (configured, email, expected) in [
        (None, email(), None),
        (Some("tidegate"), email(), Some("tidegate")),
        (Some("tidegate"), named.clone(), Some("own")),
        (None, named, Some("own")),
    ] {
        let ses = Fake::once(200, SENT);
        let mailer = mailer(&ses.ses()).with_configuration_set(configured.map(str::to_owned));
        send(&mailer, &email).await.unwrap();
        let asked = ses.seen()[0].body.get("ConfigurationSetName").cloned();
        assert_eq!(asked, expected.map(Into::into));
    }
}

async fn refusal(answer: FakeAnswer) -> Failure {
    send(&mailer(&Fake::new([answer]).ses()), &email()).await.unwrap_err()
}

fn error(status: u16, code: &'static [(&'static str, &'static str)], message: &str) -> FakeAnswer {
    FakeAnswer::Http(status, code, json!({"message": message}).to_string())
}

#[tokio::test]
async fn the_short_form_is_a_simple_message_with_tidegates_tags() {
    let ses = Fake::once(200, SENT);
    assert_eq!(send(&mailer(&ses.ses()), &email()).await.as_deref(), Ok("0102018f-1"));
    let asked = &ses.seen()[0];
    assert!(asked.path.ends_with("/v2/email/outbound-emails"));
    let id = tidegate_core::email::ses_tag_value("order 7").into_owned();
    let expected = json!({
        "FromEmailAddress": "news@example.org",
        "Destination": {"ToAddresses": ["ada@example.com"]},
        "Content": {"Simple": {
            "Subject": {"Data": "Hello", "Charset": "UTF-8"},
            "Body": {"Text": {"Data": "Text.", "Charset": "UTF-8"}},
        }},
        "EmailTags": [
            {"Name": "tidegate_campaign", "Value": "spring"},
            {"Name": "tidegate_id", "Value": id},
        ],
    });
    assert_eq!(asked.body, expected);
}

#[tokio::test]
async fn the_tags_of_limits_and_trace_are_left_out_where_the_producer_gives_all_that_ses_takes() {
    for (own, told) in [(0, [true; 2]), (46, [true; 2]), (47, [true, false]), (48, [false; 2])] {
        let tags: BTreeMap<String, &str> =
            (0..own).map(|number| (format!("tag-{number}"), "1")).collect();
        let body = json!({"to": "ada@example.com", "from": "news@example.org", "subject": "Hello",
            "text": "Text.", "tags": tags});
        let email = Email::parse(&body.to_string()).unwrap().into();
        let ses = Fake::once(200, SENT);
        let mailer = mailer(&ses.ses());
        let latest = mailer.clock.monotonic() + Duration::from_mins(1);
        let limits = Some("gmail_com");
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let mail = Mail { limits, trace: Some(trace), ..Mail::new(&email, "spring", "1", pace()) };
        mailer.send(mail, latest).await.result.unwrap();
        let asked = ses.seen().remove(0).body["EmailTags"].take();
        let tag = |name: &str, value| json!({"Name": name, "Value": value});
        let expected = [tag("tidegate_limit", "gmail_com"), tag("tidegate_trace", trace)];
        let tags = asked.as_array().unwrap();
        let has = expected.map(|tag| tags.contains(&tag));
        assert_eq!((has, tags.len() <= 50), (told, true), "{own}");
    }
}

#[tokio::test]
async fn the_long_form_goes_out_whole() {
    let body = json!({
        "to": ["Ada <ada@example.com>", "b@example.com"], "cc": "c@example.com",
        "bcc": "d@example.com", "from": "Nachrichten Köln <news@example.org>",
        "reply_to": "answers@example.org", "subject": "Grüße", "text": "Text.", "html": "<img src='cid:logo'>",
        "headers": {"X-Shop": "7"}, "configuration_set": "marketing", "tags": {"kind": "news"},
        "list_unsubscribe": "https://example.org/u/1",
        "attachments": [{"name": "a.bin", "content_type": "application/octet-stream",
            "content": "AAEC/w=="}, {"name": "logo.png", "content": "AAE=", "content_id": "logo"}],
    });
    let ses = Fake::once(200, SENT);
    send(&mailer(&ses.ses()), &Email::parse(&body.to_string()).unwrap().into()).await.unwrap();
    let mut asked = ses.seen().remove(0).body;
    let simple = asked["Content"]["Simple"].take();
    let destination = json!({"ToAddresses": ["Ada <ada@example.com>", "b@example.com"],
        "CcAddresses": ["c@example.com"], "BccAddresses": ["d@example.com"]});
    assert_eq!(asked["Destination"], destination);
    assert!(asked["FromEmailAddress"].as_str().unwrap().starts_with("=?"), "{asked}");
    assert_eq!(asked["ReplyToAddresses"], json!(["answers@example.org"]));
    assert_eq!(asked["ConfigurationSetName"], "marketing");
    assert_eq!(asked["EmailTags"][2], json!({"Name": "kind", "Value": "news"}));
    assert_eq!(simple["Subject"]["Data"], "Grüße");
    assert_eq!(simple["Body"]["Html"]["Data"], "<img src='cid:logo'>");
    let attachment = json!([{"FileName": "a.bin", "ContentType": "application/octet-stream",
        "ContentTransferEncoding": "BASE64", "RawContent": "AAEC/w=="},
        {"FileName": "logo.png", "ContentId": "logo", "ContentDisposition": "INLINE",
        "ContentTransferEncoding": "BASE64", "RawContent": "AAE="}]);
    assert_eq!(simple["Attachments"], attachment);
    let headers = simple["Headers"].as_array().unwrap();
    let names: Vec<_> = headers.iter().map(|header| header["Name"].as_str().unwrap()).collect();
    assert_eq!(names, ["X-Shop", "List-Unsubscribe", "List-Unsubscribe-Post"]);
}

#[tokio::test]
async fn a_template_goes_out_with_its_data_as_written() {
    let body = r#"{"to": "ada@example.com", "from": "news@example.org",
        "template": {"name": "welcome", "data": {"price": 19.90}}}"#;
    let ses = Fake::once(200, SENT);
    send(&mailer(&ses.ses()), &Email::parse(body).unwrap().into()).await.unwrap();
    let expected =
        json!({"Template": {"TemplateName": "welcome", "TemplateData": r#"{"price":19.90}"#}});
    assert_eq!(ses.seen()[0].body["Content"], expected);
}

#[tokio::test]
async fn a_raw_mail_goes_out_as_it_came_to_its_envelope() {
    let body = include_str!("../../../../../events/message_raw.json");
    let ses = Fake::once(200, SENT);
    let mailer = mailer(&ses.ses()).with_configuration_set(Some("tidegate".to_owned()));
    send(&mailer, &Email::parse(body).unwrap().into()).await.unwrap();
    let id = tidegate_core::email::ses_tag_value("order 7").into_owned();
    let written: serde_json::Value = serde_json::from_str(body).unwrap();
    let expected = json!({
        "FromEmailAddress": "news@example.org",
        "Destination": {"ToAddresses": ["ada@example.com", "Grace <grace@example.com>"]},
        "Content": {"Raw": {"Data": written["raw"]}},
        "EmailTags": [
            {"Name": "tidegate_campaign", "Value": "spring"},
            {"Name": "tidegate_id", "Value": id},
            {"Name": "kind", "Value": "news"},
        ],
        "ConfigurationSetName": "tidegate",
    });
    assert_eq!(ses.seen()[0].body, expected);
}

#[tokio::test]
async fn what_ses_says_is_passed_on_with_code_message_and_status() {
    let throttled = "Maximum sending rate exceeded.";
    let code: &[_] = &[("x-amzn-errortype", "TooManyRequestsException")];
    let failure = refusal(error(429, code, throttled)).await;
    let expected = Failure {
        http_status: Some(429),
        code: Some("TooManyRequestsException".to_owned()),
        message: throttled.to_owned(),
        stage: Stage::Answered,
    };
    assert_eq!(failure, expected);
    assert_eq!(classify(&failure), Outcome::RateExceeded);
}

#[tokio::test]
async fn answers_are_read_whether_or_not_the_sdk_has_a_variant_for_them() {
    let rejected: &[_] = &[("x-amzn-errortype", "MessageRejected")];
    // Services add a namespace and an address to the code.
    let throttling: &[_] =
        &[("x-amzn-errortype", "ThrottlingException:http://internal.amazon.com/")];
    let denied: &[_] = &[("x-amzn-errortype", "AccessDeniedException")];
    let signature: &[_] = &[("x-amzn-errortype", "InvalidSignatureException")];
    let suspended: &[_] = &[("x-amzn-errortype", "AccountSuspendedException")];
    let missing: &[_] = &[("x-amzn-errortype", "NotFoundException")];
    let unverified = "Email address is not verified. The following identities failed the check in \
                      region EU-WEST-1: news@example.org";
    let template = "Template welcome does not exist";
    let cases = [
        (400, rejected, unverified, Outcome::NotReady),
        (400, rejected, "Email address contains illegal characters", Outcome::Permanent),
        (400, throttling, "Daily message quota exceeded.", Outcome::DailyQuotaExceeded),
        (403, denied, "User is not authorized to perform `ses:SendEmail'", Outcome::Environment),
        (403, signature, "Signature expired", Outcome::Environment),
        (
            400,
            suspended,
            "Your account's ability to send email is suspended",
            Outcome::AccountPaused,
        ),
        (404, missing, template, Outcome::NotReady),
        (500, &[], "Internal error", Outcome::Transient),
        (429, &[], "Maximum sending rate exceeded.", Outcome::RateExceeded),
    ];
    for (status, code, message, outcome) in cases {
        let failure = refusal(error(status, code, message)).await;
        assert_eq!((failure.http_status, failure.message.as_str()), (Some(status), message));
        assert_eq!(classify(&failure), outcome, "{failure:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_ses_own_is_read_by_its_status() {
    let gateway = FakeAnswer::Http(502, &[], "<html>Bad Gateway</html>".to_owned());
    let gateway = refusal(gateway).await;
    assert_eq!((gateway.http_status, classify(&gateway)), (Some(502), Outcome::Transient));
    assert!(!gateway.message.is_empty(), "{gateway:?}");
    let cut = refusal(FakeAnswer::Http(200, &[], r#"{"MessageId":"#.to_owned())).await;
    assert_eq!((cut.http_status, classify(&cut)), (Some(200), Outcome::Ambiguous));
}

#[tokio::test]
async fn a_failed_send_is_not_tried_again() {
    let throttled = || error(429, &[("x-amzn-errortype", "TooManyRequestsException")], "Rate");
    for answers in [[throttled(), throttled()], [FakeAnswer::Break, FakeAnswer::Break]] {
        let ses = Fake::new(answers);
        send(&mailer(&ses.ses()), &email()).await.unwrap_err();
        assert_eq!(ses.seen().len(), 1);
    }
}

#[tokio::test]
async fn without_credentials_nothing_is_blamed_on_the_mail() {
    let config = aws_sdk_sesv2::Config::builder()
        .behavior_version(aws_sdk_sesv2::config::BehaviorVersion::latest())
        .region(aws_sdk_sesv2::config::Region::from_static("eu-west-1"))
        .credentials_provider(Nobody)
        .http_client(Fake::new([]));
    let client = aws_sdk_sesv2::Client::from_conf(config.build());
    let failure = send(&mailer(&client), &email()).await.unwrap_err();
    assert_eq!(classify(&failure), Outcome::Environment, "{failure:?}");
    assert!(failure.message.contains("no one is logged in"), "{failure:?}");
}

#[derive(Debug)]
struct Nobody;

impl aws_credential_types::provider::ProvideCredentials for Nobody {
    fn provide_credentials<'a>(
        &'a self,
    ) -> aws_credential_types::provider::future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let error = CredentialsError::not_loaded("no one is logged in");
        aws_credential_types::provider::future::ProvideCredentials::ready(Err(error))
    }
}

#[tokio::test]
async fn a_late_send_is_refused_before_it_is_written_on_any_client() {
    let latest = Monotonic::default();
    let mail = email();
    let mail = Mail::new(&mail, "spring", "1", pace());
    let service = Loopback::start(EndpointBehaviour::Answer(SENT, Duration::ZERO)).await;
    let ses = Fake::once(200, SENT);
    for client in [service.ses(), ses.ses()] {
        let mailer = mailer(&client);
        mailer.clock.sleep_until(latest + Duration::from_nanos(1)).await;
        let failure = mailer.send(mail, latest).await.result.unwrap_err();
        assert_eq!((failure.stage, classify(&failure)), (Stage::NotSent, Outcome::NotSent));
    }
    assert_eq!((ses.seen().len(), service.requests()), (0, 0));
}

#[tokio::test]
async fn warming_opens_the_connections_that_the_sends_use_and_sends_nothing() {
    let service = Loopback::start(EndpointBehaviour::Answer(SENT, Duration::from_millis(50))).await;
    let mailer = mailer(&service.ses());
    mailer.warm(8).await;
    assert_eq!((service.connections(), service.requests()), (8, 0));
    let mail = email();
    let sends = join_all((0..8).map(|_| send(&mailer, &mail))).await;
    assert!(sends.iter().all(Result::is_ok), "{sends:?}");
    mailer.warm(8).await;
    assert_eq!((service.connections(), service.requests()), (8, 8));
}

#[tokio::test]
async fn a_connection_lost_after_the_request_was_written_is_ambiguous() {
    for habit in [EndpointBehaviour::Close, EndpointBehaviour::CloseWithinAnswer] {
        let service = Loopback::start(habit).await;
        let failure = send(&mailer(&service.ses()), &email()).await.unwrap_err();
        assert_eq!(failure.stage, Stage::AfterWrite, "{habit:?}: {failure:?}");
        assert_eq!(service.requests(), 1);
    }
    // The same holds for an HTTP client that cannot tell how far the request got.
    assert_eq!(refusal(FakeAnswer::Break).await.stage, Stage::AfterWrite);
}

#[tokio::test]
async fn a_refused_connection_is_not_ambiguous() {
    let service = Loopback::start(EndpointBehaviour::Silence).await;
    let client = service.ses();
    let config = client.config().to_builder();
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let config = config.endpoint_url(format!("http://{closed}")).build();
    let failure = send(&mailer(&aws_sdk_sesv2::Client::from_conf(config)), &email()).await;
    let failure = failure.unwrap_err();
    assert_eq!((failure.stage, classify(&failure)), (Stage::Connect, Outcome::Transient));
}

#[tokio::test]
async fn silence_after_the_request_was_written_is_ambiguous_after_the_send_timeout() {
    let service = Loopback::start(EndpointBehaviour::Silence).await;
    let mut mailer = mailer(&service.ses());
    mailer.send_timeout = Duration::from_millis(60);
    let failure = send(&mailer, &email()).await.unwrap_err();
    assert_eq!((failure.stage, classify(&failure)), (Stage::AfterWrite, Outcome::Ambiguous));
    assert_eq!(failure.message, "no answer within 60ms");
    assert_eq!(service.requests(), 1);
}

#[tokio::test]
async fn a_request_that_was_written_before_its_slot_has_the_body_and_signature_of_one_that_was_not()
{
    let email = email();
    // Both must be signed in the same second.
    for _ in 0..5 {
        let ses = Fake::new([(); 2].map(|()| FakeAnswer::Http(200, &[], SENT.to_owned())));
        let mailer = mailer(&ses.ses());
        send(&mailer, &email).await.unwrap();
        let written = mailer.writer()(mail(&email, None));
        let latest = mailer.clock.monotonic() + Duration::from_mins(1);
        let ahead = Mail { written: Some(&written), ..mail(&email, None) };
        mailer.send(ahead, latest).await.result.unwrap();
        let seen = ses.seen();
        let [dates, signatures] = ["x-amz-date", "authorization"]
            .map(|name| seen.iter().map(|request| request.header(name).unwrap().to_owned()))
            .map(Iterator::collect::<Vec<_>>);
        assert_eq!(seen[0].body, seen[1].body);
        if dates[0] == dates[1] {
            assert_eq!(signatures[0], signatures[1]);
            return;
        }
    }
    panic!("no two requests within a second");
}
