use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_delivery::ports::{BATCH_BYTES, VISIBILITY_TIMEOUT};

/// A queue's attributes, and how often it uses the freedom that SQS's documentation gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueSettings {
    pub visibility: Duration,
    /// `MaximumMessageSize` in bytes, attributes included; 1 MiB.
    pub max_message_bytes: usize,
    /// The most messages in flight; default 120,000. Above it a standard queue refuses a receive
    /// (`OverLimit`), and a FIFO queue returns nothing.
    pub max_in_flight: usize,
    /// The probability that a short poll asks each of the queue's ten servers, 0.0 to 1.0; default
    /// 1.0. A message is stored on one server, and all messages of a FIFO group on the same one.
    /// Long polls ask all servers.
    pub sampling: f64,
    /// How old the reported depth may be; default zero.
    pub depth_lag: Duration,
    /// The probability that a standard queue delivers a message twice, 0.0 to 1.0; default 0.0. It
    /// is drawn at a receive (the message becomes visible before its timeout) and at a delete
    /// (which is acknowledged without effect).
    pub doubled: f64,
    /// The probability that a single entry of an answered batch fails without effect, 0.0 to 1.0;
    /// default 0.0.
    pub failing: f64,
}

impl QueueSettings {
    /// Everything that the documentation of AWS allows SQS to do, more often than SQS does it.
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
            max_message_bytes: BATCH_BYTES,
            max_in_flight: 120_000,
            sampling: 1.0,
            depth_lag: Duration::ZERO,
            doubled: 0.0,
            failing: 0.0,
        }
    }
}

/// The state of a message on its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    Visible,
    /// Sent with a delay, ready at this true time.
    Delayed(Timestamp),
    /// Received, visible again at this true time.
    InFlight(Timestamp),
}

/// A message on a queue, read by a test without receiving it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedMessage {
    pub message_id: String,
    pub body: String,
    pub attributes: std::collections::BTreeMap<String, String>,
    pub receive_count: u32,
    pub place: MessageState,
}
