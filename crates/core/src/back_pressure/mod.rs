//! Back-back-pressure: how much more is waiting than can be sent, as a level that defers what is least
//! urgent.
//!
//! The scheduler judges once a minute. A level rises as soon as one figure reaches its threshold. It
//! falls one step at a time, after [`CALM`] in which every known figure stayed under 80 % of its
//! thresholds: so a figure that wavers by less than a fifth changes a level once, and a rise and the
//! fall that follows it are never closer than [`CALM`].

mod thresholds;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::Timestamp;
use crate::email::Priority;
use crate::identity::EpochMillis;
pub use thresholds::{ALLOWED as ALLOWED_THRESHOLDS, Thresholds};

/// How long every figure must stay under 80 % of a level's thresholds before the level falls a step.
pub const CALM: Duration = Duration::from_mins(5);
/// A reading that did not change is written again when it is as old as this: each write costs.
pub const RENEWED: Duration = Duration::from_mins(5);
/// A reading older than this counts as clear: nobody judges any more, and what nobody judges must not
/// be deferred for ever.
pub const KEPT: Duration = Duration::from_mins(15);
/// Sends below which their refusals are not judged: one of three says nothing.
pub const LEAST_SENDS: u64 = 20;
/// Of a threshold, in per cent, under which a figure is calm.
const CALM_PERCENT: u64 = 80;
/// Shares are whole millionths, so that no rounding decides.
const WHOLE: u64 = 1_000_000;

/// How much more is waiting than can be sent.
///
/// ```
/// use tidegate_core::{email::Priority, back_pressure::BackPressureLevel};
/// assert!(BackPressureLevel::Busy.defers(Priority::Low) && !BackPressureLevel::Busy.defers(Priority::Normal));
/// assert!(BackPressureLevel::Overloaded.defers(Priority::Normal) && !BackPressureLevel::Overloaded.defers(Priority::High));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackPressureLevel {
    /// Everything is sent as it comes.
    #[default]
    Clear,
    /// Mail of low priority is deferred.
    Busy,
    /// Mail of low and of normal priority is deferred.
    Overloaded,
}

impl BackPressureLevel {
    /// All, the lowest first.
    pub const ALL: [Self; 3] = [Self::Clear, Self::Busy, Self::Overloaded];

    /// Whether mail of this priority is deferred. High and critical never are.
    pub const fn defers(self, priority: Priority) -> bool {
        match self {
            Self::Clear => false,
            Self::Busy => matches!(priority, Priority::Low),
            Self::Overloaded => matches!(priority, Priority::Low | Priority::Normal),
        }
    }

    /// The name as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Busy => "busy",
            Self::Overloaded => "overloaded",
        }
    }

    /// 0 clear, 1 busy, 2 overloaded: the metric.
    pub const fn as_number(self) -> u8 {
        match self {
            Self::Clear => 0,
            Self::Busy => 1,
            Self::Overloaded => 2,
        }
    }

    const fn one_lower(self) -> Self {
        match self {
            Self::Clear | Self::Busy => Self::Clear,
            Self::Overloaded => Self::Busy,
        }
    }
}

impl fmt::Display for BackPressureLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<'de> Deserialize<'de> for BackPressureLevel {
    /// A level that only a newer version knows defers nothing: the record must stay readable.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(Self::ALL.into_iter().find(|level| level.as_str() == name).unwrap_or_default())
    }
}

/// What a level is judged by. What is not known raises no level; an unknown backlog lets none fall
/// either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackPressureFigures {
    /// Mails that wait in the queues, those of held campaigns left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog_mails: Option<u64>,
    /// Seconds of sending at the quota in force that these take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog_seconds: Option<u64>,
    /// Seconds that mail sent for the first time had waited in its queues as it went, the mean of what
    /// was sent lately; none where nothing was. What was put back or brought back does not count: it
    /// is old for other reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
    /// Sends that SES refused for the rate, in millionths of the sends; none where nothing was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_millionths: Option<u64>,
}

impl BackPressureFigures {
    /// The share of `refused` in all sends, in millionths; none of none. Of fewer than
    /// [`LEAST_SENDS`] it is not judged: 0.
    pub fn refused_share(refused: u64, sent: u64) -> Option<u64> {
        let all = refused.saturating_add(sent);
        match all {
            0 => None,
            1..LEAST_SENDS => Some(0),
            _ => Some(refused.saturating_mul(WHOLE) / all),
        }
    }
}

/// What was judged last; it stands in the control record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The level.
    #[serde(default)]
    pub level: BackPressureLevel,
    /// Since when it is this level.
    pub since: EpochMillis,
    /// Since when every figure allows the next lower level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm_since: Option<EpochMillis>,
    /// What it was judged by.
    #[serde(default)]
    pub figures: BackPressureFigures,
    /// When it was judged, or last written.
    pub read_at: EpochMillis,
}

impl Reading {
    /// The level that counts at `now`: clear where the reading is older than [`KEPT`].
    pub fn level_at(&self, now: EpochMillis) -> BackPressureLevel {
        if self.is_old(now) { BackPressureLevel::Clear } else { self.level }
    }

    /// Whether it is older than [`KEPT`] at `now`.
    pub fn is_old(&self, now: EpochMillis) -> bool {
        since(self.read_at, now) > KEPT
    }

