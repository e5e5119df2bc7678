//! Weights that follow the time: a campaign that ends by a given time, and one that has another weight outside
//! the other campaigns' hours.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::identity::EpochMillis;
use crate::limits::Zone;
use crate::number::{real, whole};
use crate::timestamp::Timestamp;

/// A rule for one campaign's weight, a member of the control record.
///
/// ```
/// use tidegate_core::weight_rule::WeightRule;
/// let text = r#"{"finish_by":"2026-12-01T17:00:00.000Z","zone":"Europe/Berlin","least":5,"most":60}"#;
/// let rule: WeightRule = serde_json::from_str(text)?;
/// assert_eq!(rule.to_string(), "5 to 60, to finish by 2026-12-01 18:00:00 Europe/Berlin");
/// assert_eq!(serde_json::to_string(&rule)?, text);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WeightRule {
    /// The scheduler sets the weight once a minute, so that the campaign's mail is sent by then.
    FinishBy(FinishBy),
    /// A weight in the windows in which no other campaign is within its hours.
    OffPeak {
        /// 0 to 10,000.
        off_peak: u32,
    },
}

/// A time by which a campaign's mail is sent, and the weights that it may have for that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishBy {
    /// The time.
    pub finish_by: EpochMillis,
    /// The time zone in which it was given; UTC unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Zone>,
    /// The least weight, 1 to 10,000.
    pub least: u32,
    /// The greatest weight, at least `least`.
    pub most: u32,
    /// The override of before, which stands again afterwards; none for the configured weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<u32>,
}

/// The present of a campaign that is to finish.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remainder {
    /// Recipients that wait.
    pub waiting: f64,
    /// The rate in force, in recipients per second.
    pub per_second: f64,
    /// The sum of the weights of the other campaigns that have mail.
    pub others: u64,
    /// The present time.
    pub now: Timestamp,
}

impl FinishBy {
    /// A time as the clock of the zone shows it.
    pub fn time(&self, at: EpochMillis) -> String {
        self.zone.clone().unwrap_or_default().time(at)
    }

    /// The weight with which the campaign ends in time, as far as the bounds allow. Between two whole weights it is
    /// the nearer one: the next minutes make good what is rounded.
    pub fn weight(&self, of: Remainder) -> u32 {
        let left = Timestamp::from(self.finish_by).saturating_since(of.now).as_secs_f64();
        let share = of.waiting / of.per_second / left.max(1.0);
        if share >= 1.0 {
            return self.most;
        }
        let weight = whole((share / (1.0 - share) * real(of.others)).round());
        u32::try_from(weight).unwrap_or(u32::MAX).clamp(self.least, self.most)
    }

    /// When the campaign ends if it has its greatest weight from now on.
    pub fn earliest(&self, of: Remainder) -> Timestamp {
        let share = f64::from(self.most) / (f64::from(self.most) + real(of.others));
        let seconds = (of.waiting / of.per_second / share).clamp(0.0, 1e9);
        of.now + std::time::Duration::from_secs_f64(seconds)
    }
}

impl fmt::Display for WeightRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FinishBy(finish) => {
                let (least, most) = (finish.least, finish.most);
                write!(f, "{least} to {most}, to finish by {}", finish.time(finish.finish_by))
            }
            Self::OffPeak { off_peak } => write!(f, "{off_peak} outside other campaigns' hours"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_207_000_000;

    fn finish(seconds: u64) -> FinishBy {
        let finish_by = EpochMillis::new(NOW + seconds * 1_000);
        FinishBy { finish_by, zone: None, least: 2, most: 80, restore: None }
    }

    fn of(waiting: f64, others: u64) -> Remainder {
        Remainder { waiting, per_second: 50.0, others, now: EpochMillis::new(NOW).into() }
    }

    #[test]
    fn the_weight_gives_the_share_that_ends_in_time_within_the_bounds() {
        // 12,500 in 1,000 s are 12.5/s, a quarter of the rate: 5 beside 15.
        assert_eq!(finish(1_000).weight(of(12_500.0, 15)), 5);
        assert_eq!(finish(1_000).weight(of(100.0, 15)), 2, "no less than the least");
        assert_eq!(finish(1_000).weight(of(49_000.0, 15)), 80, "no more than the greatest");
        assert_eq!(finish(1_000).weight(of(90_000.0, 15)), 80, "more than there is");
        assert_eq!(finish(0).weight(of(1.0, 15)), 2, "the time is over");
        // With 80 beside 20 it has 40/s.
        let earliest = finish(1_000).earliest(of(4_000.0, 20));
        assert_eq!(EpochMillis::from(earliest), EpochMillis::new(NOW + 100_000));
    }
}
