//! One receive of the drain: which queue is asked, and for how many messages.

use std::time::Duration;

use tidegate_core::allocation::Ask;

use crate::ports::{Monotonic, PortError, QueueUrl, Received};

/// The drain starts no receive later than this before the window's close.
pub(in crate::poll) const LAST_RECEIVE: Duration = Duration::from_millis(50);

/// Whether a receive waits for mail, for a second at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::poll) enum Wait {
    /// No: a short poll.
    No,
    /// As long as the window lasts: a long poll if it ends before the window does, else a short poll.
    Within,
    /// Also past the window's close. The source hands over what comes too late for its slots.
    Past,
}

/// The kind of queue that a receive asks.
#[derive(Clone, Copy, Debug)]
pub(in crate::poll) enum ReceiveOrigin {
    Express,
    /// The queue at this place of the ask's lane.
    Lane(Ask, usize),
    /// A queue of limited mail: its line's index among those that this window asks, and its place there.
    Limited(usize, usize),
}

pub(in crate::poll) struct NextReceive {
    pub(in crate::poll) origin: ReceiveOrigin,
    pub(in crate::poll) queue: QueueUrl,
    pub(in crate::poll) messages: u64,
    /// The receive starts after this pause (see `QueueSupply::pause`).
    pub(in crate::poll) pause: Duration,
    pub(in crate::poll) wait: Wait,
}

pub(in crate::poll) struct FinishedReceive {
    pub(in crate::poll) origin: ReceiveOrigin,
    pub(in crate::poll) asked: u64,
    pub(in crate::poll) long: bool,
    /// The messages, and the instant at which the receive began.
    pub(in crate::poll) result: Result<(Vec<Received>, Monotonic), PortError>,
}
