//! Changes the visibility of received messages by `ChangeMessageVisibilityBatch`.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, ChangeMessageVisibilityBatchResultEntry,
};
use tidegate_delivery::ports::{Entry, PortError, QueueUrl};

use super::{entries, seconds};
use crate::aws::error::port_error;

const OPERATION: &str = "ChangeMessageVisibilityBatch";

pub(super) async fn set_visibility(
    client: &Client,
    queue: &QueueUrl,
    receipts: &[String],
    after: Duration,
) -> Result<Vec<Entry>, PortError> {
    let failed = |error| port_error(OPERATION, queue.as_str(), error);
    let batch: Result<Vec<_>, _> = receipts
        .iter()
        .enumerate()
        .map(|(index, receipt)| {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(index.to_string());
            entry.receipt_handle(receipt).visibility_timeout(seconds(after)).build()
        })
        .collect();
    let batch = batch.map_err(|error| failed(error.into()))?;
    let call = client.change_message_visibility_batch().queue_url(queue.as_str());
    let answer = call.set_entries(Some(batch)).send().await.map_err(failed)?;
    let done = answer.successful().iter().map(ChangeMessageVisibilityBatchResultEntry::id);
    Ok(entries::in_order(receipts.len(), done, answer.failed()))
}
