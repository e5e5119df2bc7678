use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_delivery::ports::VISIBILITY_TIMEOUT;

/// SQS's limit of a message and of a whole batch, attributes included.
pub(crate) const MAX_BATCH_BYTES: usize = 1_048_576;

/// A queue's attributes, and how much of SQS's vagueness it shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueSettings {
    /// `VisibilityTimeout`; 30 s.
    pub visibility: Duration,
    /// `MaximumMessageSize` in bytes, attributes included; 1 MiB.
    pub max_message_bytes: usize,
    /// Most messages in flight; 120,000. Beyond it a standard queue refuses a receive
    /// (`OverLimit`), a FIFO queue silently gives nothing.
    pub max_in_flight: usize,
    /// How likely a short poll asks each of the queue's ten servers, 0.0 to 1.0; 1.0. A message
    /// stands on one server, and the messages of a FIFO group on the same one. Long polls ask all.
    pub sampling: f64,
    /// How old the depth that is shown may be; zero.
    pub depth_lag: Duration,
    /// How likely a standard queue gives a message once more, 0.0 to 1.0; 0.0. Drawn as a message is
    /// received, which then becomes visible before its timeout, and as it is deleted, which is
    /// acknowledged and has no effect.
    pub doubled: f64,
    /// How likely an entry of a batch fails alone, without effect, in a batch that is answered, 0.0
    /// to 1.0; 0.0.
    pub failing: f64,
}

impl QueueSettings {
    /// All that AWS's documentation allows SQS, more often than SQS does it.
    pub fn unkind() -> Self {
        Self {
            sampling: 0.3,
            depth_lag: Duration::from_mins(1),
            doubled: 0.01,
            failing: 0.02,
            ..Self::default()
        }
    }
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            visibility: VISIBILITY_TIMEOUT,
            max_message_bytes: MAX_BATCH_BYTES,
            max_in_flight: 120_000,
            sampling: 1.0,
            depth_lag: Duration::ZERO,
            doubled: 0.0,
            failing: 0.0,
        }
    }
}

/// Where a message stands on its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// Ready to be received.
    Visible,
    /// Sent with a delay, ready at this true time.
    Delayed(Timestamp),
    /// Received, visible again at this true time.
    InFlight(Timestamp),
}

/// A message on a queue, as a test sees it without receiving it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedMessage {
    /// SQS's id of it.
    pub message_id: String,
    /// The body.
    pub body: String,
    /// Its message attributes.
    pub attributes: std::collections::BTreeMap<String, String>,
    /// How often it was received.
    pub receive_count: u32,
    /// Where it stands.
    pub place: MessageState,
}
