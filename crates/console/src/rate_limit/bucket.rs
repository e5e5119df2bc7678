use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use tidegate_delivery::ports::Monotonic;

/// What a bucket is filled with: events a second, and how many it holds.
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
    /// What a token takes to come.
    period: Duration,
    /// How many tokens there are at most.
    burst: u32,
}

/// An allowance that no bucket can be filled with.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{0:?} is no allowance; allowed is RATE/s:BURST with 0.1 to 1000 events a second and a burst of 1 to 10000, such as 5/s:10"
)]
pub struct InvalidBucketRate(pub String);

impl BucketRate {
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

    /// How many tokens there are at most.
    pub const fn burst(self) -> u32 {
        self.burst
    }

    /// How long a token takes to come.
    pub const fn period(self) -> Duration {
        self.period
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

/// A bucket, as the instant at which it is full: virtual scheduling, as ATM's generic cell rate
/// algorithm (ITU-T I.371) has it. In any stretch of time d it grants at most burst + d / period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    allowance: BucketRate,
    full_at: Monotonic,
}

impl TokenBucket {
    /// A full bucket.
    pub const fn full(allowance: BucketRate, now: Monotonic) -> Self {
        Self { allowance, full_at: now }
    }

    /// From when on there are `tokens`; of more than it holds, when as many could have been taken one
    /// by one.
    pub fn ready_at(&self, tokens: u32) -> Monotonic {
        let BucketRate { period, burst } = self.allowance;
        let missing = self.full_at + period.saturating_mul(tokens);
        missing.before(period.saturating_mul(burst))
    }

    /// Whether nothing is missing: then it is the same as a new one.
    pub fn is_full(&self, now: Monotonic) -> bool {
        self.full_at <= now
    }

    /// Takes a token, where there is one.
    pub fn take(&mut self, now: Monotonic) -> bool {
        let is_there = self.ready_at(1) <= now;
        if is_there {
            self.full_at = self.full_at.max(now) + self.allowance.period;
        }
        is_there
    }
}
