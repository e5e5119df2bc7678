//! The time of a row's message: a column `not_before`, by the clock of a zone in the column `time_zone` where it names none.

use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;

use crate::identity::EpochMillis;

/// The column of the time.
pub(super) const TIME: &str = "not_before";
/// The column of the recipient's zone.
pub(super) const ZONE: &str = "time_zone";

const ALLOWED: &str = "must be a time with its zone, such as 2026-12-24T09:00+01:00; beside a column time_zone also \
                       2026-12-24T09:00, or local 09:00 for the next such time there";

/// A spreadsheet's `9:00` as `09:00`.
fn two_digits(text: &str) -> String {
    let mut text = text.to_owned();
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    if let Some(hour) = text.find(':').and_then(|colon| colon.checked_sub(1))
        && is_digit(hour)
        && !hour.checked_sub(1).is_some_and(is_digit)
    {
        text.insert(hour, '0');
    }
    text
}

/// Reads a time as it stands in a list or an option.
///
/// `local 09:00` is the first 09:00 in the zone after `now`. Of a local time that is left out as clocks go forward, the
/// time an hour later counts; of one that stands twice, the first.
///
/// # Errors
/// The reason, in words, why it is none.
pub(super) fn read(
    text: &str,
    zone: Option<&str>,
    now: EpochMillis,
) -> Result<EpochMillis, String> {
    let text = &two_digits(text);
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return millis(at);
    }
    let zone = match zone.filter(|zone| !zone.is_empty()) {
        None => return Err(ALLOWED.to_owned()),
        Some(name) => zone_of(name)?,
    };
    let at = match text.strip_prefix("local ") {
        Some(time) => next(time.trim().parse().map_err(|_| ALLOWED)?, &zone, now),
        None => zone.to_timestamp(text.parse::<DateTime>().map_err(|_| ALLOWED)?).ok(),
    };
    at.ok_or(ALLOWED.to_owned()).and_then(millis)
}

/// A zone by its name, or by its distance from UTC. The parser would read `UTC+1` as POSIX does: an hour west of UTC, where
/// people mean east.
fn zone_of(name: &str) -> Result<TimeZone, String> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    let is_offset = name.starts_with(['+', '-']);
    let zone = if is_offset { PARSER.parse_time_zone(name) } else { TimeZone::get(name) };
    zone.map_err(|_| {
        format!("needs a zone such as Europe/Berlin or +01:00 in the column {ZONE}, not {name:?}")
    })
}

fn next(time: Time, zone: &TimeZone, now: EpochMillis) -> Option<jiff::Timestamp> {
    let now = i64::try_from(now.as_millis()).ok()?;
    let now = jiff::Timestamp::from_millisecond(now).ok()?;
    let date = zone.to_datetime(now).date();
    let today = zone.to_timestamp(date.to_datetime(time)).ok()?;
    if today > now {
        return Some(today);
    }
    zone.to_timestamp(date.tomorrow().ok()?.to_datetime(time)).ok()
}

fn millis(at: jiff::Timestamp) -> Result<EpochMillis, String> {
    let millis = u64::try_from(at.as_millisecond());
    millis.map(EpochMillis::new).map_err(|_| ALLOWED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-28, 12:00 in UTC.
    const NOON: EpochMillis = EpochMillis::new(1_795_867_200_000);

    #[test]
    fn times_are_read_as_lists_have_them() {
        for (text, zone, expected) in [
            ("2026-12-24T09:00:00Z", None, "2026-12-24T09:00:00.000Z"),
            ("2026-12-24T09:00+01:00", Some("Asia/Tokyo"), "2026-12-24T08:00:00.000Z"),
            ("2026-12-24 09:00", Some("Europe/Berlin"), "2026-12-24T08:00:00.000Z"),
            ("2026-12-24T09:00:30", Some("-05:00"), "2026-12-24T14:00:30.000Z"),
            ("2026-12-24", Some("America/New_York"), "2026-12-24T05:00:00.000Z"),
            ("local 09:00", Some("Europe/Berlin"), "2026-11-29T08:00:00.000Z"),
            ("local 9:00", Some("europe/berlin"), "2026-11-29T08:00:00.000Z"),
            ("2026-12-24 9:00", Some("GMT"), "2026-12-24T09:00:00.000Z"),
            ("local 13:01", Some("Europe/Berlin"), "2026-11-28T12:01:00.000Z"),
            ("local 09:00", Some("America/Los_Angeles"), "2026-11-28T17:00:00.000Z"),
            // Left out as clocks go forward, and twice as they go back.
            ("2027-03-28T02:30", Some("Europe/Berlin"), "2027-03-28T01:30:00.000Z"),
            ("2027-10-31T02:30", Some("Europe/Berlin"), "2027-10-31T00:30:00.000Z"),
        ] {
            let read = read(text, zone, NOON).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.to_string(), expected, "{text} in {zone:?}");
        }
    }

    #[test]
    fn a_time_without_a_zone_is_nobodys() {
        for (text, zone) in [
            ("2026-12-24T09:00", None),
            ("2026-12-24T09:00", Some("")),
            ("local 09:00", None),
            ("local nine", Some("Europe/Berlin")),
            ("24.12.2026", Some("Europe/Berlin")),
            ("12/24/2026 9:00", Some("America/New_York")),
            ("tomorrow", Some("Europe/Berlin")),
            ("1969-01-01T00:00:00Z", None),
        ] {
            assert_eq!(read(text, zone, NOON).unwrap_err(), ALLOWED, "{text}");
        }
        for zone in ["Berlin", "UTC+1", "GMT+01:00", "CET-1CEST", "1"] {
            let error = read("2026-12-24T09:00", Some(zone), NOON).unwrap_err();
            assert!(error.contains("Europe/Berlin or +01:00") && error.contains(zone), "{error}");
        }
    }
}
