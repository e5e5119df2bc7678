//! Queues, the messages on them, and the directory of the queues that there are.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use thiserror::Error;
use tidegate_core::config::POLLER_TIMEOUT;
use tidegate_core::dead_letter::SQS_LIMIT_BYTES;
use tidegate_core::tagged::queue_name;
use tidegate_core::{allocation, compression};

use super::PortError;

/// The visibility timeout of every queue that Tidegate uses.
pub const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(30);
// A poller ends before the messages that it received become visible to another one.
const _: () = assert!(POLLER_TIMEOUT.as_millis() < VISIBILITY_TIMEOUT.as_millis());

/// After this time no poller that ran at its beginning runs any more, and every message that one held is visible again.
pub const VISIBLE_AGAIN: Duration = VISIBILITY_TIMEOUT.saturating_add(POLLER_TIMEOUT);

/// The most messages of one receive, and the most entries of one batch.
pub const BATCH: usize = 10;
/// The most bytes of one message, and of all messages of one batch together, attributes included: 1 MiB.
pub const BATCH_BYTES: usize = SQS_LIMIT_BYTES;
const _: () = assert!(BATCH as u64 == allocation::BATCH);

/// The URL of a queue; cloning shares the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueUrl(Arc<str>);

impl QueueUrl {
    /// Wraps `url`, which is not checked.
    pub fn new(url: impl Into<Arc<str>>) -> Self {
        Self(url.into())
    }

    /// The complete URL, such as `https://sqs.eu-west-1.amazonaws.com/123456789012/big`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The queue's name: the last part of its URL.
    pub fn name(&self) -> &str {
        queue_name(&self.0)
    }

    /// Whether the queue is FIFO: SQS requires the ending `.fifo` for those names and forbids it for others.
    pub fn is_fifo(&self) -> bool {
        self.0.ends_with(".fifo")
    }
}

impl fmt::Display for QueueUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A message as one receive returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// SQS's id of the message; each send creates a new one.
    pub message_id: String,
    /// SQS's handle for deletes and changes of visibility; valid until the visibility timeout.
    pub receipt: String,
    /// The body as received; it may be no valid mail.
    pub body: Body,
    /// The message's attributes of type `String`, by name.
    pub attributes: BTreeMap<String, String>,
    /// `SentTimestamp`: when it was sent to this queue, in milliseconds since the epoch.
    pub sent_at_millis: u64,
    /// `ApproximateReceiveCount`: the number of receives, this one included.
    pub receive_count: u32,
}

/// A message to send to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The body, at most 1 MiB together with the attributes.
    pub body: Body,
    /// Attributes of type `String`; at most 10, no empty name or value.
    pub attributes: Vec<(&'static str, String)>,
    /// `DelaySeconds`: whole seconds, 0 to 900; must be 0 on a FIFO queue.
    pub delay: Duration,
    /// Group and deduplication id; required on a FIFO queue, absent on others.
    pub fifo: Option<Fifo>,
}

impl Outgoing {
    /// A message for a standard queue, without attributes or delay.
    pub fn new(body: impl Into<Body>) -> Self {
        Self { body: body.into(), attributes: Vec::new(), delay: Duration::ZERO, fifo: None }
    }

    /// The size as SQS counts it: body, attribute names, the type name `String` (6 bytes) and values.
    pub fn bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        self.body.len()
            + attributes
                .map(|(name, value)| name.len() + "String".len() + value.len())
                .sum::<usize>()
    }
}

/// The ids that a message needs on a FIFO queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fifo {
    /// `MessageGroupId`: SQS delivers the messages of one group in order. Tidegate gives each message its
    /// own group.
    pub group: String,
    /// `MessageDeduplicationId`: SQS drops a second message with this id within five minutes.
    pub deduplication: String,
}

/// The answer to one entry of a batch: success, or SQS's error.
pub type Entry = Result<(), EntryError>;

/// SQS's error for one entry of a batch.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{code}: {message}")]
pub struct EntryError {
    /// SQS's error code, such as `ReceiptHandleIsInvalid`.
    pub code: String,
    /// SQS's explanation, for logs only; callers decide by the code.
    pub message: String,
}

impl EntryError {
    /// Whether the same entry may succeed a moment later. False if SQS does not know the receipt or says
    /// that it expired.
    pub fn may_pass(&self) -> bool {
        !["ReceiptHandleIsInvalid", "InvalidParameterValue"].contains(&self.code.as_str())
    }
}

/// Approximate numbers of messages in a queue; SQS's counts may be a minute old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize)]
pub struct QueueDepth {
    /// Messages that can be received now.
    pub visible: u64,
    /// Messages received and neither deleted nor visible again.
    pub in_flight: u64,
    /// Messages sent with a delay that has not passed.
    pub delayed: u64,
}

impl QueueDepth {
    /// All messages on the queue.
    pub const fn all(self) -> u64 {
        self.visible + self.in_flight + self.delayed
    }
}

impl std::ops::Add for QueueDepth {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            visible: self.visible + other.visible,
            in_flight: self.in_flight + other.in_flight,
            delayed: self.delayed + other.delayed,
        }
    }
}

