//! Wall-clock times as arguments, and the window: one whole second since the epoch.

use std::fmt;
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::text::InvalidText;

/// Nanoseconds in one second, which is one window.
pub const SECOND: u64 = 1_000_000_000;

/// A wall-clock time in whole nanoseconds since the Unix epoch. The range ends in the year 2554.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Timestamp;
/// let t = Timestamp::from_nanos(1_500_000_000);
/// assert_eq!(t + Duration::from_millis(500), Timestamp::from_nanos(2_000_000_000));
/// assert_eq!(t.saturating_since(Timestamp::from_nanos(1_000_000_000)), Duration::from_millis(500));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The time `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The time `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds from the Unix epoch to this time.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds since the epoch, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The time from `earlier` to this; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The year and the month, 1 to 12, in UTC.
    pub fn month(self) -> (i32, u8) {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0));
        at.map_or((1970, 1), |at| (at.year(), at.month().into()))
    }

    /// The time `by` before this; the epoch if that would lie before it.
    pub fn saturating_sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }
}

/// A duration in nanoseconds, at most `u64::MAX` (584 years).
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0))
            .ok()
            .and_then(|at| at.format(&Rfc3339).ok());
        match text {
            Some(text) => f.write_str(&text),
            None => write!(f, "{} ns", self.0),
        }
    }
}

/// A window: one whole second since the epoch, without the instant at which the next begins. One poller
/// serves one window.
///
/// ```
/// use tidegate_core::Window;
/// let window: Window = "2026-11-20T20:36:07Z".parse()?;
/// assert_eq!(window.to_string(), "2026-11-20T20:36:07Z");
/// assert_eq!(window.opens() + std::time::Duration::from_secs(1), window.closes());
/// # Ok::<(), tidegate_core::InvalidText>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Window(u64);

impl Window {
    /// The window that opens `second` seconds after the epoch.
    pub const fn from_epoch_second(second: u64) -> Self {
        Self(second)
    }

    /// The window in which the instant `at` lies.
    pub const fn containing(at: Timestamp) -> Self {
        Self(at.0 / SECOND)
    }

    /// Seconds from the epoch to the window's opening.
    pub const fn epoch_second(self) -> u64 {
        self.0
    }

    /// The window's first instant, which belongs to it.
    pub const fn opens(self) -> Timestamp {
        Timestamp(self.0.saturating_mul(SECOND))
    }

    /// The first instant after the window.
    pub const fn closes(self) -> Timestamp {
        self.plus(1).opens()
    }

    /// The window that is `windows` seconds later.
    pub const fn plus(self, windows: u64) -> Self {
        Self(self.0.saturating_add(windows))
    }

    /// Number of windows from `earlier` to this; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.opens().fmt(f)
    }
}

impl std::str::FromStr for Window {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let invalid = |fault| InvalidText::new(text, fault);
        let at = OffsetDateTime::parse(text, &Rfc3339).ok().filter(|at| at.nanosecond() == 0);
        let at = at.ok_or_else(|| {
            invalid(
                "is no window; allowed is a whole second in RFC 3339, such as 2026-11-20T20:36:07Z",
            )
        })?;
        let second = u64::try_from(at.unix_timestamp()).ok();
        // The time at which the window closes must still be a valid `Timestamp`.
        let second = second.filter(|second| *second < u64::MAX / SECOND).ok_or_else(|| {
            invalid("does not lie from 1970 to 2554-07-21T23:34:32Z, as a window does")
        })?;
        Ok(Self(second))
    }
}

serialized_as_text!(Window);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_window_reads_back_what_it_writes(second in 0_u64..4_000_000_000) {
            let window = Window::from_epoch_second(second);
            prop_assert_eq!(window.to_string().parse::<Window>(), Ok(window));
        }

        #[test]
        fn every_instant_lies_in_exactly_its_window(ns in 0_u64..u64::MAX / 2) {
            let at = Timestamp::from_nanos(ns);
            let window = Window::containing(at);
            prop_assert!(window.opens() <= at && at < window.closes());
        }
    }

    #[test]
    fn a_window_that_is_not_a_whole_second_is_refused_with_what_is_allowed() {
        let error = "2026-11-20T20:36:07.5Z".parse::<Window>().unwrap_err().to_string();
        assert!(
            error.contains("2026-11-20T20:36:07.5Z") && error.contains("allowed is a whole second"),
            "{error}"
        );
        assert!("yesterday".parse::<Window>().is_err());
        assert!("1969-12-31T23:59:59Z".parse::<Window>().is_err());
        let last: Window = "2554-07-21T23:34:32Z".parse().unwrap();
        assert_eq!(last.closes().to_string(), "2554-07-21T23:34:33Z");
        assert!("2554-07-21T23:34:33Z".parse::<Window>().is_err());
    }
}
