//! The system's clocks. No other module reads them.

use std::future::Future;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_core::Timestamp;
use tidegate_core::timestamp::nanos;
use tidegate_delivery::ports::{Clock, Monotonic};
use tokio::time::Instant;

/// The system's clocks. Copies share one origin, so their monotonic instants can be compared.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// The system's clocks; the origin of monotonic instants is now.
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn wall(&self) -> Timestamp {
        // A clock set before 1970 reads as the epoch, instead of ending the process.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_nanos(nanos(since_epoch))
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic::from_origin(self.origin.elapsed())
    }

    fn sleep_until(&self, at: Monotonic) -> impl Future<Output = ()> {
        // tokio's timer rounds up to whole milliseconds, so it never wakes early.
        let at = self.origin.checked_add(at.since_origin());
        async move {
            match at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_at_its_instant_and_at_once_where_that_has_passed() {
        let clock = SystemClock::new();
        let copy = clock;
        let at = clock.monotonic() + Duration::from_millis(250);
        clock.sleep_until(at).await;
        assert_eq!(copy.monotonic().saturating_since(at), Duration::ZERO);
        copy.sleep_until(Monotonic::from_origin(Duration::ZERO)).await;
        assert_eq!(copy.monotonic(), at);
    }

    #[tokio::test]
    async fn the_wall_clock_stands_where_this_code_was_written_or_later() {
        assert!(SystemClock::new().wall() > Timestamp::from_millis(1_760_000_000_000));
    }
}
