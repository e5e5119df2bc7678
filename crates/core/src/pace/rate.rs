//! The rate in recipients per second, and the rate margin.
//!
//! Both are whole millionths, so the times of slots are exact. Rounding a refill down to a whole number
//! per interval would turn 14 recipients a second into 10: at an interval of 100 ms, 1.4 would become
//! 1.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::number::{real, whole};
use crate::text::InvalidText;
use crate::timestamp::SECOND;

const MILLION: u64 = 1_000_000;
/// The margin up to which refusals double a smaller one, in millionths, and the doublings from 0.005 to it.
const DOUBLED_TO: u64 = 40_000;
const DOUBLINGS: u8 = 3;
/// The units in which a rate is given, with their seconds.
pub(crate) const UNITS: [(f64, &str); 4] =
    [(1.0, "s"), (60.0, "m"), (3_600.0, "h"), (86_400.0, "d")];

/// A rate in recipients per second: 0.001 to 10,000, in steps of a millionth.
///
/// ```
/// use tidegate_core::rate::{RateMargin, Rate};
/// let rate = Rate::per_second(14.0)?;
/// // P = (1 + g) / q, in whole nanoseconds, rounded up: 1.01 s / 14.
/// assert_eq!(rate.period(RateMargin::default()), 72_142_858);
/// assert_eq!(rate.ceil(), 14);
/// # Ok::<(), tidegate_core::rate::InvalidRate>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Rate(u64);

/// The rate margin g: the fraction by which slots are spaced wider than 1/quota. 0.005 to 0.5, in steps
/// of a millionth.
///
/// A send may start up to g/2 × 1 s after its slot. The other half is for the network, because SES
/// counts arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct RateMargin(u64);

/// Error for a number that is not a rate.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[error("{0} recipients a second is no rate; allowed is a number from 0.001 to 10000")]
pub struct InvalidRate(pub f64);

/// Error for a number that is not a rate margin.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[error("{0} is no rate margin; allowed is a number from 0.005 to 0.5")]
pub struct InvalidRateMargin(pub f64);

impl Rate {
    /// The largest rate: 10,000 recipients per second.
    pub const MAX: Self = Self(10_000 * MILLION);
    /// The smallest rate: one recipient in 1,000 s.
    pub const MIN: Self = Self(MILLION / 1_000);

    /// A rate of `recipients` per second, rounded down to a millionth.
    ///
    /// # Errors
    /// [`InvalidRate`] for a value outside 0.001 to 10,000 or one that is not a number.
    pub fn per_second(recipients: f64) -> Result<Self, InvalidRate> {
        let rate = millionths(recipients).map(Self);
        let rate = rate.filter(|rate| (Self::MIN..=Self::MAX).contains(rate));
        rate.ok_or(InvalidRate(recipients))
    }

    /// The rate in recipients per second.
    pub fn as_per_second(self) -> f64 {
        real(self.0) / real(MILLION)
    }

    /// The rate in millionths of a recipient per second.
    pub const fn as_millionths(self) -> u64 {
        self.0
    }

    /// ⌈q⌉: the most sends of one recipient that may start in any second.
    pub const fn ceil(self) -> u64 {
        self.0.div_ceil(MILLION)
    }

    /// The time between two slots, P = (1 + g) / q, in nanoseconds, rounded up.
    pub const fn period(self, rate_margin: RateMargin) -> u64 {
        ((MILLION + rate_margin.0) * SECOND).div_ceil(self.0)
    }

    /// This rate times `millionths` / 1,000,000, between [`Rate::MIN`] and [`Rate::MAX`].
    pub fn scaled(self, millionths: u64) -> Self {
        let scaled = u128::from(self.0) * u128::from(millionths) / u128::from(MILLION);
        Self(u64::try_from(scaled).unwrap_or(u64::MAX)).clamp(Self::MIN, Self::MAX)
    }
}

impl RateMargin {
    /// A rate margin of `share`, rounded down to a millionth.
    ///
    /// # Errors
    /// [`InvalidRateMargin`] for a value outside 0.005 to 0.5. Below, a send might start at most 2.5 ms
    /// late, which no timer guarantees.
    pub fn new(share: f64) -> Result<Self, InvalidRateMargin> {
        let micro = millionths(share).filter(|micro| (5_000..=500_000).contains(micro));
        micro.map(Self).ok_or(InvalidRateMargin(share))
    }

    /// The margin after so many doublings: up to 0.04, or unchanged above. Example: 0.01, 0.02, 0.04, 0.04.
    pub fn doubled(self, times: u8) -> Self {
        Self((self.0 << times.min(DOUBLINGS)).min(self.0.max(DOUBLED_TO)))
    }

    /// The longest time after its slot at which a send may start: g/2 × 1 s, in nanoseconds.
    pub const fn lateness(self) -> u64 {
        self.0 * (SECOND / MILLION) / 2
    }
}

