//! `SendMessageBatch`.

use aws_sdk_sqs::Client;
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
) -> Result<Vec<Entry>, PortError> {
    let failed = |error| port_error(OPERATION, queue.as_str(), error);
    let batch: Result<Vec<_>, _> = messages.iter().enumerate().map(entry).collect();
    let batch = batch.map_err(|error| failed(error.into()))?;
    let call = client.send_message_batch().queue_url(queue.as_str()).set_entries(Some(batch));
    let answer = call.send().await.map_err(failed)?;
    let done = answer.successful().iter().map(SendMessageBatchResultEntry::id);
    Ok(entries::in_order(messages.len(), done, answer.failed()))
}

fn entry((index, message): (usize, &Outgoing)) -> Result<SendMessageBatchRequestEntry, BuildError> {
    let mut entry =
        SendMessageBatchRequestEntry::builder().id(index.to_string()).message_body(&message.body);
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
