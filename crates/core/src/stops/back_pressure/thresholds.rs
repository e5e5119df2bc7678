//! The thresholds of one back-pressure level, written as `depth=4h,age=6h,refused=5%`.

use std::fmt;
use std::time::Duration;

use super::BackPressureFigures;
use crate::number::real;
use crate::rate::percent;

/// Describes the allowed thresholds, for error messages and the documentation of settings.
pub const ALLOWED: &str = "off, or one or more of depth=TIME, age=TIME and refused=SHARE with commas between, each once, such as depth=4h,age=6h,refused=5% (times from 1m to 14d such as 90s, 12h or 1h30m; shares from 0.1% to 100%)";

/// Largest threshold: SQS keeps a message for at most 14 days.
const MOST: Duration = Duration::from_hours(14 * 24);
/// Smallest threshold: figures are measured once a minute, so a shorter time has no meaning.
const LEAST: Duration = Duration::from_mins(1);

/// The thresholds of one level. One figure at its threshold is enough to reach the level; a threshold
/// that is none is never reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// Seconds of sending at the quota in force that the backlog takes, 60 to 1,209,600.
    pub depth: Option<u64>,
    /// Mean seconds that mail had waited when it was sent, 60 to 1,209,600.
    pub age: Option<u64>,
    /// Share of sends that SES refused for the rate, in millionths, 1,000 to 1,000,000.
    pub refused: Option<u64>,
}

impl Thresholds {
    /// Reads `depth=4h,age=6h,refused=5%`, one or two of the three parts, or `off`. None for any other
    /// text.
    ///
    /// ```
    /// use tidegate_core::back_pressure::Thresholds;
    /// let read = Thresholds::parse("age=90m, refused=2.5%").unwrap();
    /// assert_eq!((read.depth, read.age, read.refused), (None, Some(5_400), Some(25_000)));
    /// assert_eq!(read.to_string(), "age=90m,refused=2.5%");
    /// assert_eq!(Thresholds::parse("depth=4"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let mut read = Self::default();
        if text == "off" {
            return Some(read);
        }
        for part in text.split(',') {
            let (name, value) = part.trim().split_once('=')?;
            let (place, value) = match name.trim() {
                "depth" => (&mut read.depth, seconds(value)?),
                "age" => (&mut read.age, seconds(value)?),
                "refused" => (&mut read.refused, percent(value).filter(|share| *share >= 1_000)?),
                _ => return None,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        Some(read)
    }

    /// True if at least one figure is at or above `percent` of its threshold.
    pub(super) fn reached(&self, figures: &BackPressureFigures, percent: u64) -> bool {
        [
            (self.depth, figures.backlog_seconds),
            (self.age, figures.age_seconds),
            (self.refused, figures.refused_millionths),
        ]
        .into_iter()
        .any(|pair| match pair {
            (Some(threshold), Some(figure)) => {
                figure.saturating_mul(100) >= threshold.saturating_mul(percent)
            }
            _ => false,
        })
    }

    /// These thresholds, each raised to its counterpart in `lower` if it lies below it.
    pub fn at_least(&self, lower: &Self) -> Self {
        let of = |upper: Option<u64>, lower: Option<u64>| upper.map(|upper| Some(upper).max(lower));
        Self {
            depth: of(self.depth, lower.depth).flatten(),
            age: of(self.age, lower.age).flatten(),
            refused: of(self.refused, lower.refused).flatten(),
        }
    }

    /// True if none of these thresholds lies below its counterpart in `lower`.
    pub fn is_above(&self, lower: &Self) -> bool {
        let parts = |t: &Self| [t.depth, t.age, t.refused];
        parts(self).into_iter().zip(parts(lower)).all(|pair| match pair {
            (Some(upper), Some(lower)) => upper >= lower,
            _ => true,
        })
    }
}

impl fmt::Display for Thresholds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |name: &str, seconds: u64| format!("{name}={}", in_units(seconds));
        let share = |millionths: u64| format!("refused={}%", real(millionths) / 1e4);
        let parts = [
            self.depth.map(|seconds| time("depth", seconds)),
            self.age.map(|seconds| time("age", seconds)),
            self.refused.map(share),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "off" } else { "" })?;
        f.write_str(&parts.join(","))
    }
}

/// Writes seconds in the largest of h, m and s that gives a whole number: 5,400 is `90m`, two days are
/// `48h`.
fn in_units(seconds: u64) -> String {
    let units = [(3_600, 'h'), (60, 'm'), (1, 's')];
    let fits = units.into_iter().find(|(length, _)| seconds.is_multiple_of(*length));
    let (length, unit) = fits.unwrap_or((1, 's'));
    format!("{}{unit}", seconds / length)
}

/// A time in seconds. A fraction such as `4.5h` is refused, as it is by the deployment's templates.
fn seconds(text: &str) -> Option<u64> {
    let time = humantime::parse_duration(text).ok().filter(|_| !text.contains('.'))?;
    (LEAST..=MOST).contains(&time).then_some(time.as_secs())
}