impl Default for RateMargin {
    /// 0.01: slots are spaced 1 % wider than 1/quota, and a send may start 5 ms late.
    fn default() -> Self {
        Self(10_000)
    }
}

/// `value` in millionths, rounded down; `None` if it is negative, too large or not a number.
///
/// 1e-4 is added first, because a decimal fraction may lie just below its millionths: 0.29 × 10⁶ is
/// 289,999.999… as a double.
fn millionths(value: f64) -> Option<u64> {
    let scaled = value * 1e6;
    (scaled.is_finite() && (0.0..1e15).contains(&scaled)).then(|| whole(scaled + 1e-4))
}

/// A share in per cent, such as `2.5%`, in millionths; `None` if it is none from 0% to 100%.
pub(crate) fn percent(text: &str) -> Option<u64> {
    let percent: f64 = text.trim().strip_suffix('%')?.trim_end().parse().ok()?;
    (0.0..=100.0).contains(&percent).then(|| whole((percent * 1e4).round()))
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.as_per_second())
    }
}

impl FromStr for Rate {
    type Err = InvalidText;

    /// Reads `14`, `14/s`, `6/m`, `40/h` or `87/d`.
    fn from_str(text: &str) -> Result<Self, InvalidText> {
        const ALLOWED: &str = "is no rate; allowed is a number from 0.001 to 10000 a second, or such as 6/m, 40/h, 87/d";
        let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
        let known = UNITS.into_iter().find(|(_, known)| *known == unit.trim());
        let seconds = known.map(|(seconds, _)| seconds);
        let number = number.trim().parse::<f64>().ok();
        let rate = number.zip(seconds).map(|(number, seconds)| Self::per_second(number / seconds));
        rate.and_then(Result::ok).ok_or_else(|| InvalidText::new(text, ALLOWED))
    }
}

impl TryFrom<f64> for Rate {
    type Error = InvalidRate;
    fn try_from(value: f64) -> Result<Self, InvalidRate> {
        Self::per_second(value)
    }
}

impl From<Rate> for f64 {
    fn from(rate: Rate) -> Self {
        rate.as_per_second()
    }
}

impl TryFrom<f64> for RateMargin {
    type Error = InvalidRateMargin;
    fn try_from(value: f64) -> Result<Self, InvalidRateMargin> {
        Self::new(value)
    }
}

impl From<RateMargin> for f64 {
    fn from(rate_margin: RateMargin) -> Self {
        real(rate_margin.0) / real(MILLION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_rate_reads_back_to_a_millionth(micro in 1_000_u64..10_000_000_000) {
            #[expect(clippy::cast_precision_loss, reason = "at most 1e10")]
            let value = micro as f64 / 1e6;
            prop_assert_eq!(Rate::per_second(value), Ok(Rate(micro)));
        }

        #[test]
        fn the_period_is_the_smallest_that_keeps_the_rate_margin(
            micro in 100_000_u64..10_000_000_000, rate_margin in 5_000_u64..500_000,
        ) {
            let period = u128::from(Rate(micro).period(RateMargin(rate_margin)));
            let target = u128::from(MILLION + rate_margin) * u128::from(SECOND);
            prop_assert!(period * u128::from(micro) >= target);
            prop_assert!((period - 1) * u128::from(micro) < target);
        }
    }

    #[test]
    fn what_is_no_rate_or_rate_margin_is_refused_with_the_range() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 10_000.1, 0.000_9] {
            let error = Rate::per_second(bad).unwrap_err().to_string();
            assert!(error.contains("0.001 to 10000"), "{error}");
        }
        for bad in [0.0, 0.0049, 0.51, f64::NAN] {
            let error = RateMargin::new(bad).unwrap_err().to_string();
            assert!(error.contains("0.005 to 0.5"), "{error}");
        }
    }

    #[test]
    fn a_rate_is_read_with_a_unit_or_without() {
        for (text, per_second) in [
            ("14", 14.0),
            ("0.5", 0.5),
            ("14/s", 14.0),
            (" 6 / m", 0.1),
            ("9/h", 0.0025),
            ("864/d", 0.01),
        ] {
            assert_eq!(
                text.parse(),
                Rate::per_second(per_second).map_err(|_| unreachable!()),
                "{text}"
            );
        }
        for text in ["", "fast", "1/w", "1/", "/s", "1/s/s", "0/s", "10001", "80/d", "NaN"] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains("allowed is a number from 0.001 to 10000"), "{error}");
        }
    }

    #[test]
    fn half_the_rate_margin_is_the_lateness() {
        assert_eq!(RateMargin::default().lateness(), 5_000_000);
        assert_eq!(RateMargin::new(0.02).map(RateMargin::lateness), Ok(10_000_000));
    }
}
