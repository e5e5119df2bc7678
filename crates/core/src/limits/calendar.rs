//! Weekly hours and days in a time zone. The zones come with the program (the bundled IANA database), so
//! every poller and every tool reads the same ones.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;

use crate::identity::EpochMillis;
use crate::text::InvalidText;
use crate::timestamp::{Timestamp, Window};

/// A time zone of the IANA database, such as `Europe/Berlin`; UTC unless named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Zone {
    /// Reads a time after `now`: `18:00` (the next time that the clock of this zone shows it), `2026-12-01 08:00`,
    /// or RFC 3339. A time with a day may have passed.
    ///
    /// # Errors
    /// [`InvalidText`] for any other text.
    pub fn instant(&self, text: &str, now: Timestamp) -> Result<EpochMillis, InvalidText> {
        if let Ok(at) = text.parse() {
            return Ok(at);
        }
        let minute = |text: &str| minute_of(text).filter(|at| *at < MIDNIGHT);
        let local = match text.trim().split_once(' ') {
            Some((day, time)) => day.parse().ok().and_then(|day| Some(self.at(day, minute(time)?))),
            None => minute(text.trim()).and_then(|minute| {
                let today = self.day_of(Window::containing(now));
                let passed = self.at(today, minute) <= now;
                Some(self.at(if passed { today.tomorrow().ok()? } else { today }, minute))
            }),
        };
        local.map(EpochMillis::from).ok_or_else(|| {
            InvalidText::new(
                text,
                "is no time; allowed are such as 18:00, 2026-12-01 08:00 and 2026-12-01T08:00:00Z",
            )
        })
    }

    /// A time to the second as the clock of this zone shows it, such as `2026-12-01 18:00:00 Europe/Berlin`.
    pub fn time(&self, at: EpochMillis) -> String {
        let (day, time) = self.local(Window::containing(at.into()));
        format!("{day} {time} {self}")
    }

    /// The day in this zone in which the window opens.
    pub fn day_of(&self, window: Window) -> Date {
        self.local(window).0
    }

    fn local(&self, window: Window) -> (Date, Time) {
        let seconds = i64::try_from(window.epoch_second()).unwrap_or(i64::MAX);
        let at = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
        let local = self.0.to_datetime(at);
        (local.date(), local.time())
    }

    /// The next instant after `window` opens at which the clock is set forward or back: hours that begin in the
    /// hour that is left out have begun then.
    fn next_jump(&self, window: Window) -> Option<Timestamp> {
        let seconds = i64::try_from(window.epoch_second()).ok()?;
        let after = jiff::Timestamp::from_second(seconds).ok()?;
        let jump = self.0.following(after).next()?.timestamp();
        Some(Window::from_epoch_second(u64::try_from(jump.as_second()).ok()?).opens())
    }

    /// The instant at which the clock in this zone shows `minute` of `day` (1,440 is the next day's midnight).
    /// A time that daylight saving skips is as much later; of a time that comes twice it is the first.
    pub(super) fn at(&self, day: Date, minute: u16) -> Timestamp {
        let (day, minute) = match minute {
            MIDNIGHT.. => (day.tomorrow().unwrap_or(day), 0),
            minute => (day, minute),
        };
        let hour = i8::try_from(minute / 60).unwrap_or(0);
        let minute = i8::try_from(minute % 60).unwrap_or(0);
        let at = self.0.to_ambiguous_timestamp(day.at(hour, minute, 0, 0)).compatible();
        let seconds = at.map_or(0, jiff::Timestamp::as_second);
        Window::from_epoch_second(u64::try_from(seconds).unwrap_or(0)).opens()
    }
}

impl FromStr for Zone {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        const ALLOWED: &str = "is no time zone; allowed are the names of the IANA database, such as Europe/Berlin, and UTC";
        TimeZone::get(text).map(Self).map_err(|_| InvalidText::new(text, ALLOWED))
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.iana_name().unwrap_or("UTC"))
    }
}

