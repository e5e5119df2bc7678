//! Receives messages by `ReceiveMessage`.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::types::MessageSystemAttributeName;
use serde::Deserialize;
use tidegate_delivery::ports::{PortError, QueueUrl, Received};

use super::seconds;
use crate::aws::error::port_error;
use crate::aws::json::Reader;

const OPERATION: &str = "ReceiveMessage";
/// The time of a whole call beyond its first attempt: enough for a second attempt if the first failed at
/// once.
const RETRY_TIME: Duration = Duration::from_millis(500);

pub(super) async fn receive(
    client: &Client,
    queue: &QueueUrl,
    max: usize,
    wait: Duration,
    answer: Duration,
) -> Result<Vec<Received>, PortError> {
    let attempt = wait + answer;
    let timeouts = TimeoutConfig::builder()
        .operation_attempt_timeout(attempt)
        .operation_timeout(attempt + RETRY_TIME)
        .build();
    let call = client
        .receive_message()
        .queue_url(queue.as_str())
        .max_number_of_messages(i32::try_from(max).unwrap_or(10))
        .wait_time_seconds(seconds(wait))
        .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
        .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
        .message_attribute_names("All")
        // If the answer to a receive was lost, a retry with the same attempt id returns the same messages
        // (FIFO queues only).
        .set_receive_request_attempt_id(
            queue.is_fifo().then(|| format!("{:032x}", rand::random::<u128>())),
        );
    let overrides = aws_sdk_sqs::config::Config::builder().timeout_config(timeouts);
    let reader: Reader<ReceiveOutput> = Reader::new();
    let call = call.customize().interceptor(reader.clone()).config_override(overrides);
    call.send().await.map_err(|error| port_error(OPERATION, queue.as_str(), error))?;
    let messages = reader.take().and_then(|answer| answer.messages).unwrap_or_default();
    Ok(messages.into_iter().filter_map(Delivery::received).collect())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReceiveOutput {
    messages: Option<Vec<Delivery>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Delivery {
    message_id: Option<String>,
    receipt_handle: Option<String>,
    body: Option<String>,
    attributes: Option<System>,
    message_attributes: Option<BTreeMap<String, ReceivedAttribute>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct System {
    sent_timestamp: Option<String>,
    approximate_receive_count: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReceivedAttribute {
    string_value: Option<String>,
}

impl Delivery {
    /// `None` if the message has no id or receipt, which SQS always gives.
    fn received(self) -> Option<Received> {
        let system = self.attributes.unwrap_or_default();
        let number = |text: Option<String>| text?.parse::<u64>().ok();
        let receive_count = number(system.approximate_receive_count);
        let attributes = self.message_attributes.unwrap_or_default().into_iter();
        Some(Received {
            message_id: self.message_id?,
            receipt: self.receipt_handle?,
            body: self.body.unwrap_or_default().into(),
            attributes: attributes.filter_map(|(name, a)| Some((name, a.string_value?))).collect(),
            sent_at_millis: number(system.sent_timestamp).unwrap_or_default(),
            receive_count: u32::try_from(receive_count.unwrap_or(1)).unwrap_or(u32::MAX),
        })
    }
}
