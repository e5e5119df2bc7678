//! Warm-up: a number of recipients for each day, which grows. After a day with too many bounces, complaints or
//! deferrals, it does not grow.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::calendar::{Hours, Zone};
use crate::number::{real, whole};
use crate::text::InvalidText;
use crate::timestamp::{SECOND, Timestamp, Window};

/// The largest number of recipients of one day: 10,000 per second.
const MOST: u64 = 864_000_000;
/// The most days that a table may list.
const LONGEST: usize = 366;
/// A single notice on a day sets nothing back.
const LEAST: u64 = 2;

/// The amounts of a ramp's days.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RampDays {
    /// Each day's recipients; the last number holds for all days after it.
    Table(Vec<u64>),
    /// The first day's recipients, multiplied by `factor` each day up to `target`.
    Growth {
        /// Recipients of the first day.
        start: u64,
        /// More than 1, at most 10.
        factor: f64,
        /// Recipients of each day from when they are reached.
        target: u64,
    },
}

/// A limit in recipients per day that grows from day to day (warm-up). The day's recipients are spread evenly
/// over the day, or over the limit's hours. A day without hours is no day of the ramp.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ramp {
    /// The first day, in the limit's time zone. Nothing may be sent before it.
    pub from: Date,
    /// The recipients of each day.
    pub days: RampDays,
    /// The days that bad days have taken away; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setback: Option<Setback>,
}

/// The days that a warm-up has lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setback {
    /// The last bad day. It keeps its number of recipients.
    pub day: Date,
    /// Days that all bad days together take away from the next day on.
    pub days: u64,
    /// The days of these that the last bad day took away: 1 repeats its level, 2 step back by one.
    pub last: u64,
    /// The last bad day's figure, such as `7.1 % bounces (5 % are allowed)`.
    pub why: String,
}

impl Setback {
    /// The number of days that bad days have taken away by `day`.
    fn lost(&self, day: Date) -> u64 {
        if day > self.day { self.days } else { self.days - self.last }
    }
}

/// Error for a limit that cannot be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct InvalidLimit(pub(super) String);

/// The notices about mail under one warm-up on one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RampTally {
    /// The day in the limit's time zone.
    pub day: Date,
    /// Hard bounces.
    #[serde(default)]
    pub bounces: u64,
    /// Spam complaints.
    #[serde(default)]
    pub complaints: u64,
    /// Deferrals by providers.
    #[serde(default)]
    pub deferrals: u64,
}

impl RampTally {
    /// No notice yet.
    pub const fn of(day: Date) -> Self {
        Self { day, bounces: 0, complaints: 0, deferrals: 0 }
    }
}

/// The slots of one day of a ramp: so many, evenly from `opens` to `closes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaySlots {
    /// The begin of the day, or of its hours.
    pub opens: Timestamp,
    /// The end of the day, or of its hours.
    pub closes: Timestamp,
    /// The recipients of the day, at least 1.
    pub amount: u64,
}

impl std::str::FromStr for RampDays {
    type Err = InvalidText;

    /// Reads `50,100,500` (a table), or `50 x1.5 to 50000` (growth).
    fn from_str(text: &str) -> Result<Self, InvalidText> {
        const ALLOWED: &str = "is no warm-up; allowed are such as 50,100,500,1000 and 50 x1.5 to 50000 (recipients per day)";
        let growth = || {
            let (start, rest) = text.split_once('x')?;
            let (factor, target) = rest.split_once("to")?;
            let number = |text: &str| text.trim().parse().ok();
            let (start, target) = (number(start)?, number(target)?);
            Some(Self::Growth { start, factor: factor.trim().parse().ok()?, target })
        };
        let table = || {
            let days = text.split(',').map(|day| day.trim().parse().ok());
            days.collect::<Option<Vec<u64>>>().map(Self::Table)
        };
        table().or_else(growth).ok_or_else(|| InvalidText::new(text, ALLOWED))
    }
}

impl RampDays {
    /// The recipients of day number `day`, from 0.
    fn amount(&self, day: u64) -> u64 {
        match self {
            Self::Table(days) => {
                let place = usize::try_from(day).unwrap_or(usize::MAX);
                days.get(place).or(days.last()).copied().unwrap_or(0)
            }
            Self::Growth { start, factor, target } => {
                let grown = real(*start) * factor.powf(real(day));
                if grown < real(*target) { whole(grown.round()) } else { *target }
            }
        }
    }
}

