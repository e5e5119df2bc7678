//! The shared bucket: how many recipients may be sent to now if several senders share one rate.
//!
//! # The algorithm
//! It is virtual scheduling, the generic cell rate algorithm of ATM (ITU-T I.371). A bucket is one
//! number: the time at which it will be *full* again. Each recipient moves this time forward by one
//! period T = (1 + g) / q. A take is granted if the time lies at most the tolerance τ = g/2 × 1 s in
//! the future. All times are whole microseconds of one clock, the server's. The script for Valkey and
//! Redis (`crates/adapters/src/redis/bucket.lua`) is a copy of this module, line by line.
//!
//! Example with q = 14/s and g = 0.02: T = 72,858 µs, τ = 10,000 µs. A take at time 0 from a full
//! bucket is granted; the bucket is then full at 72,858. The next take is granted from 62,858 on and
//! sets 145,716.
//!
//! # The bound
//! Takes of one recipient: let n takes be granted within one half-open second. At the last of them the
//! bucket is full no later than τ after it, and the n − 1 takes before have moved this time by
//! (n − 1)·T. So (n − 1)·T < 1 s + τ, and n ≤ ⌈(1 s + τ)/T⌉ ≤ ⌈q⌉, because T ≥ 1 s × (1 + g)/q and
//! τ ≤ g × 1 s. In the example: ⌈1,010,000 / 72,858⌉ = 14. The rate margin pays for the tolerance at
//! every rate. Half of it allows late sends, as on the slot grid; the other half is left for the
//! network after the take.
//!
//! A mail with r recipients takes a *block*, which is granted as a whole or not at all. It may use the
//! r − 1 periods before it if they are unused. It
//! may also move the bucket into debt; otherwise it would be refused for ever if r periods are never
//! free at once, as with a pacer that starts a mail at the first of its slots. Within a half-open second, the blocks between the first and the last (r₁ and rₙ
//! recipients), and one recipient of the first, pay in full. So there are at most
//! ⌈q⌉ + (r₁ − 1) + (rₙ − 1) recipients in it: [`Terms::most_in_a_second`].
//!
//! Senders may use different rates: the bound is that of the fastest. A sender never gets more than its
//! own rate would give it alone.

use crate::outcome::{Failure, Stage};
use crate::rate::{Rate, RateMargin};

/// Microseconds in one second, the unit of all times here.
pub const SECOND_MICROS: u64 = 1_000_000;

/// Largest number of recipients in one block: SES takes at most 50 recipients in one mail.
pub const LARGEST_BLOCK: u64 = 50;

/// The most mails that one recipient is sent at once, where there is a limit for recipients.
pub const AT_ONCE: u64 = 10;

/// Error code of a send that did not start because the bucket refused it.
pub const REFUSED: &str = "SharedBucketRefused";

/// Error code of a send that did not start because the bucket does not answer.
pub const LOST: &str = "SharedBucketLost";

/// True if a send did not start because the shared bucket refused it or did not answer.
pub fn withheld(failure: &Failure) -> bool {
    lost(failure) || is_not_sent(failure, REFUSED)
}

/// True if a send did not start because the bucket does not answer.
pub fn lost(failure: &Failure) -> bool {
    is_not_sent(failure, LOST)
}

fn is_not_sent(failure: &Failure, code: &str) -> bool {
    failure.stage == Stage::NotSent && failure.code.as_deref() == Some(code)
}

/// A rate and the rate margin with which it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Recipients per second, before the margin.
    pub rate: Rate,
    /// Fraction by which the period is longer than 1/`rate`.
    pub rate_margin: RateMargin,
}

/// The period and the tolerance of a bucket, in whole microseconds.
///
/// ```
/// use tidegate_core::bucket::{Pace, Terms};
/// use tidegate_core::rate::{RateMargin, Rate};
/// let terms = Terms::of(Pace { rate: Rate::per_second(14.0)?, rate_margin: RateMargin::default() });
/// assert_eq!((terms.period, terms.tolerance), (72_143, 5_000));
/// assert_eq!(terms.most_in_a_second(1), 14);
/// # Ok::<(), tidegate_core::rate::InvalidRate>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// T, the time that one recipient costs: (1 + g) / q, rounded up; 102 to 1,500,000,000.
    pub period: u64,
    /// τ, how far in the future the bucket may be full at a take: g/2 × 1 s, 2,500 to 250,000. For a
    /// limit's bucket one period of the account is added.
    pub tolerance: u64,
}

/// A request for recipients from one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The period and the tolerance of the bucket, for this sender's pace.
    pub terms: Terms,
    /// Number of recipients wanted; fewer are granted if fewer are free.
    pub wanted: u64,
    /// Least number of recipients that is of use, 1 to `wanted`: a mail's number of recipients.
    pub least: u64,
}

/// The state of a bucket: the time at which it is full, in microseconds of the server's clock. 0 if
/// nothing is known of the bucket, which means that it has been full for long.
pub type FullAt = u64;

/// The answer to a request for recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The number granted of the first demand (the others are granted in full), and each bucket's new
    /// state.
    Granted(u64, Vec<FullAt>),
    /// Nothing is granted and no bucket changes. The first number is the wait: microseconds before
    /// which no request can be granted. The second is the index of the demand that waits longest.
    Refused(u64, usize),
}