/// Minutes of a whole day: the time at which the next one begins.
const MIDNIGHT: u16 = 24 * 60;
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// One opening: from a time of day to another, on some days of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Opening {
    /// The first and the last day, Monday 0 to Sunday 6. Friday to Monday is four days.
    days: (u8, u8),
    /// Minutes of the day; `to` is later, at most 1,440.
    from: u16,
    to: u16,
}

/// The hours of a week in which mail may be sent: `Mon-Fri 08:00-20:00, Sat 10:00-16:00`. Without days, an
/// opening is daily. The local time decides: on the day on which clocks are set forward, an opening from 01:00
/// to 04:00 is an hour shorter.
///
/// ```
/// use tidegate_core::limits::{Hours, Zone};
/// let hours: Hours = "Mon-Fri 08:00-20:00".parse()?;
/// let berlin: Zone = "Europe/Berlin".parse()?;
/// // A Friday; Berlin is an hour ahead of UTC.
/// assert!(!hours.is_open(&berlin, "2026-11-20T06:59:59Z".parse()?));
/// assert!(hours.is_open(&berlin, "2026-11-20T07:00:00Z".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hours(Vec<Opening>);

impl Opening {
    fn has(self, day: u8) -> bool {
        let (first, last) = self.days;
        if first <= last { (first..=last).contains(&day) } else { day >= first || day <= last }
    }
}

impl Hours {
    /// Whether the whole second of `window` lies within the hours.
    pub fn is_open(&self, zone: &Zone, window: Window) -> bool {
        let (date, time) = zone.local(window);
        let minute = u16::try_from(i32::from(time.hour()) * 60 + i32::from(time.minute()));
        let (day, minute) = (weekday(date), minute.unwrap_or(0));
        self.0.iter().any(|o| o.has(day) && (o.from..o.to).contains(&minute))
    }

    /// The first instant after `window` opens at which the hours begin or end; `None` if they are always
    /// open.
    pub fn next_change(&self, zone: &Zone, window: Window) -> Option<Timestamp> {
        let is_open = self.is_open(zone, window);
        let mut day = zone.day_of(window);
        // Daylight saving moves an edge by hours at most, so the day before may still have one.
        day = day.yesterday().unwrap_or(day);
        let mut edges = Vec::new();
        for _ in 0..10 {
            let openings = self.0.iter().filter(|o| o.has(weekday(day)));
            edges.extend(openings.flat_map(|o| [o.from, o.to]).map(|minute| zone.at(day, minute)));
            day = day.tomorrow().ok()?;
        }
        edges.extend(zone.next_jump(window));
        edges.sort_unstable();
        let later = edges.into_iter().filter(|edge| *edge > window.opens());
        later.into_iter().find(|edge| self.is_open(zone, Window::containing(*edge)) != is_open)
    }

    /// Begin and end of the only opening of `day`; `None` if there is none.
    pub(super) fn opening(&self, zone: &Zone, day: Date) -> Option<(Timestamp, Timestamp)> {
        let opening = self.0.iter().find(|o| o.has(weekday(day)))?;
        Some((zone.at(day, opening.from), zone.at(day, opening.to)))
    }

    /// Whether any day of the week has more than one opening.
    pub(super) fn has_breaks(&self) -> bool {
        (0..7).any(|day| self.0.iter().filter(|o| o.has(day)).count() > 1)
    }

    /// The number of days with an opening among the `days` that begin with `first`.
    pub(super) fn open_days(&self, first: Date, days: u64) -> u64 {
        let first = weekday(first);
        let is_open = |offset: u64| {
            let day = (u64::from(first) + offset) % 7;
            self.0.iter().any(|o| o.has(u8::try_from(day).unwrap_or(0)))
        };
        let in_week = (0..7).filter(|offset| is_open(*offset)).count() as u64;
        days / 7 * in_week + (0..days % 7).filter(|offset| is_open(*offset)).count() as u64
    }
}

