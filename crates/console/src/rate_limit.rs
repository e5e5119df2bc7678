//! Limits the rate of events with a token bucket for each stream. No task runs in the background: a bucket is
//! stored as the instant at which it is full again, and its level follows from the time that has passed.

use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use tidegate_delivery::ports::Monotonic;

/// Rate and burst of a token bucket: events a second, and the number of tokens that it holds.
///
/// ```
/// use tidegate_console::rate_limit::BucketRate;
/// let allowance: BucketRate = "5/s:10".parse()?;
/// assert_eq!(allowance, BucketRate::new(5.0, 10)?);
/// assert!("0/s:10".parse::<BucketRate>().is_err());
/// # Ok::<(), tidegate_console::rate_limit::InvalidBucketRate>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketRate {
    /// Time between two tokens.
    period: Duration,
    burst: u32,
}

/// An allowance that no bucket can be filled with.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{0:?} is no allowance; allowed is RATE/s:BURST with 0.1 to 1000 events a second and a burst of 1 to 10000, such as 5/s:10"
)]
pub struct InvalidBucketRate(pub String);

impl BucketRate {
    /// 5/s:10, for a stream that is told nothing else.
    pub const OF_STREAM: Self = Self { period: Duration::from_millis(200), burst: 10 };
    /// 1/s:10, for the wrong tokens of an address.
    pub(crate) const OF_LOGINS: Self = Self { period: Duration::from_secs(1), burst: 10 };

    /// For the openings of an address that may have so many streams: each twice at once, and all of them every 20 s.
    pub(crate) fn of_openings(streams: u16) -> Self {
        let streams = u32::from(streams.max(1));
        Self { period: Duration::from_secs(20) / streams, burst: 2 * streams }
    }

    /// `per_second` events a second (0.1 to 1,000), `burst` (1 to 10,000) at once.
    ///
    /// # Errors
    /// [`InvalidBucketRate`].
    pub fn new(per_second: f64, burst: u32) -> Result<Self, InvalidBucketRate> {
        if (0.1..=1_000.0).contains(&per_second) && (1..=10_000).contains(&burst) {
            return Ok(Self { period: Duration::from_secs_f64(1.0 / per_second), burst });
        }
        Err(InvalidBucketRate(format!("{per_second}/s:{burst}")))
    }
}

impl FromStr for BucketRate {
    type Err = InvalidBucketRate;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once("/s:");
        let parsed =
            parts.and_then(|(rate, burst)| Some((rate.parse().ok()?, burst.parse().ok()?)));
        let invalid = || InvalidBucketRate(text.to_owned());
        parsed.ok_or_else(invalid).and_then(|(rate, burst)| Self::new(rate, burst))
    }
}

/// A token bucket, stored as one instant: when it will be full again. This is virtual scheduling, the
/// generic cell rate algorithm (GCRA) of ITU-T I.371. In any time d it grants at most
/// burst + d / period tokens.
///
/// An example with `2/s:3`, that is a period of 500 ms and a burst of 3. The bucket is full at 0 s.
/// Each token moves `full_at` by one period: after three tokens it is 1.5 s, and the bucket is empty.
/// The next token is ready at `full_at` + 1 period - 3 periods = 0.5 s. After a pause until 10 s the
/// bucket is not fuller than full: `full_at` moves from `now`, not from 1.5 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    allowance: BucketRate,
    full_at: Monotonic,
}

impl TokenBucket {
    pub const fn full(allowance: BucketRate, now: Monotonic) -> Self {
        Self { allowance, full_at: now }
    }

    pub(crate) fn is_full(&self, now: Monotonic) -> bool {
        self.full_at <= now
    }

    /// The time from which a token can be taken.
    pub fn ready_at(&self) -> Monotonic {
        let BucketRate { period, burst } = self.allowance;
        (self.full_at + period).before(period.saturating_mul(burst))
    }

    /// Takes a token if one is ready, and tells whether it did.
    pub fn take(&mut self, now: Monotonic) -> bool {
        let is_there = self.ready_at() <= now;
        if is_there {
            // A bucket that has been full for long must not grant more than its burst.
            self.full_at = self.full_at.max(now) + self.allowance.period;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Denied at every step before the promised instant, granted exactly at it.
        #[test]
        fn a_token_is_there_exactly_when_it_was_promised(
            rate in 1_u32..50, burst in 1_u32..20, taken in 0_u32..40, waits in prop::collection::vec(0_u64..500, 1..20)
        ) {
            let start = Monotonic::from_origin(Duration::ZERO);
            let allowance = BucketRate::new(f64::from(rate), burst).unwrap();
            let mut bucket = TokenBucket::full(allowance, start);
            let mut now = start;
            for _ in 0..taken {
                bucket.take(now);
            }
            for wait in waits {
                now = now + Duration::from_millis(wait);
                let ready = bucket.ready_at();
                let mut early = bucket;
                prop_assert_eq!(early.take(ready.before(Duration::from_nanos(1))), ready == start);
                let mut exact = bucket;
                prop_assert!(exact.take(ready.max(now)));
                bucket.take(now);
            }
        }

        /// However a stream asks: of any stretch d, at most burst + d × rate go out; and where it asks as soon as
        /// it may, all of them do.
        #[test]
        fn a_bucket_bounds_every_stretch_and_its_tokens_are_all_used(
            rate in 1_u32..30, burst in 1_u32..30, pauses in prop::collection::vec(0_u64..3_000, 0..40)
        ) {
            let start = Monotonic::from_origin(Duration::ZERO);
            let allowance = BucketRate::new(f64::from(rate), burst).unwrap();
            let mut bucket = TokenBucket::full(allowance, start);
            let (mut now, mut granted) = (start, Vec::new());
            for pause in pauses {
                now = now + Duration::from_millis(pause);
                while bucket.take(now) {
                    granted.push(now);
                }
            }
            for (place, from) in granted.iter().enumerate() {
                for (further, until) in granted[place..].iter().enumerate() {
                    let span = until.saturating_since(*from).as_secs_f64();
                    let most = f64::from(burst) + span * f64::from(rate) + 1e-6;
                    prop_assert!(f64::from(u32::try_from(further + 1).unwrap()) <= most);
                }
            }
            let all = (0..100).fold((start, TokenBucket::full(allowance, start)), |(_, mut bucket), _| {
                let at = bucket.ready_at().max(start);
                assert!(bucket.take(at));
                (at, bucket)
            });
            let took = Duration::from_secs_f64(f64::from(100_u32.saturating_sub(burst)) / f64::from(rate));
            prop_assert!(all.0.saturating_since(start + took) < Duration::from_millis(1), "{:?}", all.0);
        }
    }

    #[test]
    fn an_allowance_says_what_is_allowed() {
        for text in ["5", "5/s", "5/s:0", "0.01/s:1", "x/s:1", "5/s:1.5", "-1/s:3"] {
            let error = text.parse::<BucketRate>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("0.1 to 1000"), "{error}");
        }
    }
}
