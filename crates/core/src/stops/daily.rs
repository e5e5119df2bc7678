//! The daily quota: SES limits an account's recipients in any 24 hours (`Max24HourSend`).
//!
//! With the pace *full*, campaigns are sent at the full rate until the quota less a reserve is used up.
//! Then only express mail is sent, until enough is free again. With the pace *spread*, the rate is
//! capped so that the campaigns' part lasts the whole day.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::EnumString;

use crate::identity::EpochMillis;
use crate::number::real;
use crate::rate::{Rate, percent};
use crate::text::InvalidText;

/// Seconds of the period over which SES counts.
const DAY_SECONDS: f64 = 86_400.0;
/// Divisor of the quota: a hold is lifted once a hundredth of the quota is free.
const HYSTERESIS: u64 = 100;
/// Recipients that SES takes in one mail.
const MOST_RECIPIENTS: u64 = 50;
const MILLION: u64 = 1_000_000;

/// The daily quota as `GetAccount` returned it, with the ledger's count at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DailyReading {
    /// `Max24HourSend`: recipients allowed in 24 hours.
    pub quota: u64,
    /// `SentLast24Hours`: recipients sent to in the last 24 hours.
    pub sent: u64,
    /// The ledger's sum of recipients sent to when this was read. The sum's growth since then is added
    /// to `sent`.
    pub counted: i64,
    /// Time at which `GetAccount` was read.
    pub read_at: EpochMillis,
}

/// The part of the daily quota that campaigns may not use; it is left for express mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// A number of recipients per 24 hours.
    Recipients(u64),
    /// A share of the quota, in millionths, 0 to 990,000.
    Share(u64),
}

impl Default for Reserve {
    /// 1 % of the quota.
    fn default() -> Self {
        Self::Share(MILLION / 100)
    }
}

impl FromStr for Reserve {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        const ALLOWED: &str = "is no reserve; allowed is a number of recipients such as 500, or a share from 0% to 99%";
        let reserve = match percent(text) {
            Some(share) => Some(Self::Share(share)).filter(|_| share <= 990_000),
            None => text.parse().ok().map(Self::Recipients),
        };
        reserve.ok_or_else(|| InvalidText::new(text, ALLOWED))
    }
}

/// How campaigns use the daily quota over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum DailyPace {
    /// At the full rate until it is used up.
    #[default]
    Full,
    /// At a capped rate, so that it lasts 24 hours.
    Spread,
}

/// Settings of the daily quota: its pace, and the reserve for express mail.
///
/// ```
/// use tidegate_core::daily::{DailyPolicy, DailyPace};
/// let policy = DailyPolicy { pace: DailyPace::Spread, reserve: "1%".parse()? };
/// assert_eq!(policy.open_to_campaigns(50_000), 49_500);
/// // 49,500 recipients in 86,400 s.
/// assert_eq!(policy.cap(50_000).unwrap().as_per_second(), 0.572916);
/// # Ok::<(), tidegate_core::InvalidText>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DailyPolicy {
    /// `TIDEGATE_DAILY`: full rate or spread over the day.
    pub pace: DailyPace,
    /// `TIDEGATE_DAILY_RESERVE`: the part for express mail only.
    pub reserve: Reserve,
}

impl DailyPolicy {
    /// Recipients of `quota` that campaigns may use: the quota less the reserve. A share is rounded up,
    /// so 1 % of 150 leaves 148.
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

    /// The cap on the rate: the quota less the reserve, over 86,400 s, and at least [`Rate::MIN`]. None
    /// at the full pace.
    pub fn cap(self, quota: u64) -> Option<Rate> {
        let spread = real(self.open_to_campaigns(quota)) / DAY_SECONDS;
        let per_second = spread.clamp(Rate::MIN.as_per_second(), Rate::MAX.as_per_second());
        (self.pace == DailyPace::Spread).then(|| Rate::per_second(per_second).unwrap_or(Rate::MIN))
    }

    /// Recipients that campaigns may be sent to in one window. `counted` is the ledger's sum now.
    /// `unreported` is the most that other windows may be sending without having reported it.
    ///
    /// Example: the campaigns' part is 900, SES had counted 300, the ledger's sum has grown by 250
    /// since, and 28 may be unreported: 900 − 300 − 250 − 28 = 322.
    pub fn budget(self, reading: &DailyReading, counted: i64, unreported: u64) -> u64 {
        let since = u64::try_from(counted.saturating_sub(reading.counted)).unwrap_or(0);
        let used = reading.sent.saturating_add(since).saturating_add(unreported);
        self.open_to_campaigns(reading.quota).saturating_sub(used)
    }
}

impl DailyReading {
    /// True if enough of the part of the quota that is `open` to a mail is free for it to continue at a quota of
    /// `rate`: a hundredth of the quota, and at least four windows' worth and one mail of 50 recipients. With less,
    /// a hold would be lifted and set again every few mails. If `open` itself is less, all of it must be free.
    pub fn frees(&self, open: u64, rate: Rate) -> bool {
        let enough = (self.quota / HYSTERESIS).max(4 * rate.ceil() + MOST_RECIPIENTS);
        open > 0 && open.saturating_sub(self.sent) >= enough.min(open)
    }
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
        // The ledger's sum can fall below the reading (a new table); the budget then takes no growth
        // into account.
        assert_eq!(policy.budget(&reading(1_000, 300), 0, 0), 600);
    }

    proptest! {
        /// Windows claim one after the other and report up to two windows later; together they stay
        /// within the quota.
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
        let of = |quota, sent| reading(quota, sent).frees(policy.open_to_campaigns(quota), slow);
        assert!(!of(10_000, 8_901) && of(10_000, 8_900));
        assert!(!of(1_000, 847) && of(1_000, 846));
        // If the quota is smaller than the required amount, all of it must be free.
        assert!(!of(50, 1) && of(50, 0) && !of(0, 0));
        let fast = Rate::per_second(100.0).unwrap();
        assert!(!reading(10_000, 9_551).frees(10_000, fast));
        assert!(reading(10_000, 9_550).frees(10_000, fast));
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
            // Floating point: exact to a thousandth of a recipient.
            prop_assert!(rate.as_per_second() * DAY_SECONDS <= open + 1e-3);
        }
    }
}
