//! The ports: the capabilities that the use cases need from the outside world, one trait each.

mod clock;
mod ledger;
mod mail;
mod monitor;
mod queues;
mod store;

use std::error::Error as StdError;
use std::fmt;

use thiserror::Error;

pub use clock::*;
pub use ledger::*;
pub use mail::*;
pub use monitor::*;
pub use queues::*;
pub use store::*;

/// The types of the ports that a poller needs: a tuple of them, in this order.
pub trait Environment {
    /// SQS: campaign queues, merge queue, express queue, limit queues and dead-letter queue.
    type Queues: Queues;
    /// The mailer that sends mail through SES.
    type Mailer: Mailer;
    /// Asks SES for the account's quota and state.
    type Account: Account;
    /// Claims, control record, reports, deduplication's marks, and the exclusion list.
    type Ledger: Ledger + Marks + Exclusions;
    /// Access to the wall clock and the monotonic clock.
    type Clock: Clock;
    /// The source of random tokens and jitter.
    type Entropy: Entropy;
    /// The S3 bucket, or its stand-in, in which mail waits.
    type Store: Store;
}

impl<Q, M, A, L, C, E, S> Environment for (Q, M, A, L, C, E, S)
where
    Q: Queues,
    M: Mailer,
    A: Account,
    L: Ledger + Marks + Exclusions,
    C: Clock,
    E: Entropy,
    S: Store,
{
    type Queues = Q;
    type Mailer = M;
    type Account = A;
    type Ledger = L;
    type Clock = C;
    type Entropy = E;
    type Store = S;
}

/// The ports of a poller.
pub struct Ports<E: Environment> {
    /// The queues of every kind.
    pub queues: E::Queues,
    /// The mailer, which sends through SES.
    pub mailer: E::Mailer,
    /// The account, for quota and state.
    pub account: E::Account,
    /// The ledger, which also keeps deduplication's marks.
    pub ledger: E::Ledger,
    /// The wall clock and the monotonic clock.
    pub clock: E::Clock,
    /// The source of random tokens and jitter.
    pub entropy: E::Entropy,
    /// The store; `None` without one.
    pub store: Option<E::Store>,
}

impl<E: Environment> fmt::Debug for Ports<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ports").finish_non_exhaustive()
    }
}

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
