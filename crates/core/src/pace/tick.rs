//! The tick: the window that a poller serves, the quota for it, and whether the poller is in time.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::rate::Rate;
use crate::text::{InvalidText, SHOWN, cut};
use crate::timestamp::{Timestamp, Window};

/// Longest time before its window opens at which a poller accepts a tick.
pub const EARLIEST: Duration = Duration::from_millis(1_500);

/// The event that asks a poller to serve one window.
///
/// ```
/// use tidegate_core::tick::Tick;
/// use serde_json::json;
/// let tick = json!({"window": "2026-11-20T20:36:07Z", "rate_per_second": 14.0});
/// let tick = Tick::from_value(&tick)?;
/// assert_eq!(tick.unwrap().window.to_string(), "2026-11-20T20:36:07Z");
/// assert_eq!(Tick::from_value(&json!({}))?, None); // the next whole second, at the account's quota
/// # Ok::<(), tidegate_core::tick::InvalidTick>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tick {
    /// The window that the poller serves.
    pub window: Window,
    /// The quota in recipients per second. The poller applies the rate margin itself.
    #[serde(rename = "rate_per_second")]
    pub quota: Rate,
}

/// Error for a payload that is not a tick: the fault, with the member's name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "the tick is malformed: {0}; allowed is {{\"window\": \"2026-11-20T20:36:07Z\", \
     \"rate_per_second\": 14.0}}, or {{}} for the next second"
)]
pub struct InvalidTick(String);

const WINDOW: &str = "window";
const RATE: &str = "rate_per_second";

/// Whether a poller can serve the tick's window now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The window is open, or opens within [`EARLIEST`].
    Admitted,
    /// The window has closed, so the tick is dropped.
    Expired,
    /// The window opens later than [`EARLIEST`] from now.
    Early,
}

/// An error for a value of the wrong type.
fn unexpected(what: &str, found: &Value, expected: &str) -> InvalidTick {
    InvalidTick(format!("{what} is {}, expected {expected}", cut(&found.to_string(), SHOWN)))
}

impl Tick {
    /// Reads an Invoke's payload. `None` for an empty one (`{}` or `null`), which asks for the next window.
    ///
    /// # Errors
    /// [`InvalidTick`] names the faulty member and the allowed form.
    pub fn from_value(value: &Value) -> Result<Option<Self>, InvalidTick> {
        match value {
            Value::Null => Ok(None),
            Value::Object(members) if members.is_empty() => Ok(None),
            Value::Object(members) => Self::read(members).map(Some),
            other => Err(unexpected("it", other, "an object")),
        }
    }

    /// Reads member by member, so that each error names its member.
    fn read(members: &Map<String, Value>) -> Result<Self, InvalidTick> {
        if let Some(unknown) = members.keys().find(|name| ![WINDOW, RATE].contains(&name.as_str()))
        {
            let shown = cut(unknown, SHOWN);
            let fault = format!("unknown field `{shown}`, expected `{WINDOW}` and `{RATE}`");
            return Err(InvalidTick(fault));
        }
        let member = |name: &str| {
            members.get(name).ok_or_else(|| InvalidTick(format!("missing field `{name}`")))
        };
        let (window, rate) = (member(WINDOW)?, member(RATE)?);
        let text = window.as_str().ok_or_else(|| unexpected("`window`", window, "a string"))?;
        let number =
            rate.as_f64().ok_or_else(|| unexpected("`rate_per_second`", rate, "a number"))?;
        Ok(Self {
            window: text
                .parse()
                .map_err(|error: InvalidText| InvalidTick(format!("`window`: {error}")))?,
            quota: Rate::per_second(number)
                .map_err(|error| InvalidTick(format!("`rate_per_second`: {error}")))?,
        })
    }

    /// Whether this tick's window can be served at `now`. With [`EARLIEST`] of 1.5 s, the tick for
    /// window 102 is early before 100.5 s and expired from 103 s on.
    pub fn admit(&self, now: Timestamp) -> Admission {
        if now >= self.window.closes() {
            Admission::Expired
        } else if self.window.opens() > now + EARLIEST {
            Admission::Early
        } else {
            Admission::Admitted
        }
    }
}