impl std::fmt::Display for Ramp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.days {
            RampDays::Table(days) => {
                let (first, last) = (days.first().unwrap_or(&0), days.last().unwrap_or(&0));
                write!(f, "warm-up from {first}/d to {last}/d in {} days", days.len())?;
            }
            RampDays::Growth { start, factor, target } => {
                write!(f, "warm-up from {start}/d to {target}/d, times {factor} each day")?;
            }
        }
        write!(f, ", begun {}", self.from)?;
        self.setback.as_ref().map_or(Ok(()), |setback| {
            write!(f, ", set back by {} since {}: {}", setback.days, setback.day, setback.why)
        })
    }
}

impl Ramp {
    /// Checks the ramp, and whether it goes with the limit's hours.
    pub(super) fn check(&self, hours: Option<&Hours>) -> Result<(), InvalidLimit> {
        let fault = |text: String| Err(InvalidLimit(text));
        let amounts = match &self.days {
            RampDays::Table(days) if days.is_empty() || days.len() > LONGEST => {
                let days = days.len();
                return fault(format!("the warm-up has {days} days; allowed are 1 to {LONGEST}"));
            }
            RampDays::Table(days) => days.clone(),
            RampDays::Growth { factor, .. } if !(*factor > 1.0 && *factor <= 10.0) => {
                return fault(format!(
                    "the warm-up's factor is {factor}; allowed is more than 1 and at most 10"
                ));
            }
            RampDays::Growth { start, target, .. } => vec![*start, *target],
        };
        if let Some(amount) = amounts.into_iter().find(|amount| !(1..=MOST).contains(amount)) {
            return fault(format!(
                "the warm-up has a day of {amount} recipients; allowed are 1 to {MOST}"
            ));
        }
        if hours.is_some_and(Hours::has_breaks) {
            return fault(
                "a warm-up's hours have a break; allowed is one opening a day".to_owned(),
            );
        }
        Ok(())
    }

    /// The slots of the day in which `window` lies; `None` before the first day and outside the hours.
    pub fn day(&self, hours: Option<&Hours>, zone: &Zone, window: Window) -> Option<DaySlots> {
        let day = zone.day_of(window);
        let days = u64::try_from((day - self.from).get_days()).ok()?;
        let (opens, closes) = match hours {
            Some(hours) => hours.opening(zone, day)?,
            None => (zone.at(day, 0), zone.at(day.tomorrow().ok()?, 0)),
        };
        let number = hours.map_or(days, |hours| hours.open_days(self.from, days));
        let lost = self.setback.as_ref().map_or(0, |setback| setback.lost(day));
        let amount = self.days.amount(number.saturating_sub(lost));
        let is_open = (opens..closes).contains(&window.opens());
        (is_open && amount > 0).then_some(DaySlots { opens, closes, amount })
    }

    /// The ramp after the notices of `tally`'s day; `None` if it stays as it is. SES reviews an account at 5 %
    /// bounces or 0.1 % complaints; of deferrals 10 % are allowed, of that day's recipients. A day with more
    /// repeats its level, and a day with twice as many steps back by one.
    pub fn after(
        &self,
        tally: &RampTally,
        hours: Option<&Hours>,
        zone: &Zone,
        now: Window,
    ) -> Option<Self> {
        let amount = self.day(hours, zone, now)?.amount;
        let share = |count: u64| real(count) / real(amount) * 100.0;
        let bounds = [
            (tally.bounces, 5.0, "bounces"),
            (tally.complaints, 0.1, "complaints"),
            (tally.deferrals, 10.0, "deferrals"),
        ];
        let over =
            bounds.into_iter().filter(|(count, most, _)| *count >= LEAST && share(*count) > *most);
        let worst = |of: &(u64, f64, &str)| share(of.0) / of.1;
        let (count, most, what) = over.max_by(|a, b| worst(a).total_cmp(&worst(b)))?;
        let last = if share(count) > 2.0 * most { 2 } else { 1 };
        let stood = self.setback.as_ref();
        let is_known = stood.is_some_and(|stood| stood.day == tally.day);
        let before =
            stood.map_or(0, |stood| if is_known { stood.days - stood.last } else { stood.days });
        if is_known && stood.is_some_and(|stood| stood.last >= last) {
            return None;
        }
        let why = format!("{:.1} % {what} ({most} % are allowed)", share(count));
        let setback = Setback { day: tally.day, days: before + last, last, why };
        Some(Self { setback: Some(setback), ..self.clone() })
    }
}

