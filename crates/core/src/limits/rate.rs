use std::fmt;
use std::str::FromStr;

use crate::number::real;
use crate::rate::{Rate, percent};
use crate::text::InvalidText;

/// A limit's rate, as the operator wrote it: `10/s`, `5000/h` or `25%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitRate {
    /// A rate that does not depend on the account's quota, in recipients per second.
    Rate(Rate),
    /// A share of the account's quota, in millionths: 1 to 1,000,000.
    Share(u64),
}

impl LimitRate {
    /// The limit in recipients per second for an account with this quota. The quota is that without the
    /// rate factor: SES's throttling does not change how much mail a provider accepts.
    pub fn of(self, quota: Rate) -> Rate {
        match self {
            Self::Rate(rate) => rate,
            Self::Share(millionths) => quota.scaled(millionths),
        }
    }
}

/// The fault of a text that is no limit's rate.
pub(super) const NO_RATE: &str =
    "is no rate; allowed is 0.001/s (4/h, 87/d) to 10000/s, or a share from 0.0001% to 100%";

impl FromStr for LimitRate {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let wrong = || InvalidText::new(text, NO_RATE);
        if let Some(share) = percent(text) {
            return if share > 0 { Ok(Self::Share(share)) } else { Err(wrong()) };
        }
        let rate = text.contains('/').then(|| text.parse().ok()).flatten();
        rate.map(Self::Rate).ok_or_else(wrong)
    }
}

impl fmt::Display for LimitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => {
                let second = rate.as_per_second();
                let units = [(1.0, "s"), (60.0, "m"), (3_600.0, "h"), (86_400.0, "d")];
                // The first unit in which the number is at least 1 and, to the two decimals that are written,
                // the rate itself: 5000/h is 1.388888/s. A rate is kept in millionths per second, which is
                // 0.0864 per day, so more decimals would say nothing.
                let rounded = |factor: f64| (second * factor * 100.0).round() / 100.0;
                let is_exact = |factor: &f64| (rounded(*factor) / factor - second).abs() < 2e-6;
                let fitting = || units.into_iter().filter(|(factor, _)| second * factor >= 1.0);
                let (factor, unit) = fitting()
                    .find(|(factor, _)| is_exact(factor))
                    .or_else(|| fitting().next())
                    .unwrap_or(units[3]);
                write!(f, "{}/{unit}", rounded(factor))
            }
            Self::Share(millionths) => write!(f, "{}%", real(*millionths) / 10_000.0),
        }
    }
}

serialized_as_text!(LimitRate);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_written_in_a_unit_in_which_it_reads_back() {
        for text in ["10/s", "6/m", "5/h", "5000/h", "3.75/h", "25%", "0.5%", "1.5/s"] {
            assert_eq!(text.parse::<LimitRate>().unwrap().to_string(), text);
        }
        assert_eq!("90/m".parse::<LimitRate>().unwrap().to_string(), "1.5/s");
        for text in ["ten/s", "10/w", "10", "1/h", "101%", "0%", ""] {
            let error = text.parse::<LimitRate>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("{text:?} is no rate; allowed is 0.001/s (4/h, 87/d)"))
            );
        }
    }
}
