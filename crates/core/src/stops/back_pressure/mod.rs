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

use std::array::from_fn;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::Timestamp;
use crate::email::Priority;
use crate::identity::EpochMillis;
use crate::number::real;
use crate::rate::percent;

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
/// Milliseconds of one reading's period.
const PERIOD: u64 = 5 * 60 * 1_000;
/// Readings of which one median is taken: those of a quarter of an hour.
const QUARTER: usize = 3;
/// Readings that are kept: those of five quarters. The medians of the first and the last are an hour apart.
const READINGS: usize = 5 * QUARTER;
/// How long a growth lasts at least.
const LASTS: Duration = Duration::from_mins(30);
/// Seconds of sending by which the backlog must grow in an hour: a tenth of it.
const TENTH: u64 = 360;
/// Describes the allowed thresholds, for error messages and the documentation of settings.
pub const ALLOWED_THRESHOLDS: &str = "off, or one or more of depth=TIME, age=TIME and refused=SHARE with commas between, each once, such as depth=4h,age=6h,refused=5% (times from 1m to 14d such as 90s, 12h or 1h30m; shares from 0.1% to 100%)";

/// Largest threshold: SQS keeps a message for at most 14 days.
const MOST: Duration = Duration::from_hours(14 * 24);
/// Smallest threshold: figures are measured once a minute, so a shorter time has no meaning.
const LEAST: Duration = Duration::from_mins(1);

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
    JsonSchema,
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

    const fn one_lower(self) -> Self {
        if matches!(self, Self::Overloaded) { Self::Busy } else { Self::Clear }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calm_since: Option<EpochMillis>,
    /// The figures that this level was judged by.
    #[serde(default)]
    pub figures: BackPressureFigures,
    /// The backlog of the last 75 minutes.
    #[serde(default, skip_serializing_if = "BacklogHistory::is_empty")]
    pub backlog: BacklogHistory,
    /// Time since which it has been known that the backlog has grown for an hour; none if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
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
        let read_at = now;
        let reading = |level, since, calm_since| Reading {
            level,
            since,
            calm_since,
            figures,
            backlog,
            growing_since,
            read_at,
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

/// The backlog of the last 75 minutes in mails: the first known reading of each five minutes, the newest last.
///
/// SQS's counts are approximate, so single readings decide nothing: of each quarter of an hour the median counts.
/// A reading may be missing in each quarter. An empty backlog forgets what was before: whatever comes later did
/// not grow out of it. More than 4,294,967,295 mails count as that many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Option<u64>>", into = "Vec<Option<u64>>")]
pub struct BacklogHistory([Option<NonZeroU32>; READINGS]);

impl BacklogHistory {
    /// True if nothing is known of the last 75 minutes, or the backlog is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [None; READINGS]
    }

    /// The number of five-minute periods between two times.
    const fn periods(earlier: EpochMillis, later: EpochMillis) -> u64 {
        (later.as_millis() / PERIOD).saturating_sub(earlier.as_millis() / PERIOD)
    }

    /// True if only this one has a reading of the newest five minutes.
    fn is_newer_than(&self, other: &Self) -> bool {
        self.0.last().is_some_and(Option::is_some) && other.0.last().is_some_and(Option::is_none)
    }

    /// Adds a reading of `mails`, so many `periods` after the last one.
    fn then(self, periods: u64, mails: Option<u64>) -> Self {
        if mails == Some(0) {
            return Self::default();
        }
        let by = usize::try_from(periods).unwrap_or(READINGS);
        let mut kept = from_fn(|at| self.0.get(at.saturating_add(by)).copied().flatten());
        kept[READINGS - 1] = kept[READINGS - 1].or_else(|| reading(mails));
        Self(kept)
    }

    /// True if the backlog, now with these `figures`, has grown for an hour: each quarter of an hour is above the
    /// one before, and the last is above the first by more than a tenth of what can be sent in an hour. Once that
    /// was `found`, so long ago, it is so until the backlog is no larger than an hour before, and for half an hour
    /// at least, so that an operator hears of it once.
    fn grows(&self, figures: &BackPressureFigures, found: Option<Duration>) -> bool {
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
    fn reached(&self, figures: &BackPressureFigures, percent: u64) -> bool {
        [
            (self.depth, figures.backlog_seconds),
            (self.age, figures.age_seconds),
            (self.refused, figures.refused_millionths),
        ]
        .into_iter()
        .filter_map(|(threshold, figure)| threshold.zip(figure))
        .any(|(most, figure)| figure.saturating_mul(100) >= most.saturating_mul(percent))
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
        self.at_least(lower) == *self
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

#[cfg(test)]
mod tests;
