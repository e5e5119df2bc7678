//! The error that all settings share: it tells what is allowed.

use std::time::Duration;

use thiserror::Error;

/// A value that a setting does not take. The caller adds the setting's name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("must be {allowed}, not {value}")]
pub struct ValueError {
    value: String,
    allowed: &'static str,
}

impl ValueError {
    #[expect(clippy::needless_pass_by_value, reason = "numbers and format_args come by value")]
    pub(crate) fn new(value: impl ToString, allowed: &'static str) -> Self {
        Self { value: value.to_string(), allowed }
    }
}

/// The longest time that any setting takes.
pub(crate) const LONGEST: Duration = Duration::from_hours(1);

/// Reads a time such as `80ms`, `1s 500ms` or `2m`, of at most [`LONGEST`].
pub(crate) fn parse_span(text: &str) -> Option<Duration> {
    humantime::parse_duration(text.trim()).ok().filter(|span| *span <= LONGEST)
}

/// Writes a time as [`parse_span`] reads it.
pub(crate) fn show_span(span: Duration) -> String {
    if span.is_zero() { "0ms".to_owned() } else { humantime::format_duration(span).to_string() }
}
