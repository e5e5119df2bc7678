//! One window's time: the wall clock read once, then paced on the monotonic clock.

use tidegate_core::Timestamp;

use crate::ports::{Clock, Monotonic};

/// Where the two clocks stood when the poller began; a wall clock that steps moves no slot.
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

    /// When `at` is on the monotonic clock.
    pub(super) fn monotonic(self, at: Timestamp) -> Monotonic {
        if at >= self.wall {
            return self.monotonic + at.saturating_since(self.wall);
        }
        let before = self.wall.saturating_since(at);
        Monotonic::from_origin(self.monotonic.since_origin().saturating_sub(before))
    }
}
