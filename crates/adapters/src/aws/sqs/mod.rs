//! `Queues` and `Directory` on SQS.

mod delete;
mod depth;
mod directory;
mod entries;
mod feedback;
mod receive;
mod send;
mod visibility;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
pub use feedback::SqsFeedback;
use tidegate_core::config::QUEUE_CALL;
use tidegate_delivery::ports::{
    Directory, Entry, Outgoing, PortError, QueueDepth, QueueUrl, Queues, Received,
};

use crate::aws::waker::Waker;
use crate::aws::wire::RequestKind;

/// The time limit of one attempt; a long poll's wait is added to it. It is less than [`QUEUE_CALL`], so that
/// there is time for a second attempt if a connection had died unnoticed.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// The time limit of a call and of an attempt from an operator's own connection: enough for megabytes of
/// mail at 1 Mbit/s. It is below the visibility timeout (30 s), so that received messages are still
/// invisible.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(25);

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
        receive::receive(&self.client, queue, max, (wait, self.answer)).await
    }

    async fn send(&self, queue: &QueueUrl, messages: &[Outgoing]) -> Result<Vec<Entry>, PortError> {
        let sent = send::send(&self.client, queue, messages, self.call).await?;
        if let Some(waker) = &self.waker {
            waker.wake().await;
        }
        Ok(sent)
    }

    async fn delete(&self, queue: &QueueUrl, receipts: &[String]) -> Result<Vec<Entry>, PortError> {
        delete::delete(&self.client, queue, receipts).await
    }

    async fn set_visibility(
        &self,
        queue: &QueueUrl,
        receipts: &[String],
        after: Duration,
    ) -> Result<Vec<Entry>, PortError> {
        visibility::set_visibility(&self.client, queue, receipts, after).await
    }

    async fn depth(&self, queue: &QueueUrl) -> Result<QueueDepth, PortError> {
        depth::depth(&self.client, queue).await
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Directory for SqsQueues {
    async fn queues(&self, prefix: &str) -> Result<Vec<QueueUrl>, PortError> {
        directory::queues(&self.client, prefix).await
    }

    async fn tags(&self, queue: &QueueUrl) -> Result<BTreeMap<String, String>, PortError> {
        directory::tags(&self.client, queue).await
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

#[cfg(test)]
mod tests;
