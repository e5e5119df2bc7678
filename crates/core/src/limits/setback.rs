//! Setbacks of a warm-up: after a day with too many bounces, complaints or deferrals, it does not grow.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::calendar::{Hours, Zone};
use super::ramp::{Ramp, Setback};
use crate::number::real;
use crate::timestamp::Window;

/// A single notice on a day sets nothing back.
const LEAST: u64 = 2;

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

impl Ramp {
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

#[cfg(test)]
mod tests {
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
    fn the_first_day_cannot_be_stepped_back_from() {
        let bad = after(&ramp(), 0, [90, 0, 0]).unwrap();
        assert_eq!([0, 1, 2].map(|day| amount(&bad, day)), [100, 100, 100]);
    }
}
