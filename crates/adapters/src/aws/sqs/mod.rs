//! `Queues`, `Directory` and `Feedback` on SQS.

mod receive;
mod send;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry,
    ChangeMessageVisibilityBatchResultEntry, DeleteMessageBatchRequestEntry,
    DeleteMessageBatchResultEntry, QueueAttributeName,
};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
use tidegate_core::config::QUEUE_CALL;
use tidegate_delivery::ports::{
    BATCH, Directory, Entry, EntryError, Feedback, FeedbackMessage, Outgoing, PortError,
    QueueDepth, QueueUrl, Queues, Received,
};

use crate::aws::error::{incomplete, port_error};
use crate::aws::waker::Waker;
use crate::aws::wire::RequestKind;

/// The time limit of one attempt; a long poll's wait is added to it. It is less than [`QUEUE_CALL`], so that
/// there is time for a second attempt if a connection had died unnoticed.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time limit of a call and of an attempt from an operator's own connection: enough for megabytes of
/// mail at 1 Mbit/s. It is below the visibility timeout (30 s), so that received messages are still
/// invisible.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(25);
/// Queues per page, SQS's maximum. SQS returns a token for the next page only if `MaxResults` is set.
const PAGE: i32 = 1_000;

const VISIBLE: QueueAttributeName = QueueAttributeName::ApproximateNumberOfMessages;
const IN_FLIGHT: QueueAttributeName = QueueAttributeName::ApproximateNumberOfMessagesNotVisible;
const DELAYED: QueueAttributeName = QueueAttributeName::ApproximateNumberOfMessagesDelayed;

/// The queues on SQS.
///
/// A call ends within 2 s and an attempt within 1 s. A retry follows after about 20 ms instead of the SDK's
/// standard pause, because a receive that failed may have left mail invisible.
#[derive(Clone, Debug)]
pub struct SqsQueues {
    client: Client,
    /// The time limit of a call with all its attempts.
    call: Duration,
    /// The time limit of a receive's answer, in addition to the wait of a long poll.
    answer: Duration,
    calls: Arc<AtomicU64>,
    /// Wakes the stack once something was sent.
    waker: Option<Arc<Waker>>,
}

impl SqsQueues {
    /// Uses `client`, whose retries and time limits are replaced.
    pub fn new(client: &Client) -> Self {
        Self::within(client, QUEUE_CALL, ATTEMPT_TIMEOUT)
    }

    /// The same as [`SqsQueues::new`] with 25 s per call, for a slow connection to SQS.
    pub fn patient(client: &Client) -> Self {
        Self::within(client, PATIENT_TIMEOUT, PATIENT_TIMEOUT)
    }

    /// The same queues; after a send, `waker` wakes the stack.
    pub(crate) fn waking(self, waker: Option<Arc<Waker>>) -> Self {
        Self { waker, ..self }
    }

    /// Opens up to `connections` connections without sending a request. A failure is reported by the first
    /// call that needs one.
    pub async fn warm(&self, connections: usize) {
        let call =
            self.client.list_queues().customize().interceptor(RequestKind::Warm(connections));
        // `Wire` ends every such request with an error, by design.
        let _ = call.send().await;
    }

    fn within(client: &Client, call: Duration, attempt: Duration) -> Self {
        let calls = Arc::new(AtomicU64::new(0));
        let timeouts = TimeoutConfig::builder();
        let timeouts = timeouts.operation_timeout(call).operation_attempt_timeout(attempt).build();
        let retries = RetryConfig::standard()
            .with_max_attempts(3)
            .with_initial_backoff(Duration::from_millis(20))
            .with_max_backoff(Duration::from_millis(100));
        let config = client.config().to_builder().interceptor(CountAttempts(Arc::clone(&calls)));
        let config = config.timeout_config(timeouts).retry_config(retries).build();
        let client = Client::from_conf(config);
        Self { client, call, answer: attempt, calls, waker: None }
    }
}

