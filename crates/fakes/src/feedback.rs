use std::time::Duration;

use tidegate_delivery::ports::{
    BATCH, Entry, Feedback, FeedbackMessage, PortError, QueueUrl, Queues as _, Received,
};

use crate::faults::{FaultPlan, Faults, Operation};
use crate::queues::MemoryQueues;

/// The feedback queue in memory: a queue of a [`MemoryQueues`] on which tests put SES's reports.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::time::Duration;
/// use tidegate_core::Timestamp;
/// use tidegate_delivery::ports::{Feedback, QueueUrl};
/// use tidegate_fakes::{MemoryFeedback, MemoryQueues, QueueSettings, Universe};
/// let queues = MemoryQueues::new(Universe::starting_at(Timestamp::from_millis(1_000)), 1);
/// let url = QueueUrl::new("memory://feedback");
/// queues.create(&url, QueueSettings::default());
/// let feedback = MemoryFeedback::new(queues, url);
/// assert_eq!(feedback.receive(Duration::ZERO).await.unwrap(), []);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryFeedback {
    queues: MemoryQueues,
    queue: QueueUrl,
    faults: Faults,
}

impl MemoryFeedback {
    /// The queue at `url`, which `queues` must have.
    pub fn new(queues: MemoryQueues, url: QueueUrl) -> Self {
        Self { queues, queue: url, faults: Faults::default() }
    }

    /// A handle on this queue whose calls fail as `plan` says.
    pub fn with_faults(self, plan: &FaultPlan) -> Self {
        Self { faults: plan.into(), ..self }
    }
}

impl Feedback for MemoryFeedback {
    async fn receive(&self, wait: Duration) -> Result<Vec<FeedbackMessage>, PortError> {
        let receive = async {
            self.queues.receive(&self.queue, BATCH, wait).await.map_err(|error| error.kind)
        };
        let received = self.faults.call(Operation::ReceiveFeedback, &self.queue, receive).await?;
        let message = |Received { message_id, receipt, body, .. }| FeedbackMessage {
            message_id,
            receipt,
            body: body.to_string(),
        };
        Ok(received.into_iter().map(message).collect())
    }

    async fn delete(&self, receipts: &[String]) -> Result<Vec<Entry>, PortError> {
        let delete =
            async { self.queues.delete(&self.queue, receipts).await.map_err(|error| error.kind) };
        self.faults.call(Operation::DeleteFeedback, &self.queue, delete).await
    }
}
