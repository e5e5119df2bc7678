//! `ReceiveMessage`.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use tidegate_delivery::ports::{PortError, QueueUrl, Received};

use super::seconds;
use crate::error::port_error;

const OPERATION: &str = "ReceiveMessage";
/// What the whole call may take beyond its first attempt: time for a second attempt after one that failed at once.
const RETRY_TIME: Duration = Duration::from_millis(500);

pub(super) async fn receive(
    client: &Client,
    queue: &QueueUrl,
    max: usize,
    (wait, answer): (Duration, Duration),
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
        // A retry with the same id gets the same messages, where an answer was lost.
        .set_receive_request_attempt_id(
            queue.is_fifo().then(|| format!("{:032x}", rand::random::<u128>())),
        );
    let overrides = aws_sdk_sqs::config::Config::builder().timeout_config(timeouts);
    let answer = call.customize().config_override(overrides).send().await;
    let answer = answer.map_err(|error| port_error(OPERATION, queue.as_str(), error))?;
    Ok(answer.messages.unwrap_or_default().into_iter().filter_map(received).collect())
}

/// `None` for a message without id or receipt, which SQS does not give.
fn received(message: Message) -> Option<Received> {
    let system = message.attributes.unwrap_or_default();
    let number = |name: &MessageSystemAttributeName| system.get(name)?.parse::<u64>().ok();
    let receive_count = number(&MessageSystemAttributeName::ApproximateReceiveCount);
    let attributes = message.message_attributes.unwrap_or_default().into_iter();
    Some(Received {
        message_id: message.message_id?,
        receipt: message.receipt_handle?,
        body: message.body.unwrap_or_default().into(),
        attributes: attributes.filter_map(|(name, a)| Some((name, a.string_value?))).collect(),
        sent_at_millis: number(&MessageSystemAttributeName::SentTimestamp).unwrap_or_default(),
        receive_count: u32::try_from(receive_count.unwrap_or(1)).unwrap_or(u32::MAX),
    })
}
