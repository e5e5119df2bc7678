//! The SES v2 calls over real HTTP: wire format, quota, latency and every fault.

use std::io::ErrorKind;
use std::time::Duration;

use super::support::{Client, SEND, mail, start};
use serde_json::json;
use tidegate_fakes::sandbox::ses::MailStatus;
use tokio::time::Instant;

#[tokio::test]
async fn a_mail_is_accepted_with_its_message_id_and_a_request_id() {
    let (sandbox, _) = start(json!({})).await;
    let mut client = Client::connect(&sandbox).await;
    let answer = client.send("ada@example.com").await.expect("answer");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(answer.header("x-amzn-RequestId").is_some_and(|id| id.len() == 36));
    let kept = sandbox.mails(0, 10);
    assert_eq!(answer.json(), json!({"MessageId": kept[0].message_id()}));
}

#[tokio::test]
async fn a_mail_over_the_rate_gets_ses_own_refusal_until_time_passes() {
    let (sandbox, clock) = start(json!({"quota": 2})).await;
    let mut client = Client::connect(&sandbox).await;
    for _ in 0..2 {
        assert_eq!(client.send("a@x").await.expect("answer").status, 200);
    }
    let refused = client.send("a@x").await.expect("answer");
    assert_eq!(refused.status, 429);
    assert!(refused.header("x-amzn-RequestId").is_some());
    let (code, message) = refused.error();
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("TooManyRequestsException", "Maximum sending rate exceeded.")
    );
    assert_eq!(refused.json().as_object().map(serde_json::Map::len), Some(1));
    clock.move_by_millis(500);
    assert_eq!(client.send("a@x").await.expect("answer").status, 200);
}

#[tokio::test]
async fn a_mail_spends_as_many_as_it_has_recipients() {
    let (sandbox, _) = start(json!({"quota": 5})).await;
    let mut client = Client::connect(&sandbox).await;
    let mut four = mail("a@x");
    four["Destination"] =
        json!({"ToAddresses": ["a@x", "b@x"], "CcAddresses": ["c@x"], "BccAddresses": ["d@x"]});
    let four = four.to_string();
    assert_eq!(client.call(SEND, &four).await.expect("answer").status, 200);
    assert_eq!(client.call(SEND, &four).await.expect("answer").status, 429);
    assert_eq!(client.send("a@x").await.expect("answer").status, 200);
}

