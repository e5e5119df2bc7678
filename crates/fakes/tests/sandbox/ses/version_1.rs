//! Calls of version 1, and bulk calls of both, over real HTTP.

use std::io::ErrorKind;

use super::support::{Client, start};
use serde_json::{Value, json};

const QUERY: &str = "POST /";
const BULK: &str = "POST /v2/email/outbound-bulk-emails";

const SIMPLE: &str = "Action=SendEmail&Version=2010-12-01&Source=news%40example.org\
    &Destination.ToAddresses.member.1=ada%40example.com&Message.Subject.Data=Hello+you\
    &Message.Body.Text.Data=Text.&Tags.member.1.Name=tidegate_campaign&Tags.member.1.Value=big";

/// A bulk of version 2 to these recipients, a mail each.
fn bulk(recipients: &[&str]) -> String {
    let entry = |to: &&str| json!({"Destination": {"ToAddresses": [to]}});
    let entries: Vec<Value> = recipients.iter().map(entry).collect();
    let request = json!({
        "FromEmailAddress": "news@example.org",
        "DefaultContent": {"Template": {"TemplateName": "welcome", "TemplateData": "{}"}},
        "BulkEmailEntries": entries,
    });
    request.to_string()
}

#[tokio::test]
async fn a_mail_of_version_1_is_kept_as_one_of_version_2() {
    let (sandbox, _) = start(json!({})).await;
    let mut client = Client::connect(&sandbox).await;
    let answer = client.call(QUERY, SIMPLE).await.expect("answer");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/xml")));
    let id = sandbox.mails(0, 10)[0].message_id();
    let request_id = answer.header("x-amzn-RequestId").expect("an id");
    assert_eq!(
        answer.body,
        format!(
            "<SendEmailResponse xmlns=\"http://ses.amazonaws.com/doc/2010-12-01/\"><SendEmailResult><MessageId>{id}\
             </MessageId></SendEmailResult><ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>\
             </SendEmailResponse>"
        )
    );
    let raw = "Action=SendRawEmail&RawMessage.Data=RnJvbTogYUB4ClRvOiBiQHgsIGNAeApTdWJqZWN0OiBSYXcKCkhpCg%3D%3D";
    assert_eq!(client.call(QUERY, raw).await.expect("answer").status, 200);
    let templated = "Action=SendTemplatedEmail&Source=a%40x&Destination.BccAddresses.member.1=b%40x&Template=welcome";
    assert_eq!(client.call(QUERY, templated).await.expect("answer").status, 200);
    let mails = client.get("/_sandbox/mails").await.json();
    assert_eq!(
        (&mails[0]["subject"], &mails[0]["tags"]),
        (&json!("Hello you"), &json!({"tidegate_campaign": "big"}))
    );
    assert_eq!((&mails[1]["kind"], &mails[1]["recipients"]), (&json!("raw"), &json!(2)));
    assert_eq!((&mails[2]["subject"], &mails[2]["bcc"]), (&json!("[welcome]"), &json!(["b@x"])));
    let whole = client.get("/_sandbox/mails/1").await.json();
    assert_eq!(whole["request"]["Content"]["Simple"]["Body"]["Text"]["Data"], "Text.");
}

#[tokio::test]
async fn version_1_has_its_own_errors_for_the_same_refusals() {
    let (sandbox, _) = start(json!({"quota": 1})).await;
    let mut client = Client::connect(&sandbox).await;
    client.call(QUERY, SIMPLE).await.expect("answer");
    for (body, status, code, message) in [
        (SIMPLE, 400, "Throttling", "Maximum sending rate exceeded."),
        ("Action=SendEmail&Source=a%40x", 400, "InvalidParameterValue", "Message must be given."),
        ("Action=ListIdentities", 400, "InvalidAction", "GetSendQuota"),
        ("", 400, "MissingAction", "Missing parameter Action."),
    ] {
        let answer = client.call(QUERY, body).await.expect("answer");
        let told = format!("<Type>Sender</Type><Code>{code}</Code><Message>");
        assert!(answer.status == status && answer.body.contains(&told), "{answer:?}");
        assert!(answer.body.contains(message), "{answer:?}");
    }
    assert_eq!(sandbox.stats().refused["TooManyRequestsException"], 1);
}

#[tokio::test]
async fn the_quota_is_told_by_version_1() {
    let (sandbox, _) = start(json!({"quota": 14, "daily_quota": 200})).await;
    let mut client = Client::connect(&sandbox).await;
    client.call(QUERY, SIMPLE).await.expect("answer");
    let answer =
        client.call(QUERY, "Action=GetSendQuota&Version=2010-12-01").await.expect("answer");
    let figures = "<GetSendQuotaResult><Max24HourSend>200.0</Max24HourSend><MaxSendRate>14.0</MaxSendRate>\
                   <SentLast24Hours>1.0</SentLast24Hours></GetSendQuotaResult>";
    assert!(answer.body.contains(figures), "{answer:?}");
}

#[tokio::test]
async fn each_mail_of_a_bulk_is_judged_alone() {
    let (sandbox, _) =
        start(json!({"quota": 2, "faults": ["MessageRejected,to=*@spam.example"]})).await;
    let mut client = Client::connect(&sandbox).await;
    let entries = bulk(&["a@x", "nobody", "b@spam.example", "c@x", "d@x"]);
    let answer = client.call(BULK, &entries).await.expect("answer");
    let results = answer.json()["BulkEmailEntryResults"].clone();
    let statuses: Vec<_> =
        results.as_array().expect("a list").iter().map(|it| it["Status"].clone()).collect();
    let expected =
        ["SUCCESS", "INVALID_PARAMETER", "MESSAGE_REJECTED", "SUCCESS", "ACCOUNT_THROTTLED"];
    assert_eq!((answer.status, statuses), (200, expected.map(Value::from).to_vec()));
    let kept = sandbox.mails(0, 10);
    assert_eq!(results[0]["MessageId"], kept[0].message_id());
    assert_eq!(results[3]["MessageId"], kept[1].message_id());
    let none = client.call(BULK, &bulk(&[])).await.expect("answer");
    assert_eq!((none.status, none.error().0.as_str()), (400, "BadRequestException"));
    let form = "Action=SendBulkTemplatedEmail&Source=a%40x&Template=welcome\
        &Destinations.member.1.Destination.ToAddresses.member.1=nobody";
    let answer = client.call(QUERY, form).await.expect("answer");
    let told = "<Status><member><Status>InvalidParameterValue</Status><Error>Missing final '@domain'</Error></member>\
                </Status>";
    assert!(answer.body.contains(told), "{answer:?}");
}

#[tokio::test]
async fn a_mail_whose_answer_is_lost_takes_the_bulks_answer_with_it() {
    let (sandbox, _) = start(json!({"faults": ["lost-answer,to=*@lost.example"]})).await;
    let mut client = Client::connect(&sandbox).await;
    let lost = client.call(BULK, &bulk(&["a@x", "b@lost.example", "c@x"])).await;
    assert_eq!(lost.expect_err("no answer").kind(), ErrorKind::UnexpectedEof);
    assert_eq!(sandbox.stats().accepted.mails, 3);
}
