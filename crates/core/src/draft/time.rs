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

fn zone_of(name: &str) -> Result<TimeZone, String> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_time_zone(name).map_err(|_| {
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
        let error = read("2026-12-24T09:00", Some("Berlin"), NOON).unwrap_err();
        assert!(
            error.contains("Europe/Berlin or +01:00") && error.contains("\"Berlin\""),
            "{error}"
        );
    }
}