/// The `count` windows of one scheduler run, each with the time at which its tick is sent: `lead`
/// before the window opens. The first is the first window whose sending time is after `now`.
///
/// The times are absolute, so a slow Invoke delays no later tick. Example with a lead of 0.4 s: at
/// 10.7 s the first tick is sent at 11.6 s, for window 12.
pub fn deadlines(
    now: Timestamp,
    lead: Duration,
    count: u64,
) -> impl Iterator<Item = (Timestamp, Window)> {
    let first = Window::containing(now + lead).plus(1);
    (0..count).map(move |k| {
        let window = first.plus(k);
        (window.opens().saturating_sub(lead), window)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tick(second: u64) -> Tick {
        Tick { window: Window::from_epoch_second(second), quota: Rate::per_second(14.0).unwrap() }
    }

    proptest! {
        #[test]
        fn a_tick_reads_back_what_it_writes(second in 0_u64..4_000_000_000, rate in 0.1_f64..10_000.0) {
            let rate = Rate::per_second(rate).unwrap();
            let tick = Tick { quota: rate, ..tick(second) };
            let read = Tick::from_value(&serde_json::to_value(tick).unwrap()).unwrap();
            prop_assert_eq!(read, Some(tick));
        }

        #[test]
        fn ticks_cover_every_window_once_and_none_is_due_in_the_past(
            now in 1_000_000_000_u64..4_000_000_000_000_000_000, lead_ms in 0_u64..1_500,
        ) {
            let (now, lead) = (Timestamp::from_nanos(now), Duration::from_millis(lead_ms));
            let all: Vec<_> = deadlines(now, lead, 65).collect();
            prop_assert_eq!(all.len(), 65);
            prop_assert!(all[0].0 >= now.saturating_sub(Duration::from_nanos(0)) );
            prop_assert!(all[0].0.saturating_since(now) <= Duration::from_secs(1));
            for pair in all.windows(2) {
                prop_assert_eq!(pair[0].1.plus(1), pair[1].1);
                prop_assert_eq!(pair[1].0.saturating_since(pair[0].0), Duration::from_secs(1));
            }
        }
    }

    #[test]
    fn a_window_that_is_over_is_expired_and_one_far_ahead_is_early() {
        let at = |ms: u64| Timestamp::from_millis(100_000 + ms);
        assert_eq!(tick(101).admit(at(0)), Admission::Admitted);
        assert_eq!(tick(101).admit(at(1_999)), Admission::Admitted);
        assert_eq!(tick(101).admit(at(2_000)), Admission::Expired);
        assert_eq!(tick(102).admit(at(499)), Admission::Early);
        assert_eq!(tick(102).admit(at(500)), Admission::Admitted);
    }

    #[test]
    fn a_malformed_tick_names_its_member() {
        let cases = [
            (r#"{"window": "soon", "rate_per_second": 14}"#, "`window`: \"soon\""),
            (r#"{"window": 7, "rate_per_second": 14}"#, "`window` is 7, expected a string"),
            (
                r#"{"window": "2026-11-20T20:36:07Z", "rate_per_second": "14"}"#,
                "`rate_per_second` is \"14\", expected a number",
            ),
            (r#"["2026-11-20T20:36:07Z", 14]"#, ",14], expected an object"),
            (r#"{"window": "2026-11-20T20:36:07Z"}"#, "missing field `rate_per_second`"),
            (
                r#"{"window": "2026-11-20T20:36:07Z", "rate_per_second": 0}"#,
                "`rate_per_second`: 0 recipients a second is no rate",
            ),
            (r#"{"windwo": "2026-11-20T20:36:07Z"}"#, "unknown field `windwo`"),
        ];
        for (payload, names) in cases {
            let error = Tick::from_value(&payload.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains(names), "{payload}: {error}");
        }
    }
}
