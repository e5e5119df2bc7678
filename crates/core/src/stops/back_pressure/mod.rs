//! Back-pressure: compares the mail that waits with the mail that can be sent, and defers mail of low
//! priority if too much waits.
//!
//! The scheduler judges once a minute. A level rises as soon as one figure reaches its threshold. It
//! falls one step at a time, after every known figure stayed under 80 % of its thresholds for [`CALM`].
//! A figure that varies by less than a fifth around a threshold therefore changes the level once.
//! Between a rise and the next fall lie at least 5 minutes.
//!
//! Example with the default thresholds: the backlog reaches 12 h of sending, so the level becomes busy.
//! At 9 h (75 % of 12 h) it is calm; after 5 calm minutes the level is clear again. At 10 h (83 %) it
//! would stay busy.

mod growth;
mod thresholds;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::Timestamp;
use crate::email::Priority;
use crate::identity::EpochMillis;
pub use growth::BacklogHistory;
pub use thresholds::{ALLOWED as ALLOWED_THRESHOLDS, Thresholds};

/// Time for which every figure must stay under 80 % of a level's thresholds before the level falls one
/// step.
pub const CALM: Duration = Duration::from_mins(5);
/// Age from which a reading counts as clear. The scheduler has then failed to judge 15 times, and mail
/// must not be deferred for ever on an old reading.
pub const KEPT: Duration = Duration::from_mins(15);
/// Least number of sends in the measured period for which their refusals are judged. Below it the share
/// says little: 1 refusal of 3 sends is 33 %.
pub const LEAST_SENDS: u64 = 20;
/// Per cent of a threshold below which a figure is calm.
const CALM_PERCENT: u64 = 80;
/// Millionths in 1. Shares are whole millionths, so that no rounding of fractions decides.
const WHOLE: u64 = 1_000_000;

/// How much more mail waits than can be sent, in three levels.
///
/// ```
/// use tidegate_core::{email::Priority, back_pressure::BackPressureLevel};
/// assert!(BackPressureLevel::Busy.defers(Priority::Low));
/// assert!(!BackPressureLevel::Busy.defers(Priority::Normal));
/// assert!(BackPressureLevel::Overloaded.defers(Priority::Normal));
/// assert!(!BackPressureLevel::Overloaded.defers(Priority::High));
/// ```
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "snake_case", from = "String")]
#[strum(serialize_all = "snake_case")]
pub enum BackPressureLevel {
    /// All mail is sent in its order of arrival.
    #[default]
    Clear,
    /// Mail of priority `low` is deferred.
    Busy,
    /// Mail of priorities `low` and `normal` is deferred.
    Overloaded,
}

impl BackPressureLevel {
    /// All levels in ascending order, from clear to overloaded.
    pub const ALL: [Self; 3] = [Self::Clear, Self::Busy, Self::Overloaded];

    /// True if mail of this priority is deferred at this level. `high` and `critical` mail is never
    /// deferred.
    pub const fn defers(self, priority: Priority) -> bool {
        match self {
            Self::Clear => false,
            Self::Busy => matches!(priority, Priority::Low),
            Self::Overloaded => matches!(priority, Priority::Low | Priority::Normal),
        }
    }

    /// The level's name in the control record, in logs and in commands.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The level as the value of its CloudWatch metric: 0 clear, 1 busy, 2 overloaded.
    pub const fn as_number(self) -> u8 {
        self as u8
    }

    const fn one_lower(self) -> Self {
        match self {
            Self::Clear | Self::Busy => Self::Clear,
            Self::Overloaded => Self::Busy,
        }
    }
}

impl From<String> for BackPressureLevel {
    /// A name that a newer version wrote is clear, so that the control record stays readable.
    fn from(name: String) -> Self {
        name.parse().unwrap_or_default()
    }
}

/// The figures by which a level is judged. A figure that is not known raises no level. An unknown
/// backlog also keeps the level from falling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackPressureFigures {
    /// Number of mails that wait in the queues, without those of held campaigns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog_mails: Option<u64>,
    /// Seconds that sending these mails takes at the quota in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog_seconds: Option<u64>,
    /// Mean number of seconds that recently sent mail had waited in its queues; none if nothing was
    /// sent. Only mail in its first pass counts: retried and replayed mail is old for other reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
    /// Share of the sends that SES refused for the rate, in millionths; none if nothing was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_millionths: Option<u64>,
}

impl BackPressureFigures {
    /// The share of `refused` in all sends (`refused` + `sent`), in millionths: 1 of 20 is 50,000. None
    /// if there were no sends; 0 if there were fewer than [`LEAST_SENDS`].
    pub fn refused_share(refused: u64, sent: u64) -> Option<u64> {
        let all = refused.saturating_add(sent);
        match all {
            0 => None,
            1..LEAST_SENDS => Some(0),
            _ => Some(refused.saturating_mul(WHOLE) / all),
        }
    }
}

/// The result of the last judgement, a member of the control record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The level that was judged; [`Reading::level_at`] is the one in force.
    #[serde(default)]
    pub level: BackPressureLevel,
    /// Time since which this level has been in force.
    pub since: EpochMillis,
    /// Time since which every figure has been low enough for the next lower level; none if one is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calm_since: Option<EpochMillis>,
    /// The figures that this level was judged by.
    #[serde(default)]
    pub figures: BackPressureFigures,
    /// The backlog of the last 75 minutes.
    #[serde(default, skip_serializing_if = "BacklogHistory::is_empty")]
    pub backlog: BacklogHistory,
    /// Time since which it has been known that the backlog has grown for an hour; none if it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growing_since: Option<EpochMillis>,
    /// Time of the judgement that was written last.
    pub read_at: EpochMillis,
}

