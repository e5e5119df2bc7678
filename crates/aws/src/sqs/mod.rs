//! `Queues` on SQS.

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

use crate::wire::RequestKind;

/// What an attempt may take of [`QUEUE_CALL`], a long poll's wait on top: after a connection that died
/// unnoticed there is time for another.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// What a call and an attempt may take from an operator's own line: megabytes of mail at a megabit a second. Less than the
/// visibility timeout, for which what was received stays hidden.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(25);

/// The queues, on SQS.
///
/// A call ends within 2 s, an attempt within one, and is tried again after some 20 ms: what the SDK's
/// standard pause would leave lying is mail.
#[derive(Clone, Debug)]
pub struct SqsQueues {
    client: Client,
    /// What a call may take in all.
    call: Duration,
    /// What the answer to a receive may take beyond its wait.
    answer: Duration,
    calls: Arc<AtomicU64>,
}

impl SqsQueues {
    /// Queues reached with `client`, whose retries and time-outs are replaced.
    pub fn new(client: &Client) -> Self {
        Self::within(client, QUEUE_CALL, ATTEMPT_TIMEOUT)
    }

    /// As [`SqsQueues::new`], for whoever is not next to SQS: 25 s a call.
    pub fn patient(client: &Client) -> Self {
        Self::within(client, PATIENT_TIMEOUT, PATIENT_TIMEOUT)
    }

    /// Opens up to `connections` connections without sending anything; a failure shows at the first call.
    pub async fn warm(&self, connections: usize) {
        let call =
            self.client.list_queues().customize().interceptor(RequestKind::Warm(connections));
        // The wire answers every such request with an error.
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
        Self { client: Client::from_conf(config), call, answer: attempt, calls }
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
        send::send(&self.client, queue, messages, self.call).await
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

/// Counts what SQS bills: attempts, not operations.
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

/// Whole seconds, as SQS counts waits and delays.
fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