#[tokio::test]
async fn a_bad_request_is_refused_in_the_wire_format_and_the_connection_goes_on() {
    let (sandbox, _) = start(json!({})).await;
    let mut client = Client::connect(&sandbox).await;
    for (body, named) in [
        ("{", "not JSON"),
        ("{}", "exactly one of Simple, Raw and Template"),
        (r#"{"Content":{"Raw":{"Data":7}}}"#, "Content.Raw.Data: invalid type: integer `7`"),
    ] {
        let answer = client.call(SEND, body).await.expect("answer");
        let (code, message) = answer.error();
        assert_eq!((answer.status, code.as_str()), (400, "BadRequestException"));
        assert!(message.contains(named), "{message}");
    }
    assert_eq!(client.send("a@x").await.expect("answer").status, 200);
    assert_eq!(sandbox.stats().refused["BadRequestException"], 3);
}

#[tokio::test]
async fn every_identity_is_verified_and_every_configuration_set_there() {
    let (sandbox, _) = start(json!({})).await;
    let mut client = Client::connect(&sandbox).await;
    for (identity, kind) in [("example.org", "DOMAIN"), ("a@example.org", "EMAIL_ADDRESS")] {
        let found = client.get(&format!("/v2/email/identities/{identity}")).await.json();
        assert_eq!(found["IdentityType"], kind);
        assert_eq!(found["VerifiedForSendingStatus"], true);
    }
    let set = client.get("/v2/email/configuration-sets/news").await.json();
    assert_eq!(set["ConfigurationSetName"], "news");
}

#[tokio::test]
async fn a_call_that_the_sandbox_does_not_have_says_so() {
    let (sandbox, _) = start(json!({})).await;
    let mut client = Client::connect(&sandbox).await;
    for call in ["GET /v2/email/identities", "DELETE /v2/email/account"] {
        let answer = client.call(call, "").await.expect("answer");
        let (code, message) = answer.error();
        assert_eq!((answer.status, code.as_str()), (404, "UnknownOperationException"));
        assert!(message.starts_with(call), "{message}");
    }
}

#[tokio::test]
async fn the_account_tells_quota_use_and_pause() {
    let (sandbox, _) = start(json!({"quota": 14, "daily_quota": 2})).await;
    let mut client = Client::connect(&sandbox).await;
    client.send("a@x").await.expect("answer");
    let account = client.get("/v2/email/account").await.json();
    assert_eq!(
        account["SendQuota"],
        json!({"Max24HourSend": 2.0, "MaxSendRate": 14.0, "SentLast24Hours": 1.0})
    );
    assert_eq!(account["SendingEnabled"], true);
    assert_eq!(account["ProductionAccessEnabled"], true);
    assert_eq!(account["EnforcementStatus"], "HEALTHY");
    client.send("a@x").await.expect("answer");
    let over = client.send("a@x").await.expect("answer");
    assert_eq!((over.status, over.error().0.as_str()), (400, "LimitExceededException"));
    assert_eq!(over.error().1, "Daily message quota exceeded.");
    client.change(json!({"paused": true})).await;
    let paused = client.send("a@x").await.expect("answer");
    assert_eq!((paused.status, paused.error().0.as_str()), (400, "SendingPausedException"));
    assert_eq!(client.get("/v2/email/account").await.json()["SendingEnabled"], false);
}

#[tokio::test(start_paused = true)]
async fn an_answer_takes_the_latency_and_arrival_comes_before_it() {
    let (sandbox, _) = start(json!({"latency": "80ms"})).await;
    let mut client = Client::connect(&sandbox).await;
    let started = Instant::now();
    client.write(SEND, &mail("a@x").to_string()).await.expect("write");
    while sandbox.mails(0, 1).is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(started.elapsed(), Duration::ZERO, "in the mailbox before the latency");
    assert_eq!(client.read().await.expect("answer").status, 200);
    let taken = started.elapsed();
    assert!((80..=82).contains(&taken.as_millis()), "{taken:?}");
}

#[tokio::test]
async fn a_lost_answer_records_the_mail_and_closes_the_connection() {
    let (sandbox, _) = start(json!({"faults": ["lost-answer,to=*@lost.example"]})).await;
    let mut client = Client::connect(&sandbox).await;
    assert_eq!(client.send("a@well.example").await.expect("answer").status, 200);
    let lost = client.send("a@lost.example").await.expect_err("no answer");
    assert_eq!(lost.kind(), ErrorKind::UnexpectedEof);
    let statuses: Vec<_> = sandbox.mails(0, 10).iter().map(|mail| mail.status).collect();
    assert_eq!(statuses, [MailStatus::Accepted, MailStatus::AnswerLost]);
}

#[tokio::test]
async fn a_reset_accepts_nothing_and_resets_the_connection() {
    let (sandbox, _) = start(json!({"faults": ["reset"]})).await;
    let mut client = Client::connect(&sandbox).await;
    let reset = client.send("a@x").await.expect_err("no answer");
    assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    assert!(sandbox.mails(0, 10).is_empty());
    assert_eq!(sandbox.stats().faults["reset"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_accepts_nothing_and_closes_only_after_its_time() {
    let (sandbox, _) =
        start(json!({"faults": ["timeout,after=10s,to=*@late.example", "timeout"]})).await;
    let mut client = Client::connect(&sandbox).await;
    let started = Instant::now();
    let closed = client.send("a@late.example").await.expect_err("no answer");
    assert_eq!(closed.kind(), ErrorKind::UnexpectedEof);
    assert!(started.elapsed() >= Duration::from_secs(10));
    let mut client = Client::connect(&sandbox).await;
    let day = Duration::from_hours(24);
    assert!(tokio::time::timeout(day, client.send("a@never.example")).await.is_err());
    assert!(sandbox.mails(0, 10).is_empty());
}

#[tokio::test]
async fn an_injected_error_has_the_code_status_and_message_asked_for() {
    let faults = json!({"faults": [
        "MessageRejected,to=*@spam.example,message=Address is on the list, sorry.",
        "ServiceUnavailable,to=*@down.example",
        "AccessDeniedException,operation=GetAccount",
    ]});
    let (sandbox, _) = start(faults).await;
    let mut client = Client::connect(&sandbox).await;
    let rejected = client.send("a@spam.example").await.expect("answer");
    assert_eq!((rejected.status, rejected.error().0.as_str()), (400, "MessageRejected"));
    assert_eq!(rejected.error().1, "Address is on the list, sorry.");
    let down = client.send("a@down.example").await.expect("answer");
    assert_eq!((down.status, down.error().0.as_str()), (503, "ServiceUnavailable"));
    assert_eq!(client.send("a@x").await.expect("answer").status, 200);
    let denied = client.get("/v2/email/account").await;
    assert_eq!((denied.status, denied.error().0.as_str()), (403, "AccessDeniedException"));
}
