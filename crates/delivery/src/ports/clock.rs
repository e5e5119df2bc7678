use std::future::Future;
use std::ops::Add;
use std::time::Duration;

use tidegate_core::Timestamp;

/// An instant on the environment's monotonic clock, since an origin of the clock's own choice.
///
/// It means nothing in another environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(Duration);

impl Monotonic {
    /// `since_origin` after the clock's origin.
    pub const fn from_origin(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// How long after the clock's origin this is.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// `by` earlier than this; the clock's origin where that would lie before it.
    pub const fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }

    /// How long after `earlier` this is; zero where it is not after it.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Monotonic {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }
}

/// Time. The wall clock places a window and its slots; the monotonic one paces inside a window.
pub trait Clock {
    /// The wall clock: it may step, and differs between environments.
    fn wall(&self) -> Timestamp;

    /// The monotonic clock.
    fn monotonic(&self) -> Monotonic;

    /// Both clocks at one instant, to within half a millisecond. They are read anew where the process was
    /// paused in between, as it is every 20 ms on a small share of a processor: the pause would shift all
    /// slots of a window. After ten pauses in a row the shortest counts.
    fn now(&self) -> (Timestamp, Monotonic) {
        const SHORT: Duration = Duration::from_millis(1);
        const TRIES: usize = 10;
        let read = || {
            let before = self.monotonic();
            let wall = self.wall();
            let pause = self.monotonic().saturating_since(before);
            (pause, wall, before + pause / 2)
        };
        let mut best = read();
        for _ in 1..TRIES {
            if best.0 <= SHORT {
                break;
            }
            let next = read();
            if next.0 < best.0 {
                best = next;
            }
        }
        (best.1, best.2)
    }

    /// Sleeps until `at`; returns at once where that has passed. Never early.
    fn sleep_until(&self, at: Monotonic) -> impl Future<Output = ()>;
}
