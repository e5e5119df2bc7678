use std::future::Future;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::deduplication::{Acceptance, Mark};
use tidegate_core::identity::Identity;

use super::PortError;

/// A poller's request to mark a mail before it sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkRequest {
    /// The identity of the mail; the mark's key is derived from it.
    pub identity: Identity,
    /// A random text of this mark alone. If the condition fails and the ledger shows this token, an earlier
    /// attempt of this same request was written.
    pub token: String,
    /// The pass of the message that is about to be sent.
    pub pass: u32,
    /// The wall clock's time. The mark's age counts from here; a mark that has expired by now is ignored.
    pub now: Timestamp,
    /// The time until the mark expires.
    pub kept: Duration,
    /// The token of an older mark that this one may replace.
    pub replaces: Option<String>,
}

/// The result of a [`MarkRequest`]: marked, or found marked before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkResult {
    /// This request has marked the mail *sending*.
    Ours,
    /// Another mark exists; the mail must not simply be sent.
    Found(Mark),
}

/// Marks in the ledger: deduplication's, at most one per mail, and those of SES's notices that were counted.
pub trait Marks {
    /// Marks a mail *sending* by one conditional write. It succeeds if no mark exists, or the existing one
    /// has expired or is the one to replace.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer; then the mail must not be sent.
    fn mark(&self, request: &MarkRequest) -> impl Future<Output = Result<MarkResult, PortError>>;

    /// Marks a mail *sent*, regardless of which poller had marked it. False if no mark exists.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer.
    fn set_sent(
        &self,
        identity: &Identity,
        accepted: &Acceptance,
    ) -> impl Future<Output = Result<bool, PortError>>;

    /// Marks a mail *parked*: it goes to the dead-letter queue with this pass, and it is unknown whether it
    /// was sent. False if the mark does not have this token.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer.
    fn set_parked(
        &self,
        identity: &Identity,
        token: &str,
        pass: u32,
    ) -> impl Future<Output = Result<bool, PortError>>;

    /// Deletes the *sending* mark with this token, because the mail was not sent. False if the mark is
    /// another one.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer.
    fn unmark(
        &self,
        identity: &Identity,
        token: &str,
    ) -> impl Future<Output = Result<bool, PortError>>;

    /// Reads the marks of 1 to 100 mails, in the order of `identities`. An expired mark that is not yet
    /// deleted is returned, because it still tells what became of the mail; [`Marks::mark`] ignores it.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer; a partial answer is never returned.
    fn find(
        &self,
        identities: &[Identity],
    ) -> impl Future<Output = Result<Vec<Option<Mark>>, PortError>>;
}
