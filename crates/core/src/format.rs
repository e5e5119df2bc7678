//! Counts, spans and times as people read them.

use std::time::Duration;

use crate::identity::EpochMillis;
use crate::number::real;

/// A count with a comma between thousands.
///
/// ```
/// assert_eq!(tidegate_core::format::count(1_234_567), "1,234,567");
/// ```
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration in its two largest units, rounded down.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::format::span;
/// assert_eq!(span(Duration::from_millis(420)), "0 s");
/// assert_eq!(span(Duration::from_secs(59)), "59 s");
/// assert_eq!(span(Duration::from_secs(7_500)), "2 h 05 min");
/// assert_eq!(span(Duration::from_secs(90_000)), "1 d 01 h");
/// ```
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {:02} s", seconds % 60),
        (0, _, _) => format!("{hours} h {:02} min", minutes % 60),
        _ => format!("{days} d {:02} h", hours % 24),
    }
}

/// A time to the second, in UTC.
///
/// ```
/// use tidegate_core::identity::EpochMillis;
/// let time = EpochMillis::new(1_795_206_967_042);
/// assert_eq!(tidegate_core::format::time(time), "2026-11-20 20:36:07 UTC");
/// ```
pub fn time(at: EpochMillis) -> String {
    let text = at.to_string();
    let seconds = text.get(..19).unwrap_or(&text);
    format!("{} UTC", seconds.replace('T', " "))
}

/// A rate per second with at most two decimals.
///
/// ```
/// use tidegate_core::format::rate;
/// assert_eq!((rate(14.0).as_str(), rate(13.72).as_str(), rate(0.5).as_str()), ("14/s", "13.72/s", "0.5/s"));
/// ```
pub fn rate(per_second: f64) -> String {
    let text = format!("{per_second:.2}");
    format!("{}/s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A share as a percentage with one decimal.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// `count` of something: `1 mail`, `2,000 mails`.
pub fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A number of bytes.
///
/// ```
/// use tidegate_core::format::bytes;
/// assert_eq!((bytes(512).as_str(), bytes(1_434).as_str()), ("512 bytes", "1.4 KiB"));
/// ```
pub fn bytes(count: u64) -> String {
    match count {
        0..1_024 => counted(count, "byte"),
        1_024..1_048_576 => format!("{:.1} KiB", real(count) / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", real(count) / 1_048_576.0),
        _ => format!("{:.1} GiB", real(count) / 1_073_741_824.0),
    }
}