impl Queues for SqsQueues {
    async fn receive(
        &self,
        queue: &QueueUrl,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Received>, PortError> {
        receive::receive(&self.client, queue, max, wait, self.answer).await
    }

    async fn send(&self, queue: &QueueUrl, messages: &[Outgoing]) -> Result<Vec<Entry>, PortError> {
        let sent = send::send(&self.client, queue, messages, self.call).await?;
        if let Some(waker) = &self.waker {
            waker.wake().await;
        }
        Ok(sent)
    }

    async fn delete(&self, queue: &QueueUrl, receipts: &[String]) -> Result<Vec<Entry>, PortError> {
        let failed = |error| port_error("DeleteMessageBatch", queue.as_str(), error);
        let batch: Result<Vec<_>, _> = receipts
            .iter()
            .enumerate()
            .map(|(index, receipt)| {
                let entry = DeleteMessageBatchRequestEntry::builder();
                entry.id(index.to_string()).receipt_handle(receipt).build()
            })
            .collect();
        let batch = batch.map_err(|error| failed(error.into()))?;
        let call = self.client.delete_message_batch().queue_url(queue.as_str());
        let answer = call.set_entries(Some(batch)).send().await.map_err(failed)?;
        let done = answer.successful().iter().map(DeleteMessageBatchResultEntry::id);
        Ok(in_order(receipts.len(), done, answer.failed()))
    }

    async fn set_visibility(
        &self,
        queue: &QueueUrl,
        receipts: &[String],
        after: Duration,
    ) -> Result<Vec<Entry>, PortError> {
        let failed = |error| port_error("ChangeMessageVisibilityBatch", queue.as_str(), error);
        let batch: Result<Vec<_>, _> = receipts
            .iter()
            .enumerate()
            .map(|(index, receipt)| {
                let entry = ChangeMessageVisibilityBatchRequestEntry::builder();
                let entry = entry.id(index.to_string()).receipt_handle(receipt);
                entry.visibility_timeout(seconds(after)).build()
            })
            .collect();
        let batch = batch.map_err(|error| failed(error.into()))?;
        let call = self.client.change_message_visibility_batch().queue_url(queue.as_str());
        let answer = call.set_entries(Some(batch)).send().await.map_err(failed)?;
        let done = answer.successful().iter().map(ChangeMessageVisibilityBatchResultEntry::id);
        Ok(in_order(receipts.len(), done, answer.failed()))
    }

    async fn depth(&self, queue: &QueueUrl) -> Result<QueueDepth, PortError> {
        const OPERATION: &str = "GetQueueAttributes";
        let call = self.client.get_queue_attributes().queue_url(queue.as_str());
        let call = call.set_attribute_names(Some(vec![VISIBLE, IN_FLIGHT, DELAYED]));
        let answer = call.send().await;
        let answer = answer.map_err(|error| port_error(OPERATION, queue.as_str(), error))?;
        let number = |name: &QueueAttributeName| {
            let value = answer.attributes().and_then(|all| all.get(name)?.parse().ok());
            value.ok_or_else(|| incomplete(OPERATION, queue.as_str(), name.as_str()))
        };
        Ok(QueueDepth {
            visible: number(&VISIBLE)?,
            in_flight: number(&IN_FLIGHT)?,
            delayed: number(&DELAYED)?,
        })
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Directory for SqsQueues {
    async fn queues(&self, prefix: &str) -> Result<Vec<QueueUrl>, PortError> {
        let call = self.client.list_queues().queue_name_prefix(prefix).max_results(PAGE);
        let urls = call.into_paginator().items().send().try_collect().await;
        let urls = urls.map_err(|error| port_error("ListQueues", prefix, error))?;
        Ok(urls.into_iter().map(QueueUrl::new).collect())
    }

    async fn tags(&self, queue: &QueueUrl) -> Result<BTreeMap<String, String>, PortError> {
        let answer = self.client.list_queue_tags().queue_url(queue.as_str()).send().await;
        let answer = answer.map_err(|error| port_error("ListQueueTags", queue.as_str(), error))?;
        Ok(answer.tags.unwrap_or_default().into_iter().collect())
    }
}

/// The feedback queue on SQS; time limits and retries are those of [`SqsQueues`].
#[derive(Clone, Debug)]
pub struct SqsFeedback {
    queues: SqsQueues,
    queue: QueueUrl,
}

impl SqsFeedback {
    /// Uses the queue at `url` through `client`, whose retries and time limits are replaced.
    pub fn new(client: &Client, url: &str) -> Self {
        Self { queues: SqsQueues::new(client), queue: QueueUrl::new(url) }
    }
}

impl Feedback for SqsFeedback {
    async fn receive(&self, wait: Duration) -> Result<Vec<FeedbackMessage>, PortError> {
        let received = self.queues.receive(&self.queue, BATCH, wait).await?;
        let message = |Received { message_id, receipt, body, .. }| FeedbackMessage {
            message_id,
            receipt,
            body: body.to_string(),
        };
        Ok(received.into_iter().map(message).collect())
    }

    async fn delete(&self, receipts: &[String]) -> Result<Vec<Entry>, PortError> {
        self.queues.delete(&self.queue, receipts).await
    }
}

/// Counts attempts instead of operations, because SQS bills each attempt.
#[derive(Debug)]
struct CountAttempts(Arc<AtomicU64>);

#[dyn_dispatch_hint]
impl Intercept for CountAttempts {
    fn name(&self) -> &'static str {
        "CountAttempts"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Whole seconds, SQS's unit for waits and delays.
fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

/// The answers to a batch whose entries use their index as id: success for those in `done`, SQS's error for
/// those in `failed`. An entry that SQS mentions in neither counts as failed.
fn in_order<'a>(
    entries: usize,
    done: impl Iterator<Item = &'a str>,
    failed: &[BatchResultErrorEntry],
) -> Vec<Entry> {
    let unanswered = || EntryError {
        code: "Unanswered".to_owned(),
        message: "the answer does not name this entry".to_owned(),
    };
    let mut answer: Vec<Entry> = (0..entries).map(|_| Err(unanswered())).collect();
    let mut set = |id: &str, entry: Entry| {
        if let Some(slot) = id.parse().ok().and_then(|index: usize| answer.get_mut(index)) {
            *slot = entry;
        }
    };
    for id in done {
        set(id, Ok(()));
    }
    for refused in failed {
        let message = refused.message().unwrap_or_default().to_owned();
        set(refused.id(), Err(EntryError { code: refused.code().to_owned(), message }));
    }
    answer
}

#[cfg(test)]
mod tests;