impl DaySlots {
    /// The first slot's time and the distance between two, in nanoseconds.
    ///
    /// The day's first second has no slot: it separates this day's slots from those of the day before, so no
    /// second contains sends of both. Example: 86,399 recipients in 24 hours have a slot in each second but
    /// the first.
    pub(super) const fn grid(self) -> (u64, u64) {
        let first = self.opens.as_nanos() + SECOND;
        let length = self.closes.as_nanos().saturating_sub(first);
        let period = length / if self.amount == 0 { 1 } else { self.amount };
        (first, if period == 0 { 1 } else { period })
    }
}

#[cfg(test)]
mod setback_tests {
    use super::*;
    use crate::limits::RampDays;

    fn window(day: u64) -> Window {
        let first: Window = "2026-11-01T12:00:00Z".parse().unwrap();
        first.plus(day * 86_400)
    }

    fn ramp() -> Ramp {
        let days = RampDays::Table(vec![100, 200, 400, 800, 1_600]);
        Ramp { from: "2026-11-01".parse().unwrap(), days, setback: None }
    }

    fn amount(ramp: &Ramp, day: u64) -> u64 {
        ramp.day(None, &Zone::default(), window(day)).unwrap().amount
    }

    fn after(ramp: &Ramp, day: u64, [bounces, complaints, deferrals]: [u64; 3]) -> Option<Ramp> {
        let date = format!("2026-11-{:02}", day + 1).parse().unwrap();
        let tally = RampTally { bounces, complaints, deferrals, ..RampTally::of(date) };
        ramp.after(&tally, None, &Zone::default(), window(day))
    }

    #[test]
    fn a_bad_day_is_repeated_and_a_very_bad_one_is_stepped_back_from() {
        // Day 2 has 400: 24 bounces are 6 %.
        let bad = after(&ramp(), 2, [24, 0, 0]).unwrap();
        assert_eq!([2, 3, 4].map(|day| amount(&bad, day)), [400, 400, 800]);
        assert_eq!(bad.setback.as_ref().unwrap().why, "6.0 % bounces (5 % are allowed)");
        // The same day becomes worse: it counts once.
        let worse = after(&bad, 2, [24, 0, 90]).unwrap();
        assert_eq!([2, 3, 4].map(|day| amount(&worse, day)), [400, 200, 400]);
        assert_eq!(worse.setback.as_ref().unwrap().why, "22.5 % deferrals (10 % are allowed)");
        assert_eq!(after(&worse, 2, [30, 0, 0]), None, "no better for less");
        // A second bad day, of 200.
        let second = after(&worse, 3, [0, 0, 25]).unwrap();
        assert_eq!([3, 4, 5].map(|day| amount(&second, day)), [200, 200, 400]);
    }

    #[test]
    fn a_single_complaint_and_shares_at_their_bounds_change_nothing() {
        for notices in [[0, 1, 0], [1, 1, 1], [20, 0, 0], [0, 0, 40]] {
            assert_eq!(after(&ramp(), 2, notices), None, "{notices:?}");
        }
        assert!(after(&ramp(), 2, [0, 2, 0]).is_some(), "two complaints of 400 are 0.5 %");
    }

    #[test]
    fn late_notices_of_a_day_count_beside_a_newer_bad_day() {
        let newer = after(&ramp(), 3, [200, 0, 0]).unwrap();
        assert_eq!([4, 5].map(|day| amount(&newer, day)), [400, 800]);
        let both = after(&newer, 2, [24, 0, 0]).unwrap();
        assert_eq!([4, 5].map(|day| amount(&both, day)), [200, 400]);
    }

