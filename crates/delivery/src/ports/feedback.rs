use std::future::Future;
use std::time::Duration;

use super::{Entry, PortError};

/// One message of the feedback queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackMessage {
    /// SQS's id of the message; it is the same if the message is delivered again.
    pub message_id: String,
    /// SQS's handle for the delete; valid until the visibility timeout.
    pub receipt: String,
    /// The message's body as received: a notice in JSON, or other text.
    pub body: String,
}

/// The queue of SES's notices about accepted mail: bounces and complaints, each at least once.
pub trait Feedback {
    /// Receives up to 10 messages and waits up to `wait` (whole seconds, at most 20) for the first one. A
    /// message that is not deleted is delivered again after the visibility timeout.
    ///
    /// # Errors
    /// [`PortError`] if SQS does not answer; messages may then be invisible until their visibility timeout.
    fn receive(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<FeedbackMessage>, PortError>>;

    /// Deletes 1 to 10 messages by their receipts; the answers are in the order of `receipts`.
    ///
    /// # Errors
    /// [`PortError`] for the whole batch; messages may have been deleted all the same.
    fn delete(&self, receipts: &[String]) -> impl Future<Output = Result<Vec<Entry>, PortError>>;
}
