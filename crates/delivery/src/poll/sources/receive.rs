//! One receive of the drain: which queue is asked, and for how many messages.

use std::time::Duration;

use tidegate_core::allocation::Ask;

use crate::ports::{Monotonic, PortError, QueueUrl, Received};

/// The drain starts no receive later than this before the window's close.
pub(crate) const LAST_RECEIVE: Duration = Duration::from_millis(50);

/// Whether a receive waits for mail, for a second at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// No: a short poll.
    No,
    /// As long as the window lasts: a long poll if it ends before the window does, else a short poll.
    Within,
    /// Also past the window's close. The source hands over what comes too late for its slots.
    Past,
}

/// The kind of queue that a receive asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReceiveOrigin {
    Express,
    /// The queue at this place of the ask's lane.
    Lane(Ask, usize),
    /// A queue of limited mail: its line's index among those that this window asks, and its place there.
    Limited(usize, usize),
}

pub(crate) struct NextReceive {
    pub(crate) origin: ReceiveOrigin,
    pub(crate) queue: QueueUrl,
    pub(crate) messages: u64,
    /// The receive starts after this pause (see `QueueSupply::pause`).
    pub(crate) pause: Duration,
    pub(crate) wait: Wait,
}

pub(crate) struct FinishedReceive {
    pub(crate) origin: ReceiveOrigin,
    pub(crate) asked: u64,
    pub(crate) long: bool,
    /// The messages, and the instant at which the receive began.
    pub(crate) result: Result<(Vec<Received>, Monotonic), PortError>,
}
