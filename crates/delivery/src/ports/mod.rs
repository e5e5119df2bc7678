//! What the use cases need from the outside, one capability a trait.

mod account;
mod body;
mod bucket;
mod clock;
mod deferral;
mod directory;
mod entropy;
mod feedback;
mod history;
mod invoke;
mod ledger;
mod mailer;
mod marks;
mod parts;
mod queues;

pub use account::{Account, AccountStatus};
pub use body::Body;
pub use bucket::{Answer, Bucket, BucketLevel, BucketLevels, DomainTake, TakeRequest, Taken};
pub use clock::{Clock, Monotonic};
pub use deferral::{DeferralStore, DeferredObject, DeferredPage, Version};
pub use directory::Directory;
pub use entropy::Entropy;
pub use feedback::{Feedback, FeedbackMessage};
pub use history::{CHANGES_KEPT, History};
pub use invoke::Invoke;
pub use ledger::{
    Claim, ClaimRequest, Idle, Ledger, LedgerReport, MERGE_QUEUE, PreviousClaim, Standing,
};
pub use mailer::{Mail, Mailer, Takes};
pub use marks::{MarkRequest, MarkResult, Marks};
pub use parts::{Part, PartChange};
pub use queues::{
    Entry, EntryError, Fifo, Outgoing, QueueDepth, QueueUrl, Queues, Received, VISIBILITY_TIMEOUT,
};

use std::error::Error as StdError;

use thiserror::Error;

/// Why a call to a service failed.
#[derive(Debug, Error)]
#[error("{operation} on {resource} failed: {kind}")]
pub struct PortError {
    /// The service's operation, such as `ReceiveMessage`.
    pub operation: &'static str,
    /// What it was called on: a queue's URL, a table's or function's name.
    pub resource: String,
    /// What kind of failure it was.
    pub kind: FailureKind,
    /// The service's or the connection's own error.
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What a caller can tell about a failed call.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FailureKind {
    /// The queue, table, function or object does not exist.
    #[error("it does not exist")]
    NotFound,
    /// No permission, or wrong credentials; the service's code.
    #[error("access denied ({0})")]
    Denied(String),
    /// No answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// The service could not be reached.
    #[error("it cannot be reached")]
    Unreachable,
    /// Any other refusal; the service's code.
    #[error("refused ({0})")]
    Refused(String),
}

impl FailureKind {
    /// Whether the same call may succeed a moment later.
    pub const fn may_pass(&self) -> bool {
        !matches!(self, Self::NotFound | Self::Denied(_))
    }
}
