//! `Account` on SES v2, and what SES makes of a template.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::config::retry::RetryConfig;
use aws_sdk_sesv2::config::timeout::TimeoutConfig;
use aws_sdk_sesv2::error::ProvideErrorMetadata as _;
use aws_sdk_sesv2::types::SendingStatus;
use tidegate_core::control::TenantStatus;
use tidegate_delivery::ports::{Account, AccountStatus, FailureKind, PortError};

use crate::aws::error::{incomplete, port_error};

/// The time limit of a call with its retries. The scheduler calls `GetAccount` once, before its first tick.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(2);
const ACCOUNT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Asks SES v2 for the account's quota and state, and for its tenants': each call within 2 s and with the SDK's
/// standard retries.
#[derive(Clone, Debug)]
pub struct SesAccount {
    client: Client,
}

impl SesAccount {
    /// The account to which `client`'s credentials belong; its retries and time limits are replaced.
    pub fn new(client: &Client) -> Self {
        let timeouts = TimeoutConfig::builder()
            .operation_timeout(ACCOUNT_TIMEOUT)
            .operation_attempt_timeout(ACCOUNT_ATTEMPT_TIMEOUT)
            .build();
        let config = client.config().to_builder().retry_config(RetryConfig::standard());
        Self { client: Client::from_conf(config.timeout_config(timeouts).build()) }
    }

    /// Why SES cannot render its template `name` with `data`, a JSON object, in SES's words; `None` if it can.
    ///
    /// # Errors
    /// [`PortError`] if SES does not answer, or refuses for another reason.
    pub async fn template_fault(
        &self,
        name: &str,
        data: &str,
    ) -> Result<Option<String>, PortError> {
        let call = self.client.test_render_email_template().template_name(name);
        let Err(error) = call.template_data(data).send().await else { return Ok(None) };
        let of_template = ["BadRequestException", "NotFoundException"].map(Some);
        match error.message() {
            Some(said) if of_template.contains(&error.code()) => Ok(Some(said.to_owned())),
            _ => Err(port_error("TestRenderEmailTemplate", name, error)),
        }
    }
}

impl Account for SesAccount {
    async fn account(&self) -> Result<AccountStatus, PortError> {
        const OPERATION: &str = "GetAccount";
        const RESOURCE: &str = "the account";
        let answer = self.client.get_account().send().await;
        let answer = answer.map_err(|error| port_error(OPERATION, RESOURCE, error))?;
        let quota =
            answer.send_quota().ok_or_else(|| incomplete(OPERATION, RESOURCE, "SendQuota"))?;
        Ok(AccountStatus {
            max_send_rate: quota.max_send_rate(),
            max_24_hour_send: quota.max24_hour_send(),
            sent_last_24_hours: quota.sent_last24_hours(),
            sending_enabled: answer.sending_enabled(),
            spend_limit: None,
        })
    }

    async fn tenant(&self, name: &str) -> Result<Option<TenantStatus>, PortError> {
        const OPERATION: &str = "GetTenant";
        let answer = self.client.get_tenant().tenant_name(name).send().await;
        let answer = match answer.map_err(|error| port_error(OPERATION, name, error)) {
            Err(PortError { kind: FailureKind::NotFound, .. }) => return Ok(None),
            answer => answer?,
        };
        let status = answer.tenant().and_then(|tenant| tenant.sending_status());
        let status = status.ok_or_else(|| incomplete(OPERATION, name, "SendingStatus"))?;
        // A status that this version does not know may let it send; if not, SES's refusal says so.
        let sends = *status != SendingStatus::Disabled;
        Ok(Some(TenantStatus { sends, resources: resources(&self.client, name).await? }))
    }
}

/// The ARNs of the resources that are associated with a tenant.
async fn resources(client: &Client, name: &str) -> Result<BTreeSet<String>, PortError> {
    let call = client.list_tenant_resources().tenant_name(name);
    let mut pages = call.into_paginator().send();
    let mut found = BTreeSet::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| port_error("ListTenantResources", name, error))?;
        let arns = page.tenant_resources().iter().filter_map(|resource| resource.resource_arn());
        found.extend(arns.map(str::to_owned));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
