use tidegate_core::control::TenantStatus;
use tidegate_delivery::ports::{Account as _, AccountStatus, FailureKind};

use super::SesAccount;
use crate::aws::tests::fake::{Fake, FakeAnswer};

const ANSWER: &str = r#"{"DedicatedIpAutoWarmupEnabled":false,"EnforcementStatus":"HEALTHY",
    "ProductionAccessEnabled":true,"SendQuota":{"Max24HourSend":50000.0,"MaxSendRate":14.0,
    "SentLast24Hours":17.0},"SendingEnabled":true}"#;

#[tokio::test]
async fn the_account_is_read_from_its_quota_and_state() {
    let ses = Fake::once(200, ANSWER);
    let account = SesAccount::new(&ses.ses()).account().await.unwrap();
    let expected = AccountStatus {
        max_send_rate: 14.0,
        max_24_hour_send: 50_000.0,
        sent_last_24_hours: 17.0,
        sending_enabled: true,
        spend_limit: None,
    };
    assert_eq!(account, expected);
    assert!(ses.seen()[0].path.ends_with("/v2/email/account"));
}

#[tokio::test(start_paused = true)]
async fn an_account_that_does_not_answer_at_first_is_asked_again() {
    let answer = FakeAnswer::Http(200, &[], ANSWER.to_owned());
    let ses = Fake::new([FakeAnswer::Break, answer]);
    assert!(SesAccount::new(&ses.ses()).account().await.is_ok());
}

#[tokio::test]
async fn denied_and_incomplete_answers_are_told_apart() {
    let body = r#"{"message":"The security token included in the request is invalid."}"#;
    let headers = &[("x-amzn-errortype", "UnrecognizedClientException")];
    let ses = Fake::new([FakeAnswer::Http(403, headers, body.to_owned())]);
    let error = SesAccount::new(&ses.ses()).account().await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Denied("UnrecognizedClientException".to_owned()));

    let error = SesAccount::new(&Fake::once(200, "{}").ses()).account().await.unwrap_err();
    assert!(error.to_string().contains("an answer without SendQuota"), "{error}");
}

fn answer(body: &str) -> FakeAnswer {
    FakeAnswer::Http(200, &[], body.to_owned())
}

fn with_status(status: &str) -> FakeAnswer {
    answer(&format!(r#"{{"Tenant":{{"TenantName":"acme","SendingStatus":"{status}"}}}}"#))
}

#[tokio::test]
async fn a_tenant_is_read_with_all_pages_of_its_resources() {
    let first = r#"{"NextToken":"more","TenantResources":[{"ResourceArn":"arn:1","ResourceType":"AWS::SES::EmailIdentity"}]}"#;
    let second = r#"{"TenantResources":[{"ResourceArn":"arn:2"}]}"#;
    let ses = Fake::new([with_status("REINSTATED"), answer(first), answer(second)]);
    let found = SesAccount::new(&ses.ses()).tenant("acme").await.unwrap().unwrap();
    let resources = ["arn:1".to_owned(), "arn:2".to_owned()].into();
    assert_eq!(found, TenantStatus { sends: true, resources });
    let seen = ses.seen();
    assert!(seen[0].path.ends_with("/v2/email/tenants/get"));
    assert!(seen[1].path.ends_with("/v2/email/tenants/resources/list"));
    assert_eq!(seen[2].body["NextToken"], "more");
    assert!(seen.iter().all(|request| request.body["TenantName"] == "acme"));
}

#[tokio::test]
async fn only_a_disabled_tenant_may_not_send() {
    for (status, sends) in [("ENABLED", true), ("DISABLED", false), ("SOMETHING_NEW", true)] {
        let ses = Fake::new([with_status(status), answer("{}")]);
        let found = SesAccount::new(&ses.ses()).tenant("acme").await.unwrap().unwrap();
        assert_eq!(found.sends, sends, "{status}");
    }
}

#[tokio::test]
async fn an_unknown_tenant_and_a_denied_question_are_told_apart() {
    let refused = |status, code| {
        let body = r#"{"message":"Tenant acme not found."}"#.to_owned();
        Fake::new([FakeAnswer::Http(status, code, body)])
    };
    let unknown = refused(404, &[("x-amzn-errortype", "NotFoundException")]);
    assert_eq!(SesAccount::new(&unknown.ses()).tenant("acme").await.unwrap(), None);
    let denied = refused(403, &[("x-amzn-errortype", "AccessDeniedException")]);
    let error = SesAccount::new(&denied.ses()).tenant("acme").await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Denied("AccessDeniedException".to_owned()));
    let empty = Fake::once(200, "{}");
    assert!(SesAccount::new(&empty.ses()).tenant("acme").await.is_err());
}

#[tokio::test]
async fn a_template_that_cannot_be_rendered_says_which_attribute_is_missing() {
    let said = "Attribute 'name' is not present in the rendering data.";
    let refused = |status, code, said: &str| {
        let body = format!(r#"{{"message":"{said}"}}"#);
        let ses = Fake::new([FakeAnswer::Http(status, code, body)]);
        SesAccount::new(&ses.ses())
    };
    let bad = refused(400, &[("x-amzn-errortype", "BadRequestException")], said);
    assert_eq!(bad.template_fault("welcome", "{}").await.unwrap().as_deref(), Some(said));
    let none = refused(404, &[("x-amzn-errortype", "NotFoundException")], "no such template");
    assert!(none.template_fault("welcome", "{}").await.unwrap().is_some());
    let denied = refused(403, &[("x-amzn-errortype", "AccessDeniedException")], "no");
    assert!(denied.template_fault("welcome", "{}").await.is_err());
    let ses = Fake::once(200, r#"{"RenderedTemplate":"Subject: Hello"}"#);
    let fine = SesAccount::new(&ses.ses()).template_fault("welcome", r#"{"name":"Ada"}"#).await;
    assert_eq!(fine.unwrap(), None);
    let seen = ses.seen();
    assert!(seen[0].path.ends_with("/v2/email/templates/welcome/render"));
    assert_eq!(seen[0].body["TemplateData"], r#"{"name":"Ada"}"#);
}
