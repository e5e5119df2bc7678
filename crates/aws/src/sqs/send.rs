//! `SendMessageBatch`.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::types::{
    MessageAttributeValue, SendMessageBatchRequestEntry, SendMessageBatchResultEntry,
};
use tidegate_delivery::ports::{Entry, Outgoing, PortError, QueueUrl};

use super::{entries, seconds};
use crate::error::port_error;

const OPERATION: &str = "SendMessageBatch";

pub(super) async fn send(
    client: &Client,
    queue: &QueueUrl,
    messages: &[Outgoing],
    whole: Duration,
) -> Result<Vec<Entry>, PortError> {
    let failed = |error| port_error(OPERATION, queue.as_str(), error);
    let batch: Result<Vec<_>, _> = messages.iter().enumerate().map(entry).collect();
    let batch = batch.map_err(|error| failed(error.into()))?;
    let call = client.send_message_batch().queue_url(queue.as_str()).set_entries(Some(batch));
    // A FIFO queue knows a message that is sent twice. To any other a slow attempt is not made again: it may
    // have arrived.
    let mut overrides = aws_sdk_sqs::config::Config::builder();
    if !queue.is_fifo() {
        let timeouts = TimeoutConfig::builder();
        let timeouts = timeouts.operation_attempt_timeout(whole).operation_timeout(whole);
        overrides = overrides.timeout_config(timeouts.build());
    }
    let call = call.customize().config_override(overrides);
    let answer = call.send().await.map_err(failed)?;
    let done = answer.successful().iter().map(SendMessageBatchResultEntry::id);
    Ok(entries::in_order(messages.len(), done, answer.failed()))
}

fn entry((index, message): (usize, &Outgoing)) -> Result<SendMessageBatchRequestEntry, BuildError> {
    let mut entry =
        SendMessageBatchRequestEntry::builder().id(index.to_string()).message_body(&*message.body);
    // A FIFO queue refuses the member, whatever its value.
    if !message.delay.is_zero() {
        entry = entry.delay_seconds(seconds(message.delay));
    }
    if let Some(fifo) = &message.fifo {
        entry = entry.message_group_id(&fifo.group).message_deduplication_id(&fifo.deduplication);
    }
    for (name, value) in &message.attributes {
        let value = MessageAttributeValue::builder().data_type("String").string_value(value);
        entry = entry.message_attributes(*name, value.build()?);
    }
    entry.build()
}
