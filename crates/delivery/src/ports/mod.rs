//! The ports: the capabilities that the use cases need from the outside world, one trait each.

mod clock;
mod ledger;
mod mail;
mod monitor;
mod queues;

use std::error::Error as StdError;

use thiserror::Error;

pub use clock::*;
pub use ledger::*;
pub use mail::*;
pub use monitor::*;
pub use queues::*;

/// A failed call to a service: which operation on which resource, and how it failed.
#[derive(Debug, Error)]
#[error("{operation} on {resource} failed: {kind}")]
pub struct PortError {
    /// The service's operation, such as `ReceiveMessage`.
    pub operation: &'static str,
    /// The resource that was called: a queue's URL, or the name of a table or function.
    pub resource: String,
    /// The kind of failure, by which callers decide.
    pub kind: FailureKind,
    /// The error of the service or of the connection; `None` if there is none beside `kind`.
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kinds of failure that callers distinguish.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FailureKind {
    /// The queue, table, function or object does not exist.
    #[error("it does not exist")]
    NotFound,
    /// No permission, or wrong credentials; holds the service's error code.
    #[error("access denied ({0})")]
    Denied(String),
    /// The time limit passed without an answer. The call may have taken effect.
    #[error("no answer in time")]
    TimedOut,
    /// No connection to the service: DNS, TCP or TLS failed.
    #[error("it cannot be reached")]
    Unreachable,
    /// Any other refusal; holds the service's error code.
    #[error("refused ({0})")]
    Refused(String),
}

impl FailureKind {
    /// Whether the same call may succeed a moment later. False for [`Self::NotFound`] and [`Self::Denied`].
    pub const fn may_pass(&self) -> bool {
        !matches!(self, Self::NotFound | Self::Denied(_))
    }
}
