//! The shared bucket: how many recipients may go now, where several takers share one rate.
//!
//! It is virtual scheduling, as ATM's generic cell rate algorithm (ITU-T I.371) has it: a bucket is one
//! number, the instant at which it will be *full* again. Each recipient moves that instant one period
//! T = (1 + g) / q on; a take is granted while it lies at most the tolerance τ = g/2 × 1 s ahead. All of
//! it is whole microseconds of one clock, the server's. The script of the adapter on Valkey and Redis
//! (`crates/redis/src/bucket.lua`) is this module, line by line.
//!
//! # The bound
//! Takes of one recipient each: of n that are granted within one half-open second the last found the
//! bucket full no later than τ after itself, and the n − 1 before had moved that by (n − 1)·T: so
//! (n − 1)·T < 1 s + τ, and n ≤ ⌈(1 s + τ)/T⌉ ≤ ⌈q⌉, since T ≥ 1 s × (1 + g)/q and τ ≤ g × 1 s. Whatever the rate, the rate margin
//! pays for the tolerance: as much as the slot grid allows a send to be late, and as much is left for the
//! network after the take.
//!
//! A mail of r recipients is a *block*: granted as one, or not. It may use the r − 1 periods before it, if
//! nobody did (a pacer starts it at the last of its slots), and it may take the bucket into debt (else it would be
//! refused for ever where r periods are never free at once). Within one half-open second the blocks
//! between the first and the last, r₁ and rₙ, and one recipient of the first, pay in full; so there are
//! at most ⌈q⌉ + (r₁ − 1) + (rₙ − 1) recipients in it: [`Terms::most_in_a_second`].
//!
//! Takers may come with different rates: the bound is the fastest one's. What they take never sums up to
//! more than a taker's own rate would allow it alone.

use crate::outcome::{Failure, Stage};
use crate::rate::{Rate, RateMargin};

/// A second, in microseconds.
pub const SECOND_MICROS: u64 = 1_000_000;

/// How many recipients of a block can have been saved up before it: SES takes no mail of more.
pub const LARGEST_BLOCK: u64 = 50;

/// The code of a send that a bucket refused.
pub const REFUSED: &str = "SharedBucketRefused";

/// The code of a send that was not made since the bucket does not answer.
pub const LOST: &str = "SharedBucketLost";

/// Whether a send was not made for want of the shared bucket's leave.
pub fn withheld(failure: &Failure) -> bool {
    lost(failure) || is_not_sent(failure, REFUSED)
}

/// Whether a send was not made since the bucket does not answer.
pub fn lost(failure: &Failure) -> bool {
    is_not_sent(failure, LOST)
}

fn is_not_sent(failure: &Failure, code: &str) -> bool {
    failure.stage == Stage::NotSent && failure.code.as_deref() == Some(code)
}

/// A rate, and the rate margin it is served with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Recipients a second.
    pub rate: Rate,
    /// The share of them that is held back.
    pub rate_margin: RateMargin,
}

/// What a bucket of one pace goes by, in whole microseconds.
///
/// ```
/// use tidegate_core::bucket::{Pace, Terms};
/// use tidegate_core::rate::{RateMargin, Rate};
/// let terms = Terms::of(Pace { rate: Rate::per_second(14.0)?, rate margin: RateMargin::default() });
/// assert_eq!((terms.period, terms.tolerance), (72_858, 10_000));
/// assert_eq!(terms.most_in_a_second(1), 14);
/// # Ok::<(), tidegate_core::rate::InvalidRate>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// T: what a recipient costs, (1 + g) / q, rounded up: 102 to 1,500,000,000.
    pub period: u64,
    /// τ: how far ahead of now the bucket may be full, g/2 × 1 s: 2,500 to 250,000; of a domain one period
    /// of the account more.
    pub tolerance: u64,
}

