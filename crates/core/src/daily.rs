//! The daily quota: SES lets an account send so many recipients in any 24 hours.
//!
//! The campaigns go at the full rate until the quota less a reserve is used up; then only express
//! mail is sent, until enough is free again. Or the quota is spread over the day: then the rate is
//! capped, and the end is not reached.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::identity::EpochMillis;
use crate::rate::Rate;

/// Seconds of the day that SES counts over.
const DAY_SECONDS: f64 = 86_400.0;
/// A hold is lifted once this part of the quota is free.
const HYSTERESIS: u64 = 100;
/// Of one mail.
const MOST_RECIPIENTS: u64 = 50;
const MILLION: u64 = 1_000_000;

/// What `GetAccount` told of the daily quota, and what the ledger had counted then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DailyReading {
    /// `Max24HourSend`, recipients.
    pub quota: u64,
    /// `SentLast24Hours`, recipients.
    pub sent: u64,
    /// The ledger's sum of sent recipients as this was read: what it has grown by since is sent on
    /// top.
    pub counted: i64,
    /// When.
    pub read_at: EpochMillis,
}

/// What of the daily quota is kept from the campaigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// So many recipients.
    Recipients(u64),
    /// This share of the quota, in millionths.
    Share(u64),
}

/// A text that is no reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reserve is a number of recipients such as 500, or a share from 0% to 99%")]
pub struct InvalidReserve;

impl FromStr for Reserve {
    type Err = InvalidReserve;

    fn from_str(text: &str) -> Result<Self, InvalidReserve> {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(Self::Recipients).map_err(|_| InvalidReserve);
        };
        let percent: f64 = percent.trim_end().parse().map_err(|_| InvalidReserve)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 990,000")]
        let millionths = (percent * 1e4).round() as u64;
        (0.0..=99.0).contains(&percent).then_some(Self::Share(millionths)).ok_or(InvalidReserve)
    }
}

/// How the daily quota is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DailyPace {
    /// At the full rate until it is used up.
    #[default]
    Full,
    /// Evenly over the day.
    Spread,
}

/// How the daily quota is used, and what of it campaigns may not use.
///
/// ```
/// use tidegate_core::daily::{DailyPolicy, DailyPace};
/// let policy = DailyPolicy { pace: DailyPace::Spread, reserve: "1%".parse()? };
/// assert_eq!(policy.open_to_campaigns(50_000), 49_500);
/// // 49,500 recipients in 86,400 s.
/// assert_eq!(policy.cap(50_000).unwrap().as_per_second(), 0.572916);
/// # Ok::<(), tidegate_core::daily::InvalidReserve>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DailyPolicy {
    /// `TIDEGATE_DAILY`.
    pub pace: DailyPace,
    /// `TIDEGATE_DAILY_RESERVE`.
    pub reserve: Reserve,
}

impl Default for DailyPolicy {
    fn default() -> Self {
        Self { pace: DailyPace::Full, reserve: Reserve::Share(MILLION / 100) }
    }
}

impl DailyPolicy {
    /// Recipients of `quota` that campaigns may use.
    pub fn open_to_campaigns(self, quota: u64) -> u64 {
        let reserve = match self.reserve {
            Reserve::Recipients(recipients) => recipients,
            Reserve::Share(millionths) => {
                let share = u128::from(quota) * u128::from(millionths);
                u64::try_from(share.div_ceil(u128::from(MILLION))).unwrap_or(u64::MAX)
            }
        };
        quota.saturating_sub(reserve)
    }

    /// What the rate is capped at: the quota less the reserve, spread over the day; none at the
    /// full pace. Never below [`Rate::MIN`].
    #[expect(clippy::cast_precision_loss, reason = "a daily quota is far below 2^52")]
    pub fn cap(self, quota: u64) -> Option<Rate> {
        let spread = self.open_to_campaigns(quota) as f64 / DAY_SECONDS;
        let per_second = spread.clamp(Rate::MIN.as_per_second(), Rate::MAX.as_per_second());
        (self.pace == DailyPace::Spread).then(|| Rate::per_second(per_second).unwrap_or(Rate::MIN))
    }

    /// Recipients that campaigns may be sent in one window, where the ledger's sum is now `counted`
    /// and `unreported` more, at most, are under way.
    pub fn budget(self, reading: &DailyReading, counted: i64, unreported: u64) -> u64 {
        let since = u64::try_from(counted.saturating_sub(reading.counted)).unwrap_or(0);
        let used = reading.sent.saturating_add(since).saturating_add(unreported);
        self.open_to_campaigns(reading.quota).saturating_sub(used)
    }

    /// Whether enough is free for campaigns to go on, at a quota of `rate`.
    pub fn frees_campaigns(self, reading: &DailyReading, rate: Rate) -> bool {
        frees(self.open_to_campaigns(reading.quota), reading, rate)
    }
}

