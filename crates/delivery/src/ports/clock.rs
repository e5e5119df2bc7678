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
    #[must_use]
    pub const fn from_origin(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// How long after the clock's origin this is.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// `by` earlier than this; the clock's origin where that would lie before it.
    #[must_use]
    pub const fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }

    /// How long after `earlier` this is; zero where it is not after it.
    #[must_use]
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

    /// Sleeps until `at`; returns at once where that has passed. Never early.
    fn sleep_until(&self, at: Monotonic) -> impl Future<Output = ()>;
}