/// Access to SQS. A batch has 1 to 10 entries; answers are in the order of the entries.
pub trait Queues {
    /// Receives up to `max` (1 to 10) messages and waits up to `wait` (whole seconds) for the first one. A
    /// `wait` of zero is a short poll.
    ///
    /// # Errors
    /// [`PortError`] if SQS does not answer; messages may then be invisible until their visibility timeout.
    fn receive(
        &self,
        queue: &QueueUrl,
        max: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<Received>, PortError>>;

    /// Sends 1 to 10 messages of together at most 1 MiB.
    ///
    /// # Errors
    /// [`PortError`] for the whole batch; messages may have been sent all the same.
    fn send(
        &self,
        queue: &QueueUrl,
        messages: &[Outgoing],
    ) -> impl Future<Output = Result<Vec<Entry>, PortError>>;

    /// Deletes 1 to 10 messages by receipt.
    ///
    /// # Errors
    /// [`PortError`] for the whole batch; messages may have been deleted all the same.
    fn delete(
        &self,
        queue: &QueueUrl,
        receipts: &[String],
    ) -> impl Future<Output = Result<Vec<Entry>, PortError>>;

    /// Makes 1 to 10 received messages visible again after `after` (whole seconds; zero for at once).
    ///
    /// # Errors
    /// [`PortError`] for the whole batch; some may have been changed all the same.
    fn set_visibility(
        &self,
        queue: &QueueUrl,
        receipts: &[String],
        after: Duration,
    ) -> impl Future<Output = Result<Vec<Entry>, PortError>>;

    /// Reads the approximate numbers of messages in `queue`.
    ///
    /// # Errors
    /// [`PortError`] if SQS does not answer.
    fn depth(&self, queue: &QueueUrl) -> impl Future<Output = Result<QueueDepth, PortError>>;

    /// The number of calls made so far. A retry by the client counts as another call where it can be
    /// observed.
    fn calls(&self) -> u64;
}

/// A message's body as text. A clone shares it: a megabyte is not copied from step to step. It may have a
/// compressed form beside the text, in which it crosses queues.
///
/// ```
/// use tidegate_delivery::ports::Body;
/// let body = Body::from("hello");
/// assert_eq!((&*body, body.len()), ("hello", 5));
/// ```
#[derive(Clone)]
pub struct Body {
    text: Arc<String>,
    compressed: Option<Arc<String>>,
    /// Dropped with the last clone; it releases the room that the body takes in the poller's memory.
    _guard: Option<Arc<dyn Any + Send + Sync>>,
}

impl Body {
    /// Attaches `guard`, which is dropped with the last clone of the body.
    pub(crate) fn guarded(self, guard: impl Any + Send + Sync) -> Self {
        Self { _guard: Some(Arc::new(guard)), ..self }
    }

    /// A received body: if it came in the compressed form, its text is read from that. A form that cannot be
    /// read stays as it is.
    pub(crate) fn received(self) -> Self {
        match compression::decompress(&self.text) {
            Some(Ok(text)) => Self { text: text.into(), compressed: Some(self.text), ..self },
            Some(Err(_)) | None => self,
        }
    }

    /// The body with its compressed form, if that is worth it.
    #[must_use]
    pub fn compress(self) -> Self {
        let compress = || compression::compress(&self.text).map(Arc::new);
        Self { compressed: self.compressed.clone().or_else(compress), ..self }
    }

    /// The body in the form in which it crosses a queue: compressed if it has that form.
    #[must_use]
    pub fn to_queue(&self) -> Self {
        let text = self.compressed.as_ref().unwrap_or(&self.text);
        Self { text: Arc::clone(text), compressed: None, ..self.clone() }
    }

    /// The bytes that it takes in memory, in both forms.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.compressed.as_ref().map_or(0, |compressed| compressed.len())
    }

    /// The shared text, so that a fake can observe how long it is held.
    pub const fn text(&self) -> &Arc<String> {
        &self.text
    }
}

impl Deref for Body {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl<T: Into<String>> From<T> for Body {
    fn from(text: T) -> Self {
        Self { text: Arc::new(text.into()), compressed: None, _guard: None }
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Body {}

/// Shows the length only, because a body must not be logged.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.text.len())
    }
}

/// Finds queues by name prefix, and reads their tags.
pub trait Directory {
    /// Lists the queues whose names begin with `prefix`, each once, in any order. SQS's list is eventually
    /// consistent: a queue may appear up to a minute after it was deleted, and be missing for a second after
    /// it was created.
    ///
    /// # Errors
    /// [`PortError`] if SQS does not answer; a partial list is never returned.
    fn queues(&self, prefix: &str) -> impl Future<Output = Result<Vec<QueueUrl>, PortError>>;

    /// Reads the tags of `queue`, as name and value.
    ///
    /// # Errors
    /// [`PortError`] if SQS does not answer; its kind is [`NotFound`](super::FailureKind::NotFound) if the
    /// queue does not exist.
    fn tags(
        &self,
        queue: &QueueUrl,
    ) -> impl Future<Output = Result<BTreeMap<String, String>, PortError>>;
}
