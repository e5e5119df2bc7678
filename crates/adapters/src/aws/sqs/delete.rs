//! Deletes received messages by `DeleteMessageBatch`.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, DeleteMessageBatchResultEntry};
use tidegate_delivery::ports::{Entry, PortError, QueueUrl};

use super::entries;
use crate::aws::error::port_error;

const OPERATION: &str = "DeleteMessageBatch";

pub(super) async fn delete(
    client: &Client,
    queue: &QueueUrl,
    receipts: &[String],
) -> Result<Vec<Entry>, PortError> {
    let failed = |error| port_error(OPERATION, queue.as_str(), error);
    let batch: Result<Vec<_>, _> = receipts
        .iter()
        .enumerate()
        .map(|(index, receipt)| {
            let entry = DeleteMessageBatchRequestEntry::builder();
            entry.id(index.to_string()).receipt_handle(receipt).build()
        })
        .collect();
    let batch = batch.map_err(|error| failed(error.into()))?;
    let call = client.delete_message_batch().queue_url(queue.as_str()).set_entries(Some(batch));
    let answer = call.send().await.map_err(failed)?;
    let done = answer.successful().iter().map(DeleteMessageBatchResultEntry::id);
    Ok(entries::in_order(receipts.len(), done, answer.failed()))
}
