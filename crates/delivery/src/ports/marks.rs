use std::future::Future;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::deduplication::Mark;
use tidegate_core::identity::Identity;

use super::PortError;

/// A poller's wish to send a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkRequest {
    /// The mail.
    pub identity: Identity,
    /// Random, of this mark alone: a failed condition that shows it is our own write, answered late.
    pub token: String,
    /// The mail's pass.
    pub pass: u32,
    /// Now: the mark's age counts from here, and an older mark that has expired is no mark.
    pub now: Timestamp,
    /// How long the mark is kept.
    pub kept: Duration,
    /// The token of the mark that this one takes the place of.
    pub replaces: Option<String>,
}

/// What became of the wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkResult {
    /// It is marked *sending*, by this request.
    Ours,
    /// It was marked before.
    Found(Mark),
}

/// deduplication's marks, one a mail.
pub trait Marks {
    /// Marks a mail *sending*, by one conditional write: where none stands, or one that has expired,
    /// or the one that it replaces.
    ///
    /// # Errors
    /// [`PortError`]: then the mail must not be sent.
    fn mark(&self, request: &MarkRequest) -> impl Future<Output = Result<MarkResult, PortError>>;

    /// The mail was sent: so whoever marked it, whatever else befell. False where no mark stands.
    ///
    /// # Errors
    /// [`PortError`].
    fn set_sent(&self, identity: &Identity) -> impl Future<Output = Result<bool, PortError>>;

    /// The mail goes to the dead-letter queue with this pass, and nobody knows whether it was sent.
    /// False where the mark is not this token's.
    ///
    /// # Errors
    /// [`PortError`].
    fn set_parked(
        &self,
        identity: &Identity,
        token: &str,
        pass: u32,
    ) -> impl Future<Output = Result<bool, PortError>>;

    /// Takes away a *sending* mark of this token: the mail was not sent. False where another stands.
    ///
    /// # Errors
    /// [`PortError`].
    fn unmark(
        &self,
        identity: &Identity,
        token: &str,
    ) -> impl Future<Output = Result<bool, PortError>>;

    /// What stands of 1 to 100 mails, in their order, read and not changed. For whoever asks what
    /// became of a mail: a mark that has expired is shown until it is taken away, since what it says
    /// was so (to [`Marks::mark`] it is none).
    ///
    /// # Errors
    /// [`PortError`]; never a part of the answers.
    fn find(
        &self,
        identities: &[Identity],
    ) -> impl Future<Output = Result<Vec<Option<Mark>>, PortError>>;
}
