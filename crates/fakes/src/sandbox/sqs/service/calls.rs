//! `ReceiveMessage`, and what is done with a receipt.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tidegate_delivery::ports::{BATCH, EntryError, QueueUrl, Queues as _, Received};

use super::Service;
use crate::sandbox::sqs::digest;
use crate::sandbox::sqs::error::SqsError;
use crate::sandbox::sqs::wire::{
    self, AttributeOut, BatchAnswer, BatchRequest, DeleteEntry, EmptyAnswer, EntryWithId,
    MessageAnswer, ReceiveRequest, SingleRequest, VisibilityEntry,
};

impl Service {
    pub(super) async fn receive(
        &self,
        request: ReceiveRequest,
    ) -> Result<wire::ReceiveAnswer, SqsError> {
        let queue = self.queue(&request.queue_url)?;
        let max = request.max_number_of_messages.unwrap_or(1);
        let wait = Duration::from_secs(request.wait_time_seconds);
        let received = self.queues.receive(&queue, max, wait).await?;
        if let Some(seconds) = request.visibility_timeout.filter(|_| !received.is_empty()) {
            let receipts: Vec<_> = received.iter().map(|m| m.receipt.clone()).collect();
            let after = Duration::from_secs(seconds);
            for entry in self.queues.set_visibility(&queue, &receipts, after).await? {
                entry?;
            }
        }
        let messages = received.into_iter().map(|received| message(&request, received)).collect();
        Ok(wire::ReceiveAnswer { messages })
    }

    pub(super) async fn delete(
        &self,
        request: SingleRequest<DeleteEntry>,
    ) -> Result<EmptyAnswer, SqsError> {
        let queue = self.queue(&request.queue_url)?;
        only(self.delete_all(&queue, vec![request.entry]).await?)
    }

    pub(super) async fn delete_batch(
        &self,
        request: BatchRequest<DeleteEntry>,
    ) -> Result<BatchAnswer<EmptyAnswer>, SqsError> {
        let queue = self.queue(&request.queue_url)?;
        let ids = ids(&request.entries)?;
        Ok(BatchAnswer::new(ids, self.delete_all(&queue, request.entries).await?))
    }

    async fn delete_all(
        &self,
        queue: &QueueUrl,
        entries: Vec<DeleteEntry>,
    ) -> Result<Vec<Result<EmptyAnswer, EntryError>>, SqsError> {
        let receipts: Vec<_> = entries.into_iter().map(|entry| entry.receipt_handle).collect();
        let answers = self.queues.delete(queue, &receipts).await?;
        Ok(answers.into_iter().map(|entry| entry.map(|()| EmptyAnswer {})).collect())
    }

    pub(super) async fn set_visibility(
        &self,
        request: SingleRequest<VisibilityEntry>,
    ) -> Result<EmptyAnswer, SqsError> {
        let queue = self.queue(&request.queue_url)?;
        only(self.change(&queue, vec![request.entry]).await?)
    }

    pub(super) async fn set_visibility_batch(
        &self,
        request: BatchRequest<VisibilityEntry>,
    ) -> Result<BatchAnswer<EmptyAnswer>, SqsError> {
        let queue = self.queue(&request.queue_url)?;
        let ids = ids(&request.entries)?;
        Ok(BatchAnswer::new(ids, self.change(&queue, request.entries).await?))
    }

    /// One by one: on the wire each entry has a time of its own.
    async fn change(
        &self,
        queue: &QueueUrl,
        entries: Vec<VisibilityEntry>,
    ) -> Result<Vec<Result<EmptyAnswer, EntryError>>, SqsError> {
        let mut answers = Vec::with_capacity(entries.len());
        for entry in entries {
            let after = Duration::from_secs(entry.visibility_timeout);
            let changed = self.queues.set_visibility(queue, &[entry.receipt_handle], after).await?;
            answers.extend(changed.into_iter().map(|entry| entry.map(|()| EmptyAnswer {})));
        }
        Ok(answers)
    }
}

/// The answer to the only entry of a call that is no batch.
pub(super) fn only<T>(mut answers: Vec<Result<T, EntryError>>) -> Result<T, SqsError> {
    let answer = answers.pop();
    let nothing = || SqsError::new("InternalFailure", "the queue gave no answer");
    answer.ok_or_else(nothing)?.map_err(SqsError::from)
}

/// The ids of a batch's entries: 1 to 10, all different.
pub(super) fn ids(entries: &[impl EntryWithId]) -> Result<Vec<String>, SqsError> {
    let refused = |code: &str, said: String| {
        Err(SqsError::new(&format!("AWS.SimpleQueueService.{code}"), said))
    };
    match entries.len() {
        0 => {
            let said = "There should be at least one entry in the request.";
            return refused("EmptyBatchRequest", said.to_owned());
        }
        1..=BATCH => {}
        more => {
            let said =
                format!("Maximum number of entries per request are 10. You have sent {more}.");
            return refused("TooManyEntriesInBatchRequest", said);
        }
    }
    let mut seen = HashSet::new();
    if let Some(twice) = entries.iter().find(|entry| !seen.insert(entry.id())) {
        return refused("BatchEntryIdsNotDistinct", format!("Id {} repeated.", twice.id()));
    }
    Ok(entries.iter().map(|entry| entry.id().to_owned()).collect())
}

fn message(request: &ReceiveRequest, received: Received) -> MessageAnswer {
    let system = |name: &str| {
        let mut asked =
            request.message_system_attribute_names.iter().chain(&request.attribute_names);
        asked.any(|asked| asked == name || asked == "All")
    };
    let mut attributes = BTreeMap::from([
        ("SentTimestamp", received.sent_at_millis.to_string()),
        ("ApproximateReceiveCount", received.receive_count.to_string()),
    ]);
    attributes.retain(|name, _| system(name));
    let mut own = received.attributes;
    own.retain(|name, _| request.message_attribute_names.iter().any(|asked| selects(asked, name)));
    let md5_of_attributes = digest::of_attributes(&own);
    let out = |string_value| AttributeOut { data_type: "String", string_value };
    MessageAnswer {
        message_id: received.message_id,
        receipt_handle: received.receipt,
        md5_of_body: digest::of_body(&received.body),
        body: received.body.to_string(),
        attributes,
        md5_of_attributes,
        message_attributes: own.into_iter().map(|(name, value)| (name, out(value))).collect(),
    }
}

/// Whether a request's pattern selects an attribute: by name, by prefix (`x.*`), or `All`.
fn selects(asked: &str, name: &str) -> bool {
    asked == name
        || asked == "All"
        || asked.strip_suffix(".*").is_some_and(|start| name.starts_with(start))
}
