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
