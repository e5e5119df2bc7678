use std::future::Future;
use std::time::Duration;

use super::{Entry, PortError};

/// A message of the feedback queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackMessage {
    /// SQS's id of it: the same where it comes again.
    pub message_id: String,
    /// What deletes it; good until the visibility timeout.
    pub receipt: String,
    /// The body, untouched.
    pub body: String,
}

/// What SES reports of mails after it took them: its bounces and complaints, at least once each.
pub trait Feedback {
    /// Receives up to ten messages; waits up to `wait` (whole seconds, at most 20) for the first.
    /// What is not deleted comes again after the visibility timeout.
    ///
    /// # Errors
    /// [`PortError`]; then messages may have become invisible until their timeout.
    fn receive(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<FeedbackMessage>, PortError>>;

    /// Deletes 1 to 10 messages by their receipts; answers stand in the order of the entries.
    ///
    /// # Errors
    /// [`PortError`] for the whole batch, which may have been deleted all the same.
    fn delete(&self, receipts: &[String]) -> impl Future<Output = Result<Vec<Entry>, PortError>>;
}