fn weekday(date: Date) -> u8 {
    u8::try_from(date.weekday().since(Weekday::Monday)).unwrap_or(0)
}

impl FromStr for Hours {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        const ALLOWED: &str = "gives no hours; allowed are such as Mon-Fri 08:00-20:00, Sat 10:00-16:00, each from an \
                               earlier to a later time of day (24:00 at most)";
        let openings = text.replace('–', "-");
        let openings = openings.split(',').map(str::trim);
        let read = |part| opening(part).ok_or_else(|| InvalidText::new(part, ALLOWED));
        openings.map(read).collect::<Result<_, _>>().map(Self)
    }
}

fn opening(text: &str) -> Option<Opening> {
    let (days, times) = match text.rsplit_once(' ') {
        Some((days, times)) => (days_of(days.trim())?, times),
        None => ((0, 6), text),
    };
    let (from, to) = times.split_once('-')?;
    let (from, to) = (minute_of(from)?, minute_of(to)?);
    (from < to).then_some(Opening { days, from, to })
}

fn days_of(text: &str) -> Option<(u8, u8)> {
    let day = |name: &str| {
        let place = DAYS.iter().position(|day| day.eq_ignore_ascii_case(name.trim()))?;
        u8::try_from(place).ok()
    };
    match text.split_once('-') {
        Some((first, last)) => Some((day(first)?, day(last)?)),
        None => Some((day(text)?, day(text)?)),
    }
}

fn minute_of(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let two = |digits: &str| (digits.len() == 2).then(|| digits.parse::<u16>().ok()).flatten();
    let at = two(hour)? * 60 + two(minute).filter(|minute| *minute < 60)?;
    (at <= MIDNIGHT).then_some(at)
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Opening { days: (first, last), from, to }) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            let name = |day: &u8| DAYS[usize::from(*day)];
            match (first, last) {
                (0, 6) => {}
                _ if first == last => write!(f, "{} ", name(first))?,
                _ => write!(f, "{}-{} ", name(first), name(last))?,
            }
            write!(f, "{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)?;
        }
        Ok(())
    }
}