/// Whether enough is free for any mail to go on, at a quota of `rate`.
pub fn frees_all(reading: &DailyReading, rate: Rate) -> bool {
    frees(reading.quota, reading, rate)
}

/// A hundredth of the quota, and what the next windows need to send any mail: else a hold would be
/// lifted and set again for every few mails.
fn frees(open: u64, reading: &DailyReading, rate: Rate) -> bool {
    let enough = (reading.quota / HYSTERESIS).max(4 * rate.ceil() + MOST_RECIPIENTS);
    open > 0 && open.saturating_sub(reading.sent) >= enough.min(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn policy(reserve: &str) -> DailyPolicy {
        DailyPolicy { pace: DailyPace::Full, reserve: reserve.parse().unwrap() }
    }

    const fn reading(quota: u64, sent: u64) -> DailyReading {
        DailyReading { quota, sent, counted: 1_000, read_at: EpochMillis::new(0) }
    }

    #[test]
    fn a_reserve_is_recipients_or_a_share() {
        assert_eq!(policy("500").open_to_campaigns(50_000), 49_500);
        assert_eq!(policy("2.5%").open_to_campaigns(200), 195);
        assert_eq!(policy("1%").open_to_campaigns(150), 148);
        assert_eq!(policy("500").open_to_campaigns(200), 0);
        for text in ["", "x", "-1", "100%", "-1%", "NaN%", "1.5", "%"] {
            assert!(text.parse::<Reserve>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_was_sent_since_the_reading_is_off_the_budget_and_so_is_what_is_not_reported() {
        let policy = policy("100");
        assert_eq!(policy.budget(&reading(1_000, 300), 1_000, 0), 600);
        assert_eq!(policy.budget(&reading(1_000, 300), 1_250, 28), 322);
        assert_eq!(policy.budget(&reading(1_000, 300), 1_600, 28), 0);
        // A sum that was set back (a new table) takes nothing away.
        assert_eq!(policy.budget(&reading(1_000, 300), 0, 0), 600);
    }

    proptest! {
        /// Windows claim one after the other, and each reports some windows later.
        #[test]
        fn windows_that_do_not_know_of_each_other_keep_within_it(
            quota in 1_u64..500, slots in 1_u64..50, lags in prop::collection::vec(0_usize..=2, 200),
        ) {
            let (policy, reading) = (policy("0"), DailyReading { counted: 0, ..reading(quota, 0) });
            let mut sent: Vec<u64> = Vec::new();
            for (window, lag) in lags.iter().enumerate() {
                let reported = sent.iter().take(window.saturating_sub(*lag)).sum::<u64>();
                let counted = i64::try_from(reported).unwrap();
                sent.push(policy.budget(&reading, counted, 2 * slots).min(slots));
            }
            let total = sent.iter().sum::<u64>();
            prop_assert!(total <= quota && total + 2 * slots >= quota.min(190 * slots), "{total}");
        }
    }

    #[test]
    fn a_hold_is_lifted_once_a_hundredth_and_a_few_windows_worth_are_free() {
        let (policy, slow) = (policy("10%"), Rate::per_second(0.5).unwrap());
        let of = |quota, sent| policy.frees_campaigns(&reading(quota, sent), slow);
        assert!(!of(10_000, 8_901) && of(10_000, 8_900));
        assert!(!of(1_000, 847) && of(1_000, 846));
        // Of a quota below that, all.
        assert!(!of(50, 1) && of(50, 0) && !of(0, 0));
        let fast = Rate::per_second(100.0).unwrap();
        assert!(!frees_all(&reading(10_000, 9_551), fast));
        assert!(frees_all(&reading(10_000, 9_550), fast));
    }

    #[test]
    fn only_the_spread_pace_caps_the_rate() {
        assert_eq!(policy("0").cap(86_400), None);
        let spread = DailyPolicy { pace: DailyPace::Spread, ..policy("0") };
        assert_eq!(spread.cap(86_400), Rate::per_second(1.0).ok());
        assert_eq!(spread.cap(10), Some(Rate::MIN));
        assert_eq!(spread.cap(u64::MAX), Some(Rate::MAX));
    }

    proptest! {
        #[test]
        fn a_day_at_the_spread_rate_never_uses_the_reserve(quota in 100_u64..10_000_000, percent in 0_u64..50) {
            let reserve = format!("{percent}%").parse().unwrap();
            let policy = DailyPolicy { pace: DailyPace::Spread, reserve };
            let rate = policy.cap(quota).unwrap();
            prop_assume!(rate > Rate::MIN);
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let open = policy.open_to_campaigns(quota) as f64;
            // In floating point, to within a thousandth of a recipient.
            prop_assert!(rate.as_per_second() * DAY_SECONDS <= open + 1e-3);
        }
    }
}