    /// How long the level was clear at `now`; none where it is not, or is not known to be.
    pub fn clear_for(&self, now: EpochMillis) -> Option<Duration> {
        (self.level == BackPressureLevel::Clear && !self.is_old(now))
            .then(|| since(self.since, now))
    }

    /// Whether it must be written where `before` stands: it says something else, or that is as old as
    /// [`RENEWED`].
    pub fn is_news(&self, before: Option<&Self>) -> bool {
        before.is_none_or(|before| {
            (before.level, before.calm_since.is_some()) != (self.level, self.calm_since.is_some())
                || since(before.read_at, self.read_at) >= RENEWED
        })
    }
}

fn since(earlier: EpochMillis, now: EpochMillis) -> Duration {
    Timestamp::from(now).saturating_since(earlier.into())
}

/// From which figures on the level is what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Busy.
    pub busy: Thresholds,
    /// Overloaded: nowhere lower than busy.
    pub overloaded: Thresholds,
}

impl Default for Policy {
    /// Busy from half a day of backlog or age, or 5 % refusals, on; overloaded from two days, or 20 %.
    /// A day's campaign is no overload; SQS keeps mail for 14 days at most.
    fn default() -> Self {
        let of = |hours: u64, percent: u64| Thresholds {
            depth: Some(hours * 3_600),
            age: Some(hours * 3_600),
            refused: Some(percent * WHOLE / 100),
        };
        Self { busy: of(12, 5), overloaded: of(48, 20) }
    }
}

impl Policy {
    /// The thresholds of a level; of clear none.
    pub const fn of(&self, level: BackPressureLevel) -> Option<&Thresholds> {
        match level {
            BackPressureLevel::Clear => None,
            BackPressureLevel::Busy => Some(&self.busy),
            BackPressureLevel::Overloaded => Some(&self.overloaded),
        }
    }

    /// The highest level of which a figure reaches a threshold.
    fn demanded(&self, figures: &BackPressureFigures) -> BackPressureLevel {
        let reached =
            |level: &BackPressureLevel| self.of(*level).is_some_and(|t| t.reached(figures, 100));
        BackPressureLevel::ALL.into_iter().rev().find(reached).unwrap_or_default()
    }

    /// Whether nothing keeps a level from falling a step.
    fn is_calm(&self, level: BackPressureLevel, figures: &BackPressureFigures) -> bool {
        let stays = |t: &Thresholds| {
            t.reached(figures, CALM_PERCENT)
                || (t.depth.is_some() && figures.backlog_seconds.is_none())
        };
        level != BackPressureLevel::Clear
            && BackPressureLevel::ALL
                .iter()
                .filter(|other| **other >= level)
                .all(|other| self.of(*other).is_none_or(|thresholds| !stays(thresholds)))
    }

    /// The reading at `now`, after the one `before`.
    ///
    /// ```
    /// use tidegate_core::identity::EpochMillis;
    /// use tidegate_core::back_pressure::{BackPressureFigures, BackPressureLevel, Policy};
    /// let (policy, at) = (Policy::default(), |minute: u64| EpochMillis::new(minute * 60_000));
    /// let backlog = |hours: u64| BackPressureFigures { backlog_seconds: Some(hours * 3_600), ..BackPressureFigures::default() };
    /// let busy = policy.judge(None, backlog(12), at(0));
    /// assert_eq!(busy.level, BackPressureLevel::Busy);
    /// let calm = policy.judge(Some(&busy), backlog(9), at(1)); // 75 % of the threshold …
    /// assert_eq!(calm.level, BackPressureLevel::Busy);
    /// let clear = policy.judge(Some(&calm), backlog(9), at(6)); // … for five minutes
    /// assert_eq!((clear.level, clear.since), (BackPressureLevel::Clear, at(6)));
    /// ```
    pub fn judge(
        &self,
        before: Option<&Reading>,
        figures: BackPressureFigures,
        now: EpochMillis,
    ) -> Reading {
        let before = before.filter(|before| !before.is_old(now));
        let (stood, stood_since) =
            before.map_or((BackPressureLevel::Clear, now), |b| (b.level, b.since));
        let demanded = self.demanded(&figures);
        let reading =
            |level, since, calm_since| Reading { level, since, calm_since, figures, read_at: now };
        if demanded > stood {
            return reading(demanded, now, None);
        }
        if !self.is_calm(stood, &figures) {
            return reading(stood, stood_since, None);
        }
        let calm = before.and_then(|before| before.calm_since).unwrap_or(now);
        if since(calm, now) >= CALM {
            return reading(stood.one_lower(), now, None);
        }
        reading(stood, stood_since, Some(calm))
    }

    /// Mails that may be brought back in a minute, of `mails_per_minute` that the quota in force allows:
    /// a quarter of them, and no more than keeps the backlog under half of what makes the level busy.
    /// So what was deferred never raises the level again by itself.
    pub fn allowance(&self, figures: &BackPressureFigures, mails_per_minute: u64) -> u64 {
        let quarter = (mails_per_minute / 4).max(1);
        let thresholds = [self.busy.depth, self.overloaded.depth];
        let Some(depth) = thresholds.into_iter().flatten().min() else { return quarter };
        let Some(backlog) = figures.backlog_seconds else { return 0 };
        let room = (depth / 2).saturating_sub(backlog);
        quarter.min(room.saturating_mul(mails_per_minute) / 60)
    }
}

#[cfg(test)]
mod tests;
