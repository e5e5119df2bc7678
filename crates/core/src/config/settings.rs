//! The settings with a range or a choice of values, each with its default. The parser uses this list.
//! `infra/settings.json` is a copy of it, by which tests check the SAM template, the CDK construct and
//! the table in `docs/configuration.md`.

use std::fmt;

use serde::Serialize;

use super::deadlines::LONGEST_SEND;

/// The allowed values of one setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Range {
    /// A whole number from the first to the second, both included.
    Whole(u64, u64),
    /// A decimal number from the first to the second, both included.
    Number(f64, f64),
    /// One of the listed words, spelt exactly so.
    Choice(&'static [&'static str]),
}

/// One environment variable, its allowed values and its default.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// The variable's name, such as `TIDEGATE_MAX_IN_FLIGHT`.
    pub name: &'static str,
    /// The allowed values, as a range of numbers or a list of words.
    pub range: Range,
    /// The value if the variable is not set; `None` if that depends on other settings or on
    /// observations.
    pub default: Option<&'static str>,
}

impl Setting {
    const fn new(name: &'static str, range: Range, default: Option<&'static str>) -> Self {
        Self { name, range, default }
    }

    /// `text` as a whole number; `None` if it is none or outside the range.
    pub(super) fn whole(&self, text: &str) -> Option<u64> {
        let Range::Whole(least, most) = self.range else { return None };
        text.parse().ok().filter(|number| (least..=most).contains(number))
    }

    /// `text` as a number; `None` if it is none or outside the range.
    pub(super) fn number(&self, text: &str) -> Option<f64> {
        let Range::Number(least, most) = self.range else { return None };
        text.parse().ok().filter(|number| (least..=most).contains(number))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Number(least, most) => write!(f, "a number from {least} to {most}"),
            Self::Choice([all @ .., last]) if !all.is_empty() => {
                write!(f, "{} or {last}", all.join(", "))
            }
            Self::Choice(words) => f.write_str(&words.join(", ")),
        }
    }
}

use Range::{Choice, Number, Whole};

#[expect(clippy::cast_possible_truncation, reason = "below the poller's time-out of 15 s")]
const LONGEST_SEND_MS: u64 = LONGEST_SEND.as_millis() as u64;

/// The function's memory in megabytes. Lambda sets this variable, so it is not in [`SETTINGS`].
pub(super) const MEMORY: Setting =
    Setting::new("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", Whole(128, 10_240), Some("256"));

macro_rules! settings {
    ($($constant:ident = $name:literal, $range:expr, $default:expr;)*) => {
        $(pub(super) const $constant: Setting = Setting::new($name, $range, $default);)*

        /// All settings with a range or a choice of values.
        pub const SETTINGS: &[Setting] = &[$($constant),*];
    };
}

settings! {
    QUOTA = "TIDEGATE_QUOTA_PER_SECOND", Number(0.001, 10_000.0), None;
    RATE_MARGIN = "TIDEGATE_RATE_MARGIN", Number(0.005, 0.5), Some("0.02");
    LEAD = "TIDEGATE_TICK_LEAD_MS", Whole(0, 1_000), Some("400");
    OVERLAP = "TIDEGATE_OVERLAP_WINDOWS", Whole(0, 20), None;
    MAX_IN_FLIGHT = "TIDEGATE_MAX_IN_FLIGHT", Whole(1, 900), None;
    SEND_TIMEOUT = "TIDEGATE_SEND_TIMEOUT_MS", Whole(100, LONGEST_SEND_MS), Some("5000");
    MAX_ATTEMPTS = "TIDEGATE_MAX_ATTEMPTS", Whole(1, 100), Some("5");
    UNSENT = "TIDEGATE_UNSENT", Choice(&["timeout", "release"]), Some("timeout");
    IDLE_WINDOWS = "TIDEGATE_IDLE_WINDOWS", Whole(1, 60), Some("5");
    IDLE_WAKE = "TIDEGATE_IDLE_WAKE_SECONDS", Whole(1, 60), Some("1");
    FEEDBACK = "TIDEGATE_FEEDBACK", Choice(&["off", "count", "hold"]), Some("off");
    BOUNCE_SHARE = "TIDEGATE_BOUNCE_SHARE", Number(0.001, 1.0), Some("0.05");
    COMPLAINT_SHARE = "TIDEGATE_COMPLAINT_SHARE", Number(0.000_1, 1.0), Some("0.001");
    FEEDBACK_MINIMUM = "TIDEGATE_FEEDBACK_MINIMUM", Whole(100, 1_000_000), Some("1000");
    DAILY = "TIDEGATE_DAILY", Choice(&["full", "spread"]), Some("full");
    BREAKER_SHARE = "TIDEGATE_BREAKER_SHARE", Number(0.01, 1.0), Some("0.2");
    BREAKER_SECONDS = "TIDEGATE_BREAKER_SECONDS", Whole(15, 3_600), Some("60");
    BREAKER_OUTCOMES = "TIDEGATE_BREAKER_OUTCOMES", Whole(1, 10_000), Some("20");
    BREAKER_STOP = "TIDEGATE_BREAKER_STOP_SECONDS", Whole(1, 3_600), Some("30");
    BREAKER_PROBE = "TIDEGATE_BREAKER_PROBE_SECONDS", Whole(12, 600), Some("15");
    DEDUPLICATION = "TIDEGATE_DEDUPLICATION", Choice(&["off", "resend", "park"]), Some("off");
    DEDUPLICATION_DAYS = "TIDEGATE_DEDUPLICATION_DAYS", Whole(1, 90), Some("15");
    SHARED_BUCKET_LOST = "TIDEGATE_SHARED_BUCKET_LOST", Choice(&["closed", "open"]), Some("closed");
    DEFERRAL_REPLAY = "TIDEGATE_DEFERRAL_REPLAY", Choice(&["auto", "off"]), Some("auto");
}