/// What is wanted of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The bucket's.
    pub terms: Terms,
    /// So many recipients, where there are so many.
    pub wanted: u64,
    /// The fewest that are of use: a block. From 1 to `wanted`.
    pub least: u64,
}

/// A bucket as it stands: when it is full, in microseconds of the server's clock; 0 where nothing is
/// known of it, which is the same as full for long.
pub type FullAt = u64;

/// What a take came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// So many recipients of the first demand, all of the others; each bucket as it stands now.
    Granted(u64, Vec<FullAt>),
    /// Not one, and nothing is taken: earlier than so many microseconds from now none would be. The
    /// index is the demand's that waits longest.
    Refused(u64, usize),
}

impl Terms {
    /// The terms of `pace`.
    pub const fn of(pace: Pace) -> Self {
        Self {
            period: pace.rate.period(pace.rate_margin).div_ceil(1_000),
            tolerance: pace.rate_margin.lateness() / 1_000,
        }
    }

    /// The terms of a domain's bucket of `rate`, of takers that pace the account at `pace`: its mail goes at
    /// one of the account's slots, so it may be a period of the account later than its own time. The bound is
    /// ⌈q⌉ + 1 then, as that of the domain's own slots.
    pub const fn of_domain(rate: Rate, pace: Pace) -> Self {
        let (own, account) =
            (Self::of(Pace { rate, rate_margin: pace.rate_margin }), Self::of(pace));
        Self { period: own.period, tolerance: own.tolerance + account.period }
    }

    /// The most recipients in any half-open second, with blocks of up to `largest`.
    pub const fn most_in_a_second(self, largest: u64) -> u64 {
        match (SECOND_MICROS + self.tolerance).div_ceil(self.period) {
            0 | 1 => largest, // no two blocks fit
            singles => singles + 2 * (largest - 1),
        }
    }

    /// In how many microseconds a take may be granted, of a bucket that is `full_at` then; 0 now.
    pub const fn wait(self, full_at: FullAt, now: u64) -> u64 {
        full_at.saturating_sub(now.saturating_add(self.tolerance))
    }

    /// How many takes of one recipient would be granted now.
    pub const fn free(self, full_at: FullAt, now: u64) -> u64 {
        if self.wait(full_at, now) > 0 { 0 } else { self.fit(self.from(full_at, now, 1), now) }
    }

    /// For how many microseconds from now the bucket has something to say: until nothing can be
    /// saved up before `full_at` any more, and no second reaches back to what it granted.
    pub const fn kept(self, full_at: FullAt, now: u64) -> u64 {
        let saved = (LARGEST_BLOCK - 1) * self.period;
        let longest = if saved > SECOND_MICROS { saved } else { SECOND_MICROS };
        full_at.saturating_sub(now) + longest
    }

    /// From when on a block of `least` is charged: at most `least` − 1 periods before now.
    const fn from(self, full_at: FullAt, now: u64, least: u64) -> u64 {
        let block = if least < LARGEST_BLOCK { least } else { LARGEST_BLOCK };
        let saved = now.saturating_sub((block - 1) * self.period);
        if full_at > saved { full_at } else { saved }
    }

    /// How many recipients fit, of a bucket charged from `from` on.
    const fn fit(self, from: u64, now: u64) -> u64 {
        (now + self.tolerance - from) / self.period + 1
    }

    /// Where the bucket stands after this demand, and how many it grants; or the wait.
    fn offer(self, full_at: FullAt, now: u64, wanted: u64, least: u64) -> Result<(u64, u64), u64> {
        match self.wait(full_at, now) {
            0 => {
                let from = self.from(full_at, now, least);
                let granted = self.fit(from, now).clamp(least, wanted);
                Ok((granted, from + granted * self.period))
            }
            wait => Err(wait),
        }
    }
}

/// Takes from all buckets or from none: each demand with how its bucket stands. Of the first as many as
/// are there, between its `least` and its `wanted`; of the others their `wanted`.
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
