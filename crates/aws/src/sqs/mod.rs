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
use tidegate_delivery::ports::{
    Depth, Directory, Entry, Outgoing, PortError, QueueUrl, Queues, Received,
};

/// What a call may take in all, its retries included; a long poll's wait comes on top.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// The same from an operator's own line: megabytes of mail at a megabit a second. Less than the
/// visibility timeout, for which what was received stays hidden.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(25);

/// The queues, on SQS.
///
/// Receives have a time-out of their wait and a second, and are tried again after some 20 ms: what
/// the SDK's standard pause would leave lying is mail. All other calls have the SDK's standard
/// retries, within 3 s.
#[derive(Clone, Debug)]
pub struct SqsQueues {
    client: Client,
    receiver: Client,
    /// What the answer to a receive may take beyond its wait.
    answer: Duration,
    calls: Arc<AtomicU64>,
}

impl SqsQueues {
    /// Queues reached with `client`, whose retries and time-outs are replaced.
    #[must_use]
    pub fn new(client: &Client) -> Self {
        Self::within(client, CALL_TIMEOUT, receive::ANSWER_TIMEOUT)
    }

    /// As [`SqsQueues::new`], for whoever is not next to SQS: 25 s a call.
    #[must_use]
    pub fn patient(client: &Client) -> Self {
        Self::within(client, PATIENT_TIMEOUT, PATIENT_TIMEOUT)
    }

    fn within(client: &Client, call: Duration, answer: Duration) -> Self {
        let calls = Arc::new(AtomicU64::new(0));
        let base = client.config().to_builder().interceptor(CountAttempts(Arc::clone(&calls)));
        let timeouts = TimeoutConfig::builder().operation_timeout(call).build();
        let standard =
            base.clone().retry_config(RetryConfig::standard()).timeout_config(timeouts).build();
        let receiving = base.retry_config(receive::retries()).build();
        let (client, receiver) = (Client::from_conf(standard), Client::from_conf(receiving));
        Self { client, receiver, answer, calls }
    }
}

impl Queues for SqsQueues {
    async fn receive(
        &self,
        queue: &QueueUrl,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Received>, PortError> {
        receive::receive(&self.receiver, queue, max, (wait, self.answer)).await
    }

    async fn send(&self, queue: &QueueUrl, messages: &[Outgoing]) -> Result<Vec<Entry>, PortError> {
        send::send(&self.client, queue, messages).await
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

    async fn depth(&self, queue: &QueueUrl) -> Result<Depth, PortError> {
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
