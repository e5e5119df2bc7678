//! The quota of text messages by `DescribePhoneNumbers`, and the month's spend limit by `DescribeSpendLimits`.

use aws_smithy_types::error::ErrorMetadata;
use serde_json::{Value, json};
use tidegate_delivery::ports::{AccountStatus, PortError};

use super::call::{Manner, SmsClient};
use super::{ATTEMPT, OPERATION, SmsAccount};
use crate::aws::error::{incomplete, port_error};

const LIMIT: &str = "TEXT_MESSAGE_MONTHLY_SPEND_LIMIT";

pub(super) async fn account(account: &SmsAccount) -> Result<AccountStatus, PortError> {
    let max_send_rate = match account.quota {
        Some(quota) => quota.as_per_second(),
        None => derived(account).await?,
    };
    let limits = list(&account.client, "DescribeSpendLimits", "SpendLimits").await?;
    let limit = limits.iter().find(|limit| limit["Name"] == LIMIT);
    Ok(AccountStatus {
        max_send_rate,
        max_24_hour_send: -1.0,
        sent_last_24_hours: 0.0,
        sending_enabled: true,
        spend_limit: limit.and_then(|limit| limit["EnforcedLimit"].as_u64()),
    })
}

/// The sum of the rates of all numbers that are the origin or belong to it, if it is a pool.
async fn derived(account: &SmsAccount) -> Result<f64, PortError> {
    const OPERATION: &str = "DescribePhoneNumbers";
    let origin = account.origin.as_deref().unwrap_or("*");
    let is_of = |number: &&Value| {
        ["PhoneNumber", "PhoneNumberId", "PhoneNumberArn", "PoolId"]
            .iter()
            .any(|name| number[*name] == origin || is_arn_of(origin, &number[*name]))
    };
    let numbers = list(&account.client, OPERATION, "PhoneNumbers").await?;
    let rate = |number: &Value| number["MessagingLimits"]["RateLimits"]["SMS"].as_f64();
    let rates: Option<Vec<f64>> = numbers.iter().filter(is_of).map(rate).collect();
    let rate = rates.map_or(0.0, |rates| rates.iter().sum());
    let missing = "a rate of SMS for the first of TIDEGATE_ORIGINS (set TIDEGATE_QUOTA_PER_SECOND)";
    if rate > 0.0 { Ok(rate) } else { Err(incomplete(OPERATION, origin, missing)) }
}

/// True if `origin` is the ARN of the pool with this id.
fn is_arn_of(origin: &str, id: &Value) -> bool {
    id.as_str().is_some_and(|id| origin.ends_with(&format!(":pool/{id}")))
}

/// All pages of a list.
pub(super) async fn list(
    client: &SmsClient,
    operation: &'static str,
    member: &str,
) -> Result<Vec<Value>, PortError> {
    let (mut found, mut token) = (Vec::new(), Value::Null);
    loop {
        let request = if token.is_null() { json!({}) } else { json!({ "NextToken": token }) };
        let body = request.to_string().into();
        let answer = client.call(operation, body, Manner::Retried(ATTEMPT, OPERATION)).await;
        let mut answer =
            answer.map_err(|error| port_error::<ErrorMetadata>(operation, "the account", error))?;
        match answer[member].take() {
            Value::Array(page) => found.extend(page),
            _ => return Err(incomplete(operation, "the account", member)),
        }
        token = answer["NextToken"].take();
        if token.is_null() {
            return Ok(found);
        }
    }
}
