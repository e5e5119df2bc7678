//! Numbers and spans as people read them.

use std::time::Duration;

/// A number with a comma every three digits.
///
/// ```
/// assert_eq!(tidegate_operate::human::grouped(1_000_000), "1,000,000");
/// assert_eq!(tidegate_operate::human::grouped(42), "42");
/// ```
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `count` of something: `1 mail`, `2,000 mails`.
#[must_use]
pub fn counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// A number of bytes: `512 bytes`, `1.4 KiB`, `20.0 MiB`.
///
/// ```
/// assert_eq!(tidegate_operate::human::bytes(1_434), "1.4 KiB");
/// ```
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub fn bytes(count: u64) -> String {
    match count {
        0..1_024 => counted(count, "byte"),
        1_024..1_048_576 => format!("{:.1} KiB", count as f64 / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", count as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", count as f64 / 1_073_741_824.0),
    }
}

/// A span in its two largest units: `0.3 s`, `42 s`, `3 min 5 s`, `2 h 23 min`, `4 d 3 h`.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(tidegate_operate::human::span(Duration::from_secs(8_589)), "2 h 23 min");
/// ```
#[must_use]
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs() + u64::from(span.subsec_millis() >= 500);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days} d {} h", hours % 24),
        () if hours > 0 => format!("{hours} h {} min", minutes % 60),
        () if minutes > 0 => format!("{minutes} min {} s", seconds % 60),
        () if seconds < 10 => format!("{:.1} s", span.as_secs_f64()),
        () => format!("{seconds} s"),
    }
}