impl Terms {
    /// The terms of the account's bucket at `pace`.
    pub const fn of(pace: Pace) -> Self {
        Self {
            period: pace.rate.period(pace.rate_margin).div_ceil(1_000),
            tolerance: pace.rate_margin.lateness() / 1_000,
        }
    }

    /// The terms of a limit's bucket of `rate`, for senders that pace the account at `pace`. A
    /// limit's mail starts at one of the account's slots, so it may be one period of the account later
    /// than its own time. The bound is therefore ⌈q⌉ + 1, as on the limit's own slot grid.
    pub const fn of_limit(rate: Rate, pace: Pace) -> Self {
        let (own, account) =
            (Self::of(Pace { rate, rate_margin: pace.rate_margin }), Self::of(pace));
        Self { period: own.period, tolerance: own.tolerance + account.period }
    }

    /// The terms of the bucket of one recipient, at `rate` in recipients per second: as many mails at once as an hour
    /// brings, at most [`AT_ONCE`], then one each period. A mail and its correction come at once; a loop does not go on.
    ///
    /// Example: 5 an hour, so T = 727.2 s with a margin of 0.01: five at once, then one after each T.
    pub const fn of_recipient(rate: Rate, pace: Pace) -> Self {
        let Self { period, tolerance } = Self::of_limit(rate, pace);
        // Rounded, since the period is longer by the margin.
        let in_an_hour = (3_600 * SECOND_MICROS + period / 2) / period;
        let at_once = if in_an_hour < AT_ONCE { in_an_hour } else { AT_ONCE };
        Self { period, tolerance: tolerance + at_once.saturating_sub(1) * period }
    }

    /// The largest number of recipients in any half-open second, with blocks of at most `largest`
    /// recipients: ⌈(1 s + τ)/T⌉ for single recipients, and `largest` − 1 more for the first and the
    /// last block.
    pub const fn most_in_a_second(self, largest: u64) -> u64 {
        match (SECOND_MICROS + self.tolerance).div_ceil(self.period) {
            0 | 1 => largest, // no two blocks fit
            singles => singles + 2 * (largest - 1),
        }
    }

    /// Microseconds until a take can be granted from a bucket in state `full_at`; 0 if it can be now.
    pub const fn wait(self, full_at: FullAt, now: u64) -> u64 {
        full_at.saturating_sub(now.saturating_add(self.tolerance))
    }

    /// Microseconds from now for which the state must be stored: until the largest block can no longer
    /// use periods before `full_at`, and at least one second after `full_at`. A bucket that expired
    /// then answers as a full one.
    pub fn kept(self, full_at: FullAt, now: u64) -> u64 {
        let saved = (LARGEST_BLOCK - 1) * self.period;
        full_at.saturating_sub(now) + saved.max(SECOND_MICROS)
    }

    /// The number granted for this demand and the bucket's new state; or the wait in microseconds.
    fn offer(self, full_at: FullAt, now: u64, wanted: u64, least: u64) -> Result<(u64, u64), u64> {
        let wait = self.wait(full_at, now);
        if wait > 0 {
            return Err(wait);
        }
        // A block of `least` recipients is charged from at most `least` − 1 periods before now on, and never before
        // `full_at`.
        let saved = (least.min(LARGEST_BLOCK) - 1) * self.period;
        let from = full_at.max(now.saturating_sub(saved));
        // The last recipient may be τ ahead.
        let fit = (now + self.tolerance - from) / self.period + 1;
        let granted = fit.clamp(least, wanted);
        Ok((granted, from + granted * self.period))
    }
}

/// Takes from all buckets or from none. Each entry is a bucket's state and the demand on it. The first
/// demand gets between its `least` and its `wanted` recipients, the others exactly their `wanted`.
///
/// Example at 1,000/s and a margin of 0.02 (T = 1,020 µs, τ = 10,000 µs), from a full bucket: a demand
/// for 40 with `least` 1 gets 10, because 9 periods fit into τ. A mail of 40 recipients (`least` 40)
/// gets all 40: it uses the 39 unused periods before now, and the bucket is full at now + 1,020. If the
/// bucket becomes full just now, the mail also gets 40 and leaves it in debt until now + 40,800; the
/// next take waits 30,800 µs.
pub fn take(buckets: &[(FullAt, Demand)], now: u64) -> Decision {
    let mut granted = 0;
    let mut longest = (0, 0);
    let mut after = Vec::with_capacity(buckets.len());
    for (index, (full_at, demand)) in buckets.iter().enumerate() {
        let least = if index == 0 { demand.least } else { demand.wanted };
        match demand.terms.offer(*full_at, now, demand.wanted, least) {
            Ok((count, full_at)) => {
                granted = if index == 0 { count } else { granted };
                after.push(full_at);
            }
            // The longest wait counts: before its end at least this bucket would still refuse.
            Err(wait) if wait > longest.0 => longest = (wait, index),
            Err(_) => {}
        }
    }
    if longest.0 > 0 {
        Decision::Refused(longest.0, longest.1)
    } else {
        Decision::Granted(granted, after)
    }
}

#[cfg(test)]
mod tests;
