//! `Queues` and `Directory` on SQS.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_sqs::error::{BuildError, SdkError};
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry,
    ChangeMessageVisibilityBatchResultEntry, DeleteMessageBatchRequestEntry,
    DeleteMessageBatchResultEntry, MessageSystemAttributeName, QueueAttributeName,
    SendMessageBatchResultEntry,
};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
use serde::{Deserialize, Serialize};
use tidegate_core::config::QUEUE_CALL;
use tidegate_core::trace::AWS_TRACE_HEADER;
use tidegate_delivery::ports::{
    Directory, Entropy as _, Entry, EntryError, Outgoing, PortError, QueueDepth, QueueUrl, Queues,
    Received,
};

use super::error::{incomplete, port_error, time_limits};
use super::json::{self, Reader};
use super::lambda::Waker;
use super::system::SystemEntropy;
use super::wire::RequestKind;

/// The time limit of one attempt; a long poll's wait is added to it. It is less than [`QUEUE_CALL`], so that
/// there is time for a second attempt if a connection had died unnoticed.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time limit of a call and of an attempt from an operator's own connection: enough for megabytes of
/// mail at 1 Mbit/s. It is below the visibility timeout (30 s), so that received messages are still
/// invisible.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(25);
/// The time of a receive beyond its first attempt: enough for a second attempt if the first failed at once.
const RETRY_TIME: Duration = Duration::from_millis(500);
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
        let retries = RetryConfig::standard()
            .with_max_attempts(3)
            .with_initial_backoff(Duration::from_millis(20))
            .with_max_backoff(Duration::from_millis(100));
        let config = client.config().to_builder().interceptor(CountAttempts(Arc::clone(&calls)));
        let config =
            config.timeout_config(time_limits(attempt, call)).retry_config(retries).build();
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
        let attempt = wait + self.answer;
        let timeouts = time_limits(attempt, attempt + RETRY_TIME);
        let call = self
            .client
            .receive_message()
            .queue_url(queue.as_str())
            .max_number_of_messages(i32::try_from(max).unwrap_or(10))
            .wait_time_seconds(seconds(wait))
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .message_system_attribute_names(MessageSystemAttributeName::AwsTraceHeader)
            .message_attribute_names("All")
            // If the answer to a receive was lost, a retry with the same attempt id returns the same messages
            // (FIFO queues only).
            .set_receive_request_attempt_id(queue.is_fifo().then(|| SystemEntropy.token()));
        let overrides = aws_sdk_sqs::config::Config::builder().timeout_config(timeouts);
        let reader: Reader<ReceiveOutput> = Reader::default();
        let call = call.customize().interceptor(reader.clone()).config_override(overrides);
        let answered = call.send().await;
        answered.map_err(|error| port_error("ReceiveMessage", queue.as_str(), error))?;
        let messages = reader.take().and_then(|answer| answer.messages).unwrap_or_default();
        Ok(messages.into_iter().filter_map(Delivery::received).collect())
    }

    async fn send(&self, queue: &QueueUrl, messages: &[Outgoing]) -> Result<Vec<Entry>, PortError> {
        let failed = |error| port_error("SendMessageBatch", queue.as_str(), error);
        let entries = messages.iter().enumerate();
        let entries = entries.map(|(index, message)| BatchEntry::of(index, message)).collect();
        let batch = SendBatchBody { queue_url: queue.as_str(), entries };
        let body = json::written(&batch);
        let body = body.map_err(|error| failed(SdkError::construction_failure(error)))?;
        // A FIFO queue recognises a message that is sent twice. To other queues an attempt that timed out is not
        // repeated, because it may have arrived.
        let mut overrides = aws_sdk_sqs::config::Config::builder();
        if !queue.is_fifo() {
            overrides = overrides.timeout_config(time_limits(self.call, self.call));
        }
        let call = self.client.send_message_batch().queue_url(queue.as_str()).customize();
        let call = call.mutate_request(move |request| json::put(&body, request));
        let answer = call.config_override(overrides).send().await.map_err(failed)?;
        if let Some(waker) = &self.waker {
            waker.wake().await;
        }
        let done = answer.successful().iter().map(SendMessageBatchResultEntry::id);
        Ok(in_order(messages.len(), done, answer.failed()))
    }

    async fn delete(&self, queue: &QueueUrl, receipts: &[String]) -> Result<Vec<Entry>, PortError> {
        let failed = |error| port_error("DeleteMessageBatch", queue.as_str(), error);
        let entry = |(index, receipt): (usize, &String)| {
            let entry = DeleteMessageBatchRequestEntry::builder();
            entry.id(index.to_string()).receipt_handle(receipt).build()
        };
        let batch: Result<_, BuildError> = receipts.iter().enumerate().map(entry).collect();
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
        let entry = |(index, receipt): (usize, &String)| {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder();
            let entry = entry.id(index.to_string()).receipt_handle(receipt);
            entry.visibility_timeout(seconds(after)).build()
        };
        let batch: Result<_, BuildError> = receipts.iter().enumerate().map(entry).collect();
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
        let (visible, in_flight) = (number(&VISIBLE)?, number(&IN_FLIGHT)?);
        Ok(QueueDepth { visible, in_flight, delayed: number(&DELAYED)? })
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

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReceiveOutput {
    messages: Option<Vec<Delivery>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Delivery {
    message_id: Option<String>,
    receipt_handle: Option<String>,
    body: Option<String>,
    attributes: Option<System>,
    message_attributes: Option<BTreeMap<String, ReceivedAttribute>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct System {
    sent_timestamp: Option<String>,
    approximate_receive_count: Option<String>,
    #[serde(rename = "AWSTraceHeader")]
    trace: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
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
        let attributes = attributes.filter_map(|(name, a)| Some((name, a.string_value?)));
        let trace = system.trace.map(|trace| (AWS_TRACE_HEADER.to_owned(), trace));
        Some(Received {
            message_id: self.message_id?,
            receipt: self.receipt_handle?,
            body: self.body.unwrap_or_default().into(),
            attributes: attributes.chain(trace).collect(),
            sent_at_millis: number(system.sent_timestamp).unwrap_or_default(),
            receive_count: u32::try_from(receive_count.unwrap_or(1)).unwrap_or(u32::MAX),
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct SendBatchBody<'a> {
    queue_url: &'a str,
    entries: Vec<BatchEntry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct BatchEntry<'a> {
    id: String,
    message_body: &'a str,
    // A FIFO queue refuses this member, whatever its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_group_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_deduplication_id: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    message_attributes: BTreeMap<&'static str, AttributeBody<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AttributeBody<'a> {
    data_type: &'static str,
    string_value: &'a str,
}

impl<'a> BatchEntry<'a> {
    fn of(index: usize, message: &'a Outgoing) -> Self {
        let fifo = message.fifo.as_ref();
        let attribute = |value| AttributeBody { data_type: "String", string_value: value };
        let attributes = message.attributes.iter();
        Self {
            id: index.to_string(),
            message_body: &message.body,
            delay_seconds: (!message.delay.is_zero()).then(|| seconds(message.delay)),
            message_group_id: fifo.map(|fifo| fifo.group.as_str()),
            message_deduplication_id: fifo.map(|fifo| fifo.deduplication.as_str()),
            message_attributes: attributes.map(|(name, value)| (*name, attribute(value))).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
