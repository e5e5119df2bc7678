//! Whether the backlog has grown for an hour: more mail comes than the quota lets go.

use std::array::from_fn;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::BackPressureFigures;
use crate::identity::EpochMillis;

/// Milliseconds of one reading's period.
const PERIOD: u64 = 5 * 60 * 1_000;
/// Readings of which one median is taken: those of a quarter of an hour.
const QUARTER: usize = 3;
/// Readings that are kept: those of five quarters. The medians of the first and the last are an hour apart.
const KEPT: usize = 5 * QUARTER;
/// How long a growth lasts at least.
const LASTS: Duration = Duration::from_mins(30);
/// Seconds of sending by which the backlog must grow in an hour: a tenth of it.
const TENTH: u64 = 360;

/// The backlog of the last 75 minutes in mails: the first known reading of each five minutes, the newest last.
///
/// SQS's counts are approximate, so single readings decide nothing: of each quarter of an hour the median counts.
/// A reading may be missing in each quarter. An empty backlog forgets what was before: whatever comes later did
/// not grow out of it. More than 4,294,967,295 mails count as that many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Option<u64>>", into = "Vec<Option<u64>>")]
pub struct BacklogHistory([Option<NonZeroU32>; KEPT]);

impl BacklogHistory {
    /// True if nothing is known of the last 75 minutes, or the backlog is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [None; KEPT]
    }

    /// The number of five-minute periods between two times.
    pub(super) const fn periods(earlier: EpochMillis, later: EpochMillis) -> u64 {
        (later.as_millis() / PERIOD).saturating_sub(earlier.as_millis() / PERIOD)
    }

    /// True if only this one has a reading of the newest five minutes.
    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        self.0.last().is_some_and(Option::is_some) && other.0.last().is_some_and(Option::is_none)
    }

    /// Adds a reading of `mails`, so many `periods` after the last one.
    pub(super) fn then(self, periods: u64, mails: Option<u64>) -> Self {
        if mails == Some(0) {
            return Self::default();
        }
        let by = usize::try_from(periods).unwrap_or(KEPT);
        let mut kept = from_fn(|at| self.0.get(at.saturating_add(by)).copied().flatten());
        kept[KEPT - 1] = kept[KEPT - 1].or_else(|| reading(mails));
        Self(kept)
    }

    /// True if the backlog, now with these `figures`, has grown for an hour: each quarter of an hour is above the
    /// one before, and the last is above the first by more than a tenth of what can be sent in an hour. Once that
    /// was `found`, so long ago, it is so until the backlog is no larger than an hour before, and for half an hour
    /// at least, so that an operator hears of it once.
    pub(super) fn grows(&self, figures: &BackPressureFigures, found: Option<Duration>) -> bool {
        if self.is_empty() {
            return false;
        }
        let quarters = self.0.chunks(QUARTER).enumerate();
        let quarters = quarters.map(|(quarter, readings)| median(readings, quarter == 0));
        let Some(quarters) = quarters.collect::<Option<Vec<u64>>>() else { return found.is_some() };
        let grown = quarters[quarters.len() - 1].saturating_sub(quarters[0]);
        let above = |seconds: u64| match (figures.backlog_mails, figures.backlog_seconds) {
            // Mails of a tenth of an hour: `seconds` of the sending that takes `takes` for all `mails`.
            (Some(mails), Some(takes)) => {
                grown.saturating_mul(takes) > mails.saturating_mul(seconds)
            }
            _ => false,
        };
        match found {
            Some(ago) => grown > 0 || ago < LASTS,
            None => quarters.is_sorted_by(|a, b| a < b) && above(TENTH),
        }
    }
}

fn reading(mails: Option<u64>) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(mails?).unwrap_or(u32::MAX))
}

/// The median of the known readings; none if less than two are known. Of two it is the lower one, in the `first`
/// quarter the upper one: the one that says less of a growth.
fn median(readings: &[Option<NonZeroU32>], first: bool) -> Option<u64> {
    let mut known: Vec<u64> = readings.iter().flatten().map(|mails| mails.get().into()).collect();
    known.sort_unstable();
    let middle = if first { known.len() / 2 } else { known.len().saturating_sub(1) / 2 };
    if known.len() < 2 { None } else { known.get(middle).copied() }
}

impl From<BacklogHistory> for Vec<Option<u64>> {
    /// Without the periods before the first reading.
    fn from(history: BacklogHistory) -> Self {
        let known = history.0.into_iter().skip_while(Option::is_none);
        known.map(|mails| mails.map(|mails| mails.get().into())).collect()
    }
}

impl From<Vec<Option<u64>>> for BacklogHistory {
    fn from(readings: Vec<Option<u64>>) -> Self {
        let mut newest_first = readings.into_iter().rev().chain(std::iter::repeat(None));
        let mut kept = from_fn(|_| reading(newest_first.next().flatten()));
        kept.reverse();
        Self(kept)
    }
}
