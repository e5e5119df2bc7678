//! The system's clocks, which no other module reads, and randomness from the operating system's generator.

use std::future::Future;
use std::panic::resume_unwind;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_core::Timestamp;
use tidegate_core::timestamp::nanos;
use tidegate_delivery::ports::{Clock, Entropy, Monotonic};
use tokio::sync::Semaphore;
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

    async fn beside<T: Send + 'static>(
        &self,
        _: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        // Several at once would take the processor from the thread that keeps the slots.
        static ONE: Semaphore = Semaphore::const_new(1);
        let _turn = ONE.acquire().await;
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|error| resume_unwind(error.into_panic()))
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

/// The process's random generator, seeded by the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn token(&self) -> String {
        format!("{:032x}", rand::random::<u128>())
    }

    fn unit(&self) -> f64 {
        rand::random()
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

#[cfg(test)]
mod entropy_tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tokens_are_128_bits_in_hex_and_none_is_drawn_twice() {
        let tokens: BTreeSet<String> = (0..1_000).map(|_| SystemEntropy.token()).collect();
        assert_eq!(tokens.len(), 1_000);
        assert!(tokens.iter().all(|t| t.len() == 32 && t.chars().all(|c| c.is_ascii_hexdigit())));
    }

    #[test]
    fn units_lie_in_zero_to_one_and_spread() {
        let units: Vec<f64> = (0..1_000).map(|_| SystemEntropy.unit()).collect();
        assert!(units.iter().all(|u| (0.0..1.0).contains(u)));
        assert!(units.iter().any(|u| *u < 0.1) && units.iter().any(|u| *u > 0.9));
    }
}
