//! Handlers of `SendMessage` and `SendMessageBatch`.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_delivery::ports::{EntryError, Fifo, Outgoing, QueueUrl};

use super::{Service, calls};
use crate::sandbox::sqs::digest;
use crate::sandbox::sqs::error::SqsError;
use crate::sandbox::sqs::wire::{
    AttributeIn, BatchAnswer, BatchRequest, SendAnswer, SendEntry, SingleRequest,
};

impl Service {
    pub(super) async fn send(
        &self,
        request: SingleRequest<SendEntry>,
    ) -> Result<SendAnswer, SqsError> {
        let queue = self.queue(&request.queue_url)?;
        let sent = self.put(&queue, vec![request.entry]).await?;
        calls::only(sent)
    }

    pub(super) async fn send_batch(
        &self,
        request: BatchRequest<SendEntry>,
    ) -> Result<BatchAnswer<SendAnswer>, SqsError> {
        let queue = self.queue(&request.queue_url)?;
        let ids = calls::ids(&request.entries)?;
        Ok(BatchAnswer::new(ids, self.put(&queue, request.entries).await?))
    }

    /// Puts on a queue what can be put there, and tells of each entry what became of it.
    async fn put(
        &self,
        queue: &QueueUrl,
        entries: Vec<SendEntry>,
    ) -> Result<Vec<Result<SendAnswer, EntryError>>, SqsError> {
        let mut good = Vec::with_capacity(entries.len());
        let entries: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                let message = self.outgoing(entry, queue.is_fifo())?;
                let attributes: BTreeMap<_, _> =
                    message.attributes.iter().map(|(name, value)| (*name, value)).collect();
                let digests = (digest::of_body(&message.body), digest::of_attributes(&attributes));
                good.push(message);
                Ok(digests)
            })
            .collect();
        let answers =
            if good.is_empty() { vec![] } else { self.queues.send_for_ids(queue, &good).await? };
        let mut answers = answers.into_iter();
        let answered = |entry: Result<_, EntryError>| {
            let (md5_of_body, md5_of_attributes) = entry?;
            let message_id = answers.next().unwrap_or_else(|| Err(unanswered()))?;
            Ok(SendAnswer { message_id, md5_of_body, md5_of_attributes })
        };
        Ok(entries.into_iter().map(answered).collect())
    }

    fn outgoing(&self, entry: SendEntry, fifo: bool) -> Result<Outgoing, EntryError> {
        let attributes = entry.message_attributes.into_iter();
        let attributes: Result<_, EntryError> =
            attributes.map(|(name, value)| self.attribute(&name, value)).collect();
        Ok(Outgoing {
            body: entry.message_body.into(),
            attributes: attributes?,
            delay: Duration::from_secs(entry.delay_seconds),
            fifo: ids(fifo, entry.message_group_id, entry.message_deduplication_id)?,
        })
    }

    fn attribute(
        &self,
        name: &str,
        value: AttributeIn,
    ) -> Result<(&'static str, String), EntryError> {
        let data_type = &value.data_type;
        if data_type != "String" {
            let said = format!("{name}: {data_type} is not `String`, the only type there is here");
            return Err(refused("AWS.SimpleQueueService.UnsupportedOperation", &said));
        }
        let name = self.attribute_names.keep(name).ok_or_else(|| {
            refused("OverLimit", "more attribute names than this endpoint remembers")
        })?;
        Ok((name, value.string_value.unwrap_or_default()))
    }
}

/// Group and deduplication id, as far as the queues are to judge them.
fn ids(
    fifo: bool,
    group: Option<String>,
    deduplication: Option<String>,
) -> Result<Option<Fifo>, EntryError> {
    match (fifo, group, deduplication) {
        // On a standard queue a group only divides a backlog fairly.
        (true, None, _) | (false, _, None) => Ok(None),
        (_, group, Some(deduplication)) => {
            Ok(Some(Fifo { group: group.unwrap_or_default(), deduplication }))
        }
        (true, Some(_), None) => Err(refused(
            "InvalidParameterValue",
            "The queue should either have ContentBasedDeduplication enabled or \
             MessageDeduplicationId provided explicitly",
        )),
    }
}

fn refused(code: &str, message: &str) -> EntryError {
    EntryError { code: code.to_owned(), message: message.to_owned() }
}

fn unanswered() -> EntryError {
    refused("InternalFailure", "the queue gave no answer")
}
