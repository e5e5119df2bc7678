//! Text messages on AWS End User Messaging (`sms-voice`): the body of a `SendTextMessage` request, and `Account`, with the
//! quota by `DescribePhoneNumbers` and the month's spend limit by `DescribeSpendLimits`. The protocol is
//! [AWS JSON 1.0](https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html).

use std::collections::BTreeMap;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_smithy_types::error::ErrorMetadata;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_core::control::TenantStatus;
use tidegate_core::email::ses_tag_value;
use tidegate_core::rate::Rate;
use tidegate_core::reputation::LIMIT_TAG;
use tidegate_core::text_message::{MessageType, TextMessage};
use tidegate_core::trace::TRACE_TAG;
use tidegate_delivery::ports::{Account, AccountStatus, Mail, PortError};

use super::error::{incomplete, port_error};
use super::json_client::{JsonClient, JsonService, Manner};

/// The time limits of a call with its retries and of one attempt, as of SES's account.
const OPERATION: Duration = Duration::from_secs(2);
const ATTEMPT: Duration = Duration::from_secs(1);
const LIMIT: &str = "TEXT_MESSAGE_MONTHLY_SPEND_LIMIT";

/// The quota of text messages and the month's spend limit.
#[derive(Clone, Debug)]
pub struct SmsAccount {
    client: JsonClient,
    quota: Option<Rate>,
    origin: Option<String>,
}

impl SmsAccount {
    /// The account of `config`'s credentials. Its rate is `quota` in parts per second; without one, that of the phone
    /// number or pool `origin`.
    pub fn new(config: &SdkConfig, quota: Option<Rate>, origin: Option<&str>) -> Self {
        let client = JsonClient::new(&SMS, config);
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

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::aws) struct Request<'a> {
    destination_phone_number: &'a str,
    message_body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    origination_identity: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration_set_name: Option<&'a str>,
    /// Custom data, which the events of the message contain: Tidegate's tags and the producer's.
    context: BTreeMap<&'a str, String>,
}

/// The request for the text `text`; `configuration_set` is used if it names none.
pub(in crate::aws) fn request<'a>(
    mail: &Mail<'a>,
    text: &'a TextMessage,
    configuration_set: Option<&'a str>,
) -> Request<'a> {
    let own = [("tidegate_campaign", mail.campaign), ("tidegate_id", mail.id)];
    let own = own.into_iter().chain(mail.limits.map(|limits| (LIMIT_TAG, limits)));
    let own = own.chain(mail.trace.map(|trace| (TRACE_TAG, trace)));
    let own = own.map(|(name, value)| (name, ses_tag_value(value).into_owned()));
    let producers = text.tags.iter().map(|(name, value)| (name.as_str(), value.clone()));
    Request {
        destination_phone_number: &text.to,
        message_body: &text.text,
        origination_identity: text.origination.as_deref(),
        message_type: text.message_type.map(MessageType::as_str).map(str::to_uppercase),
        configuration_set_name: mail.configuration_set().or(configuration_set),
        context: own.chain(producers).collect(),
    }
}

pub(in crate::aws) const SMS: JsonService = JsonService {
    target: "PinpointSMSVoiceV2",
    name: "sms-voice",
    id: "Pinpoint SMS Voice V2",
    content_type: "application/x-amz-json-1.0",
};

#[cfg(test)]
mod tests;
