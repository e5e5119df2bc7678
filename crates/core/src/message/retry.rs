//! Retries: the time for which a mail that failed for a passing reason waits in its campaign queue.

use std::time::Duration;

use crate::number::{real, whole};

/// Seconds of the first retry's delay, before jitter.
const BASE_SECONDS: u64 = 60;
/// SQS's longest `DelaySeconds`: 15 minutes.
const MAX_SECONDS: u64 = 900;

/// The delay before the retry after failed attempt number `attempt` (the first is 1). It is 60 s for
/// the first attempt and doubles up to 900 s; the jitter takes away up to half.
///
/// `jitter` is 0.0 (half the delay) to 1.0 (all of it). The result is in whole seconds, as
/// `DelaySeconds` requires. Example: attempt 3 gives 120 s to 240 s.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::retry::delay;
/// assert_eq!(delay(1, 0.0), Duration::from_secs(30));
/// assert_eq!(delay(1, 1.0), Duration::from_secs(60));
/// assert_eq!(delay(9, 1.0), Duration::from_secs(900));
/// ```
pub fn delay(attempt: u32, jitter: f64) -> Duration {
    let doublings = attempt.saturating_sub(1).min(16);
    let full = (BASE_SECONDS << doublings).min(MAX_SECONDS);
    let half = full / 2;
    let spread = whole((real(full - half) * jitter.clamp(0.0, 1.0)).round());
    Duration::from_secs(half + spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_delay_doubles_from_a_minute_to_a_quarter_of_an_hour() {
        let ends: Vec<_> = (1..=6).map(|n| delay(n, 1.0).as_secs()).collect();
        assert_eq!(ends, [60, 120, 240, 480, 900, 900]);
        let starts: Vec<_> = (1..=6).map(|n| delay(n, 0.0).as_secs()).collect();
        assert_eq!(starts, [30, 60, 120, 240, 450, 450]);
        assert_eq!(delay(1, 0.5).as_secs(), 45);
    }

    proptest! {
        #[test]
        fn jitter_stays_in_the_upper_half_for_any_attempt(attempt: u32, jitter in 0.0_f64..=1.0) {
            let delay = delay(attempt, jitter).as_secs();
            prop_assert!((30..=900).contains(&delay));
        }
    }
}
