//! `Feedback` on SQS: receives and deletes SES's notices.

use std::time::Duration;

use aws_sdk_sqs::Client;
use tidegate_delivery::ports::{
    BATCH, Entry, Feedback, FeedbackMessage, PortError, QueueUrl, Queues as _, Received,
};

use super::SqsQueues;

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
