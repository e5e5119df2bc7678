//! How long express mail waits: a histogram in the poller's counters, and its percentiles.
//!
//! Each express mail is counted in the bucket of its time from the express queue to SES's acceptance. The
//! sums of many windows add up, which percentiles do not, so the ledger keeps the buckets.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::counters::{Counter, at_least_0};

/// The buckets' upper bounds, in milliseconds. One more bucket holds what waited longer.
const BOUNDS_MS: [u64; 14] =
    [25, 50, 75, 100, 125, 150, 200, 250, 400, 600, 1_000, 2_500, 10_000, 60_000];

/// The part of [`Counter::ExpressWaits`] that counts a mail which waited so long: its bucket's upper bound
/// in milliseconds, or `more` above a minute.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(tidegate_core::waits::bucket(Duration::from_millis(90)), "100");
/// assert_eq!(tidegate_core::waits::bucket(Duration::from_secs(90)), "more");
/// ```
pub fn bucket(waited: Duration) -> String {
    let bound = BOUNDS_MS.iter().find(|bound| waited <= Duration::from_millis(**bound));
    bound.map_or_else(|| "more".to_owned(), u64::to_string)
}

/// Express mails by how long they waited.
///
/// ```
/// use tidegate_core::waits::WaitHistogram;
/// let sums = [("express_waits.50".to_owned(), 98), ("express_waits.100".to_owned(), 2)];
/// let waits = WaitHistogram::of_sums(&sums.into());
/// assert_eq!(waits.percentile(50).unwrap().to_string(), "50 ms");
/// assert_eq!(waits.percentile(99).unwrap().to_string(), "100 ms");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitHistogram {
    counts: [u64; BOUNDS_MS.len()],
    more: u64,
}

/// The upper bound of a percentile's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitBound {
    /// At most this.
    AtMost(Duration),
    /// More than a minute.
    More,
}

impl WaitHistogram {
    /// The histogram of everything that the ledger's sums count.
    pub fn of_sums(sums: &BTreeMap<String, i64>) -> Self {
        let count = |bucket: &str| at_least_0(Counter::ExpressWaits.sum_of(bucket, sums));
        Self { counts: BOUNDS_MS.map(|bound| count(&bound.to_string())), more: count("more") }
    }

    /// The mails that were counted after `before` was taken.
    pub fn since(&self, before: &Self) -> Self {
        let mut counts = self.counts;
        for (count, before) in counts.iter_mut().zip(before.counts) {
            *count = count.saturating_sub(before);
        }
        Self { counts, more: self.more.saturating_sub(before.more) }
    }

    /// The number of mails.
    pub fn mails(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.more
    }

    /// The time that `percent` (1 to 100) of 100 mails did not exceed, as their bucket's upper bound. None
    /// without mails.
    pub fn percentile(&self, percent: u64) -> Option<WaitBound> {
        let mails = self.mails();
        let rank = mails.saturating_mul(percent.clamp(1, 100)).div_ceil(100);
        let mut below = 0;
        for (bound, count) in self.buckets() {
            below += count;
            if below >= rank && mails > 0 {
                return Some(WaitBound::AtMost(bound));
            }
        }
        (mails > 0).then_some(WaitBound::More)
    }

    /// Each bucket's upper bound and its mails; those above the last bound are not among them.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        BOUNDS_MS.into_iter().map(Duration::from_millis).zip(self.counts)
    }
}

impl WaitBound {
    /// The bound; none above a minute.
    pub const fn at_most(self) -> Option<Duration> {
        match self {
            Self::AtMost(bound) => Some(bound),
            Self::More => None,
        }
    }
}

impl Serialize for WaitBound {
    /// In seconds; null above a minute.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.at_most().map(|bound| bound.as_secs_f64()).serialize(to)
    }
}

impl fmt::Display for WaitBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) if *bound < Duration::from_secs(1) => {
                write!(f, "{} ms", bound.as_millis())
            }
            Self::AtMost(bound) => write!(f, "{} s", bound.as_secs_f64()),
            Self::More => f.write_str("more than 60 s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_percentile_is_the_bound_of_the_bucket_that_holds_it(
            mut waits in prop::collection::vec(0_u64..90_000, 1..300), percent in 1_u64..=100,
        ) {
            let mut sums = BTreeMap::new();
            for wait in &waits {
                let part = Counter::ExpressWaits.of_campaign(&bucket(Duration::from_millis(*wait)));
                *sums.entry(part).or_insert(0_i64) += 1;
            }
            waits.sort_unstable();
            let rank = (waits.len() * usize::try_from(percent).unwrap()).div_ceil(100);
            let exact = Duration::from_millis(waits[rank - 1]);
            let told = WaitHistogram::of_sums(&sums).percentile(percent).unwrap();
            prop_assert_eq!(
                told.at_most().map_or_else(|| "more".to_owned(), |b| b.as_millis().to_string()),
                bucket(exact),
            );
        }
    }

    #[test]
    fn only_what_came_since_counts_and_nothing_has_no_percentile() {
        let sums = |fast, slow| {
            let sums = [("express_waits.25", fast), ("express_waits.more", slow)];
            BTreeMap::from(sums.map(|(name, sum)| (name.to_owned(), sum)))
        };
        let (before, after) =
            (WaitHistogram::of_sums(&sums(900, 0)), WaitHistogram::of_sums(&sums(901, 1)));
        let since = after.since(&before);
        assert_eq!((since.mails(), since.percentile(99)), (2, Some(WaitBound::More)));
        assert_eq!(since.percentile(50), Some(WaitBound::AtMost(Duration::from_millis(25))));
        assert_eq!(after.since(&after).percentile(99), None);
    }
}
