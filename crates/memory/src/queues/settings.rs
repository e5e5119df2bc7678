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
    /// How long the depth may show what was; zero.
    pub depth_lag: Duration,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            visibility: VISIBILITY_TIMEOUT,
            max_message_bytes: MAX_BATCH_BYTES,
            max_in_flight: 120_000,
            sampling: 1.0,
            depth_lag: Duration::ZERO,
        }
    }
}

/// Where a message stands on its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
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
    pub place: Place,
}
