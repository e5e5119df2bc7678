//! `Account` on AWS End User Messaging (`sms-voice`), for text messages: their quota by `DescribePhoneNumbers`, and the
//! month's spend limit by `DescribeSpendLimits`.

mod call;
pub(super) mod content;
#[cfg(test)]
mod tests;

use std::time::Duration;

use aws_config::SdkConfig;
use aws_smithy_types::error::ErrorMetadata;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_core::control::TenantStatus;
use tidegate_core::rate::Rate;
use tidegate_delivery::ports::{Account, AccountStatus, PortError};

use crate::aws::error::{incomplete, port_error};
pub(super) use call::{Manner, SmsClient};

/// The time limits of a call with its retries and of one attempt, as of SES's account.
const OPERATION: Duration = Duration::from_secs(2);
const ATTEMPT: Duration = Duration::from_secs(1);
const LIMIT: &str = "TEXT_MESSAGE_MONTHLY_SPEND_LIMIT";

/// The quota of text messages and the month's spend limit.
#[derive(Clone, Debug)]
pub struct SmsAccount {
    client: SmsClient,
    quota: Option<Rate>,
    origin: Option<String>,
}

impl SmsAccount {
    /// The account of `config`'s credentials. Its rate is `quota` in parts per second; without one, that of the phone
    /// number or pool `origin`.
    pub fn new(config: &SdkConfig, quota: Option<Rate>, origin: Option<&str>) -> Self {
        let client = SmsClient::new(config);
        Self { client, quota, origin: origin.map(str::to_owned) }
    }

    /// All records that `operation`, such as `DescribePools`, lists as its `member`, such as `Pools`.
    ///
    /// # Errors
    /// [`PortError`]; also for a record without a member that `T` needs.
    pub async fn list<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        member: &str,
    ) -> Result<Vec<T>, PortError> {
        let (mut found, mut token) = (Vec::new(), Value::Null);
        loop {
            let request = if token.is_null() { json!({}) } else { json!({ "NextToken": token }) };
            let manner = Manner::Retried(ATTEMPT, OPERATION);
            let answer = self.client.call(operation, request.to_string().into(), manner).await;
            let mut answer = answer
                .map_err(|error| port_error::<ErrorMetadata>(operation, "the account", error))?;
            let Value::Array(page) = answer[member].take() else {
                return Err(incomplete(operation, "the account", member));
            };
            let page: Result<Vec<T>, _> = page.into_iter().map(serde_json::from_value).collect();
            found.extend(page.map_err(|error| {
                incomplete(operation, member, &format!("what is needed: {error}"))
            })?);
            token = answer["NextToken"].take();
            if token.is_null() {
                return Ok(found);
            }
        }
    }

    /// The sum of the rates of all numbers that are the origin or belong to it, if it is a pool.
    async fn derived(&self) -> Result<f64, PortError> {
        const OPERATION: &str = "DescribePhoneNumbers";
        let origin = self.origin.as_deref().unwrap_or("*");
        let is_of = |number: &&Value| {
            ["PhoneNumber", "PhoneNumberId", "PhoneNumberArn", "PoolId"]
                .iter()
                .any(|name| number[*name] == origin || is_arn_of(origin, &number[*name]))
        };
        let numbers: Vec<Value> = self.list(OPERATION, "PhoneNumbers").await?;
        let rate = |number: &Value| number["MessagingLimits"]["RateLimits"]["SMS"].as_f64();
        let rates: Option<Vec<f64>> = numbers.iter().filter(is_of).map(rate).collect();
        let rate = rates.map_or(0.0, |rates| rates.iter().sum());
        let missing =
            "a rate of SMS for the first of TIDEGATE_ORIGINS (set TIDEGATE_QUOTA_PER_SECOND)";
        if rate > 0.0 { Ok(rate) } else { Err(incomplete(OPERATION, origin, missing)) }
    }
}

impl Account for SmsAccount {
    async fn account(&self) -> Result<AccountStatus, PortError> {
        let max_send_rate = match self.quota {
            Some(quota) => quota.as_per_second(),
            None => self.derived().await?,
        };
        let limits: Vec<Value> = self.list("DescribeSpendLimits", "SpendLimits").await?;
        let limit = limits.iter().find(|limit| limit["Name"] == LIMIT);
        Ok(AccountStatus {
            max_send_rate,
            max_24_hour_send: -1.0,
            sent_last_24_hours: 0.0,
            sending_enabled: true,
            spend_limit: limit.and_then(|limit| limit["EnforcedLimit"].as_u64()),
        })
    }

    /// Text messages have no tenants.
    async fn tenant(&self, _: &str) -> Result<Option<TenantStatus>, PortError> {
        Ok(None)
    }
}

/// True if `origin` is the ARN of the pool with this id.
fn is_arn_of(origin: &str, id: &Value) -> bool {
    id.as_str().is_some_and(|id| origin.ends_with(&format!(":pool/{id}")))
}