serialized_as_text!(Zone, Hours);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hours(text: &str) -> Hours {
        text.parse().unwrap()
    }

    fn zone(name: &str) -> Zone {
        name.parse().unwrap()
    }

    fn window(text: &str) -> Window {
        text.parse().unwrap()
    }

    #[test]
    fn hours_read_back_as_they_were_written() {
        for text in [
            "Mon-Fri 08:00-20:00",
            "08:00-24:00",
            "Sat 10:00-16:00, Sun 12:30-13:00",
            "Fri-Mon 00:00-24:00",
        ] {
            assert_eq!(hours(text).to_string(), text);
        }
        assert_eq!(hours("mon–fri 08:00–20:00").to_string(), "Mon-Fri 08:00-20:00");
    }

    #[test]
    fn what_gives_no_hours_is_refused() {
        for text in [
            "",
            "8-20",
            "08:00-08:00",
            "20:00-04:00",
            "Mon",
            "Foo 08:00-20:00",
            "08:00-24:01",
            "08:60-09:00",
            "08:00-20:00,",
        ] {
            let error = text.parse::<Hours>().unwrap_err().to_string();
            assert!(error.contains("allowed are such as Mon-Fri 08:00-20:00"), "{text}: {error}");
        }
        let error = "Berlin".parse::<Zone>().unwrap_err().to_string();
        assert!(
            error.contains("\"Berlin\" is no time zone; allowed are the names of the IANA"),
            "{error}"
        );
    }

    #[test]
    fn a_time_is_read_by_the_clock_of_the_zone() {
        let berlin = zone("Europe/Berlin");
        let now = window("2026-12-01T10:00:00Z").opens();
        for (text, at) in [
            ("18:00", "2026-12-01T17:00:00Z"),
            ("11:00", "2026-12-02T10:00:00Z"),
            ("2026-12-01 08:00", "2026-12-01T07:00:00Z"),
            ("2026-07-01 08:00", "2026-07-01T06:00:00Z"),
            ("2026-12-01T08:00:00Z", "2026-12-01T08:00:00Z"),
        ] {
            assert_eq!(berlin.instant(text, now), Ok(at.parse().unwrap()));
        }
        for text in ["tomorrow", "2026-12-01", "2026-13-01 08:00", "2026-12-01 24:00"] {
            let error = berlin.instant(text, now).unwrap_err().to_string();
            assert!(
                error.contains("is no time; allowed are such as 18:00, 2026-12-01 08:00"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_night_on_which_clocks_change_keeps_the_local_hours() {
        let (hours, berlin) = (hours("01:00-04:00"), zone("Europe/Berlin"));
        let open = |day: &str| {
            let midnight = window(&format!("{day}T20:00:00Z"));
            (0..14 * 60).filter(|n| hours.is_open(&berlin, midnight.plus(n * 60))).count()
        };
        assert_eq!(open("2026-03-27"), 3 * 60);
        assert_eq!(open("2026-03-28"), 2 * 60, "02:00 to 03:00 is skipped");
        assert_eq!(open("2026-10-24"), 4 * 60, "02:00 to 03:00 comes twice");
    }

    #[test]
    fn open_days_are_counted_over_weeks() {
        let monday = jiff::civil::date(2026, 11, 23);
        let weekdays = hours("Mon-Fri 08:00-20:00");
        assert_eq!((weekdays.open_days(monday, 5), weekdays.open_days(monday, 14)), (5, 10));
        assert_eq!(weekdays.open_days(jiff::civil::date(2026, 11, 28), 3), 1);
    }

    const ZONES: [&str; 6] = [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Asia/Kolkata",
        "Australia/Lord_Howe",
        "Pacific/Apia",
    ];

    #[test]
    fn hours_that_begin_in_the_hour_that_is_left_out_begin_when_the_clock_is_set() {
        // On 28 March 2027 the clock in Berlin goes from 02:00 to 03:00.
        let (hours, berlin) = (hours("02:01-03:01"), zone("Europe/Berlin"));
        let change = |at: &str| hours.next_change(&berlin, window(at)).map(EpochMillis::from);
        assert_eq!(change("2027-03-28T00:30:00Z"), Some("2027-03-28T01:00:00Z".parse().unwrap()));
        assert_eq!(change("2027-03-28T01:00:00Z"), Some("2027-03-28T01:01:00Z".parse().unwrap()));
    }

    proptest! {
        /// Also on the days on which clocks change.
        #[test]
        fn hours_change_at_the_next_change_and_not_before(
            zone_at in 0_usize..6, second in 1_735_700_000_u64..1_830_000_000, from in 0_u16..1_439, length in 1_u16..600, days in (0_u8..7, 0_u8..7),
        ) {
            let zone = zone(ZONES[zone_at]);
            let hours = Hours(vec![Opening { days, from, to: (from + length).min(MIDNIGHT) }]);
            let now = Window::from_epoch_second(second);
            let is_open = hours.is_open(&zone, now);
            if let Some(change) = hours.next_change(&zone, now) {
                let change = Window::containing(change);
                prop_assert!(change > now);
                prop_assert_eq!(hours.is_open(&zone, change), !is_open);
                // A minute is the finest step of the hours.
                let steps = (change.epoch_second() - 1 - second) / 60;
                for step in (0..steps).step_by(7) {
                    prop_assert_eq!(hours.is_open(&zone, now.plus(step * 60)), is_open);
                }
                let before = Window::from_epoch_second(change.epoch_second() - 1);
                prop_assert_eq!(hours.is_open(&zone, before), is_open);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[A-Za-z0-9:, -]{0,30}") {
            if let Ok(hours) = text.parse::<Hours>() {
                prop_assert_eq!(hours.to_string().parse::<Hours>(), Ok(hours));
            }
        }
    }
}
