//! The quota's own values: recipients a second, the bucket's depth, recipients a day.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use tidegate_core::rate::Rate;

use crate::value::ValueError;

const NANO: f64 = 1e9;

/// The account's `MaxSendRate`: recipients per second, from 0.001 to 1,000,000, kept in whole
/// billionths so that a refill never rounds.
///
/// ```
/// use tidegate_fakes::MaxSendRate;
/// assert_eq!(MaxSendRate::per_second(14.0)?.as_f64(), 14.0);
/// assert!(MaxSendRate::per_second(0.0).is_err());
/// # Ok::<(), tidegate_fakes::ValueError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Value")]
pub struct MaxSendRate(u64);

impl MaxSendRate {
    const ALLOWED: &str = "a number of recipients per second from 0.001 to 1000000";

    /// A quota in recipients per second.
    ///
    /// # Errors
    /// Outside 0.001 to 1,000,000.
    pub fn per_second(recipients: f64) -> Result<Self, ValueError> {
        nano(recipients, 0.001, 1e6).map(Self).ok_or(ValueError::new(recipients, Self::ALLOWED))
    }

    pub fn as_f64(self) -> f64 {
        from_nano(self.0)
    }

    pub(crate) fn of(rate: Rate) -> Self {
        // A rate's range lies within a quota's, so the default is never taken.
        nano(rate.as_per_second(), 0.001, 1e6).map_or_else(Self::default, Self)
    }

    /// Billionths of a recipient per second.
    pub(crate) fn nano(self) -> u64 {
        self.0
    }

    /// Whole recipients that strict mode lets into one second: the quota rounded down, at least 1.
    #[cfg(feature = "sandbox")]
    pub(crate) fn whole(self) -> u64 {
        (self.0 / 1_000_000_000).max(1)
    }
}

/// The token bucket's depth as seconds' worth of quota, from 0.001 to 86,400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Value")]
pub struct BucketSeconds(u64);

impl BucketSeconds {
    const ALLOWED: &str = "a number of seconds from 0.001 to 86400";

    /// A depth in seconds' worth of quota.
    ///
    /// # Errors
    /// Outside 0.001 to 86,400.
    pub fn new(seconds: f64) -> Result<Self, ValueError> {
        nano(seconds, 0.001, 86_400.0).map(Self).ok_or(ValueError::new(seconds, Self::ALLOWED))
    }

    pub fn as_f64(self) -> f64 {
        from_nano(self.0)
    }

    pub(crate) fn nanos(self) -> u64 {
        self.0
    }
}

impl Default for BucketSeconds {
    fn default() -> Self {
        Self(1_000_000_000)
    }
}

impl Default for MaxSendRate {
    /// 14 recipients per second, what SES grants an account that leaves its sandbox.
    fn default() -> Self {
        Self(14_000_000_000)
    }
}

/// A limit of a period: `Max24HourSend`, the recipients in any 24 hours, or the US dollars that texts may cost in a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "Value")]
pub enum PeriodLimit {
    /// There is no limit; `GetAccount` answers -1.
    #[default]
    Unlimited,
    /// At most this many recipients or dollars.
    AtMost(u64),
}

impl PeriodLimit {
    const ALLOWED: &str = "a whole number of recipients or dollars, or `unlimited` (-1)";

    #[cfg(feature = "sandbox")]
    pub(crate) fn most(self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::AtMost(most) => Some(most),
        }
    }
}

impl FromStr for PeriodLimit {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text {
            "unlimited" | "-1" => Ok(Self::Unlimited),
            number => number
                .parse()
                .map(Self::AtMost)
                .map_err(|_| ValueError::new(format_args!("`{text}`"), Self::ALLOWED)),
        }
    }
}

impl TryFrom<Value> for PeriodLimit {
    type Error = ValueError;

    fn try_from(value: Value) -> Result<Self, ValueError> {
        match &value {
            Value::String(text) => text.parse(),
            Value::Number(number) => number.to_string().parse(),
            other => Err(ValueError::new(other, Self::ALLOWED)),
        }
    }
}

impl fmt::Display for PeriodLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::AtMost(count) => count.fmt(f),
        }
    }
}

impl Serialize for PeriodLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unlimited => serializer.serialize_str("unlimited"),
            Self::AtMost(count) => serializer.serialize_u64(*count),
        }
    }
}

macro_rules! number_setting {
    ($name:ident, $new:path) => {
        impl FromStr for $name {
            type Err = ValueError;

            fn from_str(text: &str) -> Result<Self, ValueError> {
                let refused = || ValueError::new(format_args!("`{text}`"), Self::ALLOWED);
                text.parse().map_err(|_| refused()).and_then($new)
            }
        }

        impl TryFrom<Value> for $name {
            type Error = ValueError;

            fn try_from(value: Value) -> Result<Self, ValueError> {
                value.as_f64().ok_or_else(|| ValueError::new(&value, Self::ALLOWED)).and_then($new)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.as_f64().fmt(f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_f64(self.as_f64())
            }
        }
    };
}
number_setting!(MaxSendRate, MaxSendRate::per_second);
number_setting!(BucketSeconds, BucketSeconds::new);

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked first and lies within 2^53 at the top"
)]
fn nano(number: f64, least: f64, most: f64) -> Option<u64> {
    (least..=most).contains(&number).then(|| (number * NANO).round() as u64)
}

#[expect(clippy::cast_precision_loss, reason = "at most 1e15, below 2^53")]
fn from_nano(nano: u64) -> f64 {
    nano as f64 / NANO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused_with_the_value_and_what_is_allowed() {
        for text in ["0", "-1", "1000001", "nan", "inf", "fast"] {
            let error = text.parse::<MaxSendRate>().expect_err(text).to_string();
            assert!(error.contains("from 0.001 to 1000000"), "{error}");
        }
        let error = "100000".parse::<BucketSeconds>().expect_err("too deep").to_string();
        assert_eq!(error, "must be a number of seconds from 0.001 to 86400, not 100000");
        let error = "-2".parse::<PeriodLimit>().expect_err("negative").to_string();
        assert!(error.contains("not `-2`"), "{error}");
    }

    #[test]
    fn strict_mode_counts_whole_recipients_and_at_least_one() {
        let whole = |rate| MaxSendRate::per_second(rate).expect("rate").whole();
        assert_eq!([whole(14.0), whole(14.9), whole(0.2), whole(1.0)], [14, 14, 1, 1]);
    }

    #[test]
    fn a_daily_quota_reads_what_it_writes() {
        for quota in [PeriodLimit::Unlimited, PeriodLimit::AtMost(0), PeriodLimit::AtMost(9)] {
            assert_eq!(quota.to_string().parse(), Ok(quota));
            let json = serde_json::to_value(quota).expect("serialize");
            assert_eq!(PeriodLimit::try_from(json), Ok(quota));
        }
    }
}
