//! The clock of one window: the wall clock is read once, then time is measured by the monotonic clock.

use tidegate_core::Timestamp;

use crate::ports::{Clock, Monotonic};

/// Both clocks' readings when the poller began. A wall clock that is set meanwhile moves no slot.
///
/// Example: the poller began at wall 100.000 s and monotonic 7.000 s. At monotonic 7.250 s it is 100.250 s,
/// whatever the wall clock shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowTime {
    wall: Timestamp,
    monotonic: Monotonic,
}

impl WindowTime {
    pub(super) fn start(clock: &impl Clock) -> Self {
        let (wall, monotonic) = clock.now();
        Self { wall, monotonic }
    }

    pub(super) fn now(self, clock: &impl Clock) -> Timestamp {
        self.wall + clock.monotonic().saturating_since(self.monotonic)
    }

    /// The instant of `at` on the monotonic clock.
    pub(super) fn monotonic(self, at: Timestamp) -> Monotonic {
        if at >= self.wall {
            return self.monotonic + at.saturating_since(self.wall);
        }
        let before = self.wall.saturating_since(at);
        Monotonic::from_origin(self.monotonic.since_origin().saturating_sub(before))
    }
}