impl Reading {
    /// The level in force at `now`: clear if the reading is older than [`KEPT`].
    pub fn level_at(&self, now: EpochMillis) -> BackPressureLevel {
        if self.is_old(now) { BackPressureLevel::Clear } else { self.level }
    }

    /// True if the reading is older than [`KEPT`] at `now`.
    pub fn is_old(&self, now: EpochMillis) -> bool {
        since(self.read_at, now) > KEPT
    }

    /// Time for which the level has been clear at `now`. None if it is not clear, or if the reading is
    /// too old.
    pub fn clear_for(&self, now: EpochMillis) -> Option<Duration> {
        (self.level == BackPressureLevel::Clear && !self.is_old(now))
            .then(|| since(self.since, now))
    }

    /// True if this reading must replace `before` in the ledger: the level changed, a calm period or a growth
    /// began or ended, or it is the first of its five minutes, or the first of them with a backlog. Not each
    /// minute's is written, because each write is billed.
    pub fn is_news(&self, before: Option<&Self>) -> bool {
        let judged = |reading: &Self| {
            (reading.level, reading.calm_since.is_some(), reading.growing_since.is_some())
        };
        before.is_none_or(|before| {
            judged(before) != judged(self)
                || BacklogHistory::periods(before.read_at, self.read_at) > 0
                || self.backlog.is_newer_than(&before.backlog)
        })
    }
}

fn since(earlier: EpochMillis, now: EpochMillis) -> Duration {
    Timestamp::from(now).saturating_since(earlier.into())
}

/// The thresholds of the two upper levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackPressurePolicy {
    /// Thresholds from which the level is busy.
    pub busy: Thresholds,
    /// Thresholds from which the level is overloaded; none lies below its counterpart in `busy`.
    pub overloaded: Thresholds,
}

impl Default for BackPressurePolicy {
    /// Busy from 12 h of backlog or age, or 5 % refusals; overloaded from 48 h, or 20 %. Backlog of a
    /// day is usual for one large campaign. Two days are well below the 14 days for which SQS keeps a
    /// message at most.
    fn default() -> Self {
        let of = |hours: u64, percent: u64| Thresholds {
            depth: Some(hours * 3_600),
            age: Some(hours * 3_600),
            refused: Some(percent * WHOLE / 100),
        };
        Self { busy: of(12, 5), overloaded: of(48, 20) }
    }
}

impl BackPressurePolicy {
    /// The thresholds of a level; none for clear.
    pub const fn of(&self, level: BackPressureLevel) -> Option<&Thresholds> {
        match level {
            BackPressureLevel::Clear => None,
            BackPressureLevel::Busy => Some(&self.busy),
            BackPressureLevel::Overloaded => Some(&self.overloaded),
        }
    }

    /// The highest level for which at least one figure reaches its threshold.
    fn demanded(&self, figures: &BackPressureFigures) -> BackPressureLevel {
        let reached =
            |level: &BackPressureLevel| self.of(*level).is_some_and(|t| t.reached(figures, 100));
        BackPressureLevel::ALL.into_iter().rev().find(reached).unwrap_or_default()
    }

    /// True if no figure keeps `level` from falling one step. The figures must be calm for this level
    /// and for all higher ones.
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

    /// Judges `figures` at `now`, given the reading `before`.
    ///
    /// The level rises at once, by as many steps as the figures demand. It falls one step after
    /// [`CALM`] without interruption: the first calm judgement notes the time in `calm_since`, a later
    /// one that is not calm deletes it.
    ///
    /// ```
    /// use tidegate_core::identity::EpochMillis;
    /// use tidegate_core::back_pressure::{BackPressureFigures, BackPressureLevel, BackPressurePolicy};
    /// let (policy, at) = (BackPressurePolicy::default(), |minute: u64| EpochMillis::new(minute * 60_000));
    /// let backlog = |hours: u64| BackPressureFigures {
    ///     backlog_seconds: Some(hours * 3_600),
    ///     ..BackPressureFigures::default()
    /// };
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
        let periods = before.map_or(0, |before| BacklogHistory::periods(before.read_at, now));
        let backlog = before.map_or_else(BacklogHistory::default, |before| before.backlog);
        let backlog = backlog.then(periods, figures.backlog_mails);
        let grew = before.and_then(|before| before.growing_since);
        let found = grew.map(|grew| since(grew, now));
        let growing_since = backlog.grows(&figures, found).then(|| grew.unwrap_or(now));
        let reading = |level, since, calm_since| Reading {
            level,
            since,
            calm_since,
            figures,
            backlog,
            growing_since,
            read_at: now,
        };
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

    /// Number of deferred mails that may be replayed in one minute, if the quota in force allows
    /// `mails_per_minute`.
    ///
    /// It is a quarter of these, and at most so many that the backlog stays below half of the depth
    /// that makes the level busy. Replays alone therefore never raise the level again. Example: the
    /// depth is 43,200 s (12 h) and 840 mails go per minute. A backlog of 21,590 s leaves room for 10 s
    /// of sending, so 140 mails may be replayed; an empty backlog allows 210.
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
