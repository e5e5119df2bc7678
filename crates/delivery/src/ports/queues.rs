use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tidegate_core::config::POLLER_TIMEOUT;
use tidegate_core::tagged::queue_name;

use super::{Body, PortError};

/// The visibility timeout of every queue of Tidegate's.
pub const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(30);
// Nobody else receives what a poller received before the poller has ended.
const _: () = assert!(POLLER_TIMEOUT.as_millis() < VISIBILITY_TIMEOUT.as_millis());

/// A queue's URL; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueUrl(Arc<str>);

impl QueueUrl {
    /// The queue at `url`.
    pub fn new(url: impl Into<Arc<str>>) -> Self {
        Self(url.into())
    }

    /// The URL as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The queue's name: what its URL ends in.
    pub fn name(&self) -> &str {
        queue_name(&self.0)
    }

    /// Whether it is a FIFO queue: SQS demands the ending `.fifo` of those, and of no other.
    pub fn is_fifo(&self) -> bool {
        self.0.ends_with(".fifo")
    }
}

impl fmt::Display for QueueUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A message as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// SQS's id of it, new with every send.
    pub message_id: String,
    /// What deletes it or changes its visibility; good until the visibility timeout.
    pub receipt: String,
    /// The body, untouched.
    pub body: Body,
    /// Its string message attributes.
    pub attributes: BTreeMap<String, String>,
    /// When it was put on this queue (`SentTimestamp`), milliseconds since the epoch.
    pub sent_at_millis: u64,
    /// How often it was received (`ApproximateReceiveCount`), this time included.
    pub receive_count: u32,
}

/// A message to put on a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The body.
    pub body: Body,
    /// String message attributes; no name or value empty, at most 10.
    pub attributes: Vec<(&'static str, String)>,
    /// `DelaySeconds`: whole seconds, 0 to 900; must be 0 on a FIFO queue.
    pub delay: Duration,
    /// Group and deduplication id, on a FIFO queue only.
    pub fifo: Option<Fifo>,
}

impl Outgoing {
    /// Its size as SQS counts it: body, attribute names, their type `String`, and values.
    pub fn bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        self.body.len()
            + attributes
                .map(|(name, value)| name.len() + "String".len() + value.len())
                .sum::<usize>()
    }
}

/// What a FIFO queue needs of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fifo {
    /// `MessageGroupId`.
    pub group: String,
    /// `MessageDeduplicationId`.
    pub deduplication: String,
}

/// One entry of a batch: done, or why not.
pub type Entry = Result<(), EntryError>;

/// Why SQS refused one entry of a batch.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{code}: {message}")]
pub struct EntryError {
    /// SQS's code, such as `ReceiptHandleIsInvalid`.
    pub code: String,
    /// SQS's explanation.
    pub message: String,
}

impl EntryError {
    /// Whether the same entry may succeed a moment later: not where SQS does not know the receipt, or
    /// knows that it expired.
    pub fn may_pass(&self) -> bool {
        !["ReceiptHandleIsInvalid", "InvalidParameterValue"].contains(&self.code.as_str())
    }
}

/// How many messages a queue holds, approximately (it lags by up to a minute).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Ready to be received.
    pub visible: u64,
    /// Received, and neither deleted nor visible again.
    pub in_flight: u64,
    /// Sent with a delay that has not passed.
    pub delayed: u64,
}

/// The queues. Batches hold 1 to 10 entries; answers stand in the order of the entries.
pub trait Queues {
    /// Receives up to `max` (1 to 10) messages; waits up to `wait` (whole seconds) for the first.
    ///
    /// # Errors
    /// [`PortError`]; then messages may have become invisible until their timeout.
    fn receive(
        &self,
        queue: &QueueUrl,
        max: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<Received>, PortError>>;

    /// Sends 1 to 10 messages of at most 1 MiB together.
    ///
    /// # Errors
    /// [`PortError`] for the whole batch, which may have been sent all the same.
    fn send(
        &self,
        queue: &QueueUrl,
        messages: &[Outgoing],
    ) -> impl Future<Output = Result<Vec<Entry>, PortError>>;

    /// Deletes 1 to 10 messages by their receipts.
    ///
    /// # Errors
    /// [`PortError`] for the whole batch, which may have been deleted all the same.
    fn delete(
        &self,
        queue: &QueueUrl,
        receipts: &[String],
    ) -> impl Future<Output = Result<Vec<Entry>, PortError>>;

    /// Makes 1 to 10 received messages visible again after `after` (whole seconds).
    ///
    /// # Errors
    /// [`PortError`] for the whole batch.
    fn set_visibility(
        &self,
        queue: &QueueUrl,
        receipts: &[String],
        after: Duration,
    ) -> impl Future<Output = Result<Vec<Entry>, PortError>>;

    /// How deep `queue` is.
    ///
    /// # Errors
    /// [`PortError`].
    fn depth(&self, queue: &QueueUrl) -> impl Future<Output = Result<QueueDepth, PortError>>;

    /// How many calls were made so far, a retry by the client counted as one more where it is known.
    fn calls(&self) -> u64;
}
