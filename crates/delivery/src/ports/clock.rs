//! Time and randomness.

use std::future::Future;
use std::ops::Add;
use std::time::Duration;

use tidegate_core::Timestamp;

/// An instant on this environment's monotonic clock, as the time since an origin that the clock chooses.
///
/// Instants of two environments cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(Duration);

impl Monotonic {
    /// The instant `since_origin` after the clock's origin.
    pub const fn from_origin(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// The time from the clock's origin to this instant.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// The instant `by` before this one, or the origin if that would be before it.
    pub const fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
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

/// Access to time. The wall clock places a window and its slots; the monotonic clock paces inside a window.
pub trait Clock {
    /// The wall clock's time. It may step, and it differs between environments.
    fn wall(&self) -> Timestamp;

    /// The monotonic clock's time. It never steps.
    fn monotonic(&self) -> Monotonic;

    /// Reads both clocks at one instant, to within half a millisecond.
    ///
    /// On a small share of a processor Lambda pauses the process in every period of about 20 ms. A pause
    /// between the two reads would shift all slots of a window by its length. So the wall clock is read
    /// between two reads of the monotonic clock. If those differ by more than 1 ms, all are read again, at
    /// most 10 times; the reading with the shortest pause is used.
    ///
    /// For example, the monotonic clock says 5.0000 s before and 5.0004 s after the wall clock is read: the
    /// wall clock's time then belongs to 5.0002 s, with an error of at most 0.2 ms.
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

    /// Does work on so many bytes that takes long of the processor, beside the thread that keeps the slots: waits end in
    /// time meanwhile. Such work is done one after the other.
    fn beside<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = T>;

    /// Sleeps until `at`, or returns at once if `at` has passed. Never returns early.
    fn sleep_until(&self, at: Monotonic) -> impl Future<Output = ()>;
}

/// A source of randomness for tokens and jitter.
pub trait Entropy {
    /// A random text of at least 128 bits, so that no two calls return the same one.
    fn token(&self) -> String;

    /// A random number, evenly distributed from 0.0 to 1.0.
    fn unit(&self) -> f64;
}