    #[test]
    fn the_first_day_cannot_be_stepped_back_from() {
        let bad = after(&ramp(), 0, [90, 0, 0]).unwrap();
        assert_eq!([0, 1, 2].map(|day| amount(&bad, day)), [100, 100, 100]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ramp(days: RampDays) -> Ramp {
        Ramp { from: jiff::civil::date(2026, 11, 23), days, setback: None }
    }

    fn window(text: &str) -> Window {
        text.parse().unwrap()
    }

    #[test]
    fn a_table_keeps_its_last_day_and_growth_ends_at_its_target() {
        let table = RampDays::Table(vec![50, 100, 500]);
        assert_eq!([0, 1, 2, 3, 99].map(|day| table.amount(day)), [50, 100, 500, 500, 500]);
        let growth = RampDays::Growth { start: 50, factor: 1.5, target: 300 };
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 4_000].map(|day| growth.amount(day)),
            [50, 75, 113, 169, 253, 300, 300]
        );
    }

    #[test]
    fn days_are_read_as_a_table_or_as_growth() {
        assert_eq!("50, 100,500".parse(), Ok(RampDays::Table(vec![50, 100, 500])));
        let growth = RampDays::Growth { start: 50, factor: 1.5, target: 50_000 };
        assert_eq!("50 x1.5 to 50000".parse(), Ok(growth));
        for text in ["", "50;100", "50 x to 9", "fifty", "-5"] {
            let error = text.parse::<RampDays>().unwrap_err().to_string();
            assert!(error.contains("is no warm-up; allowed are such as"), "{error}");
        }
    }

    #[test]
    fn a_day_begins_and_ends_with_the_zone_or_the_hours() {
        let berlin: Zone = "Europe/Berlin".parse().unwrap();
        let ramp = ramp(RampDays::Table(vec![10, 20, 30]));
        let day = |hours: Option<&Hours>, at: &str| ramp.day(hours, &berlin, window(at));
        assert_eq!(day(None, "2026-11-22T22:59:59Z"), None, "the day before");
        let first = day(None, "2026-11-22T23:00:00Z").unwrap();
        assert_eq!((first.amount, first.opens), (10, window("2026-11-22T23:00:00Z").opens()));
        assert_eq!(day(None, "2026-11-25T12:00:00Z").unwrap().amount, 30);
        let hours: Hours = "Mon-Fri 08:00-20:00".parse().unwrap();
        assert_eq!(day(Some(&hours), "2026-11-23T06:59:59Z"), None);
        assert_eq!(day(Some(&hours), "2026-11-23T07:00:00Z").unwrap().amount, 10);
        assert_eq!(day(Some(&hours), "2026-11-28T12:00:00Z"), None, "a Saturday");
        assert_eq!(day(Some(&hours), "2026-11-25T12:00:00Z").unwrap().amount, 30);
    }

    #[test]
    fn a_ramp_that_cannot_be_is_refused() {
        let hours: Hours = "08:00-12:00, 13:00-17:00".parse().unwrap();
        for (days, hours, said) in [
            (RampDays::Table(vec![]), None, "0 days; allowed are 1 to 366"),
            (RampDays::Table(vec![5, 0]), None, "a day of 0 recipients; allowed are 1 to"),
            (
                RampDays::Growth { start: 5, factor: 1.0, target: 9 },
                None,
                "factor is 1; allowed is more than 1",
            ),
            (RampDays::Table(vec![5]), Some(&hours), "hours have a break"),
        ] {
            let error = ramp(days).check(hours).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let growth = |factor| RampDays::Growth { start: 5, factor, target: 9 };
        assert_eq!([1.1, 10.0].map(|factor| ramp(growth(factor)).check(None)), [Ok(()), Ok(())]);
        assert!(ramp(growth(10.1)).check(None).is_err());
    }

    proptest! {
        #[test]
        fn all_slots_of_a_day_lie_within_it(amount in 1_u64..5_000_000, hours in 1_u64..25) {
            let opens = window("2026-11-23T00:00:00Z").opens();
            let closes = Timestamp::from_nanos(opens.as_nanos() + hours * 3_600 * SECOND);
            let (first, period) = DaySlots { opens, closes, amount }.grid();
            prop_assert!(first + (amount - 1) * period < closes.as_nanos());
            // One more would not fit by more than the rounding.
            prop_assert!(first + (amount + 1) * period + amount >= closes.as_nanos());
        }
    }
}
