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
    /// 30/s:60, for all streams of a session, and for all of a connection.
    pub const OF_SESSION: Self = Self { period: Duration::from_nanos(33_333_333), burst: 60 };
    /// 300/s:600, for all streams of a client address.
    pub const OF_ADDRESS: Self = Self { period: Duration::from_nanos(3_333_333), burst: 600 };

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

    pub const fn burst(self) -> u32 {
        self.burst
    }

    pub const fn period(self) -> Duration {
        self.period
    }

    /// The time in which `tokens` come.
    pub const fn time_of(self, tokens: u32) -> Duration {
        self.period.saturating_mul(tokens)
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

    /// The time from which `tokens` can be taken. For more than the bucket holds it is the time at which
    /// the last could be taken if they were taken one by one.
    pub fn ready_at(&self, tokens: u32) -> Monotonic {
        let missing = self.full_at + self.allowance.time_of(tokens);
        missing.before(self.allowance.time_of(self.allowance.burst))
    }

    /// Whether the bucket is full: it is then equal to a new one, and can be dropped.
    pub fn is_full(&self, now: Monotonic) -> bool {
        self.full_at <= now
    }

    /// Takes a token if one is ready, and tells whether it did.
    pub fn take(&mut self, now: Monotonic) -> bool {
        let is_there = self.ready_at(1) <= now;
        if is_there {
            // A bucket that has been full for long must not grant more than its burst.
            self.full_at = self.full_at.max(now) + self.allowance.period;
        }
        is_there
    }
}
