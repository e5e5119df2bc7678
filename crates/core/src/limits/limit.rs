use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::adaptive::Adapted;
use super::calendar::{Hours, Zone};
use super::ramp::{InvalidLimit, Ramp};
use super::slots::LimitGrid;
use crate::identity::EpochMillis;
use crate::number::real;
use crate::rate::{Rate, RateMargin, UNITS, percent};
use crate::text::InvalidText;
use crate::timestamp::{Timestamp, Window};

/// A limit: how fast the mail of its key may be sent, and when. Members that are absent limit nothing.
///
/// ```
/// use tidegate_core::limits::Limit;
/// let limit: Limit = serde_json::from_str(r#"{"rate": "5000/h", "hours": "Mon-Fri 08:00-20:00", "zone": "Europe/Berlin"}"#)?;
/// assert_eq!(limit.to_string(), "5000/h, Mon-Fri 08:00-20:00 Europe/Berlin");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// The most recipients per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<LimitRate>,
    /// The hours of the week outside which nothing is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hours: Option<Hours>,
    /// The time zone of hours and warm-up; UTC unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Zone>,
    /// Nothing is sent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<EpochMillis>,
    /// Nothing is sent from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<EpochMillis>,
    /// Whether mail that is left at the end is deferred to the stack's bucket; else it waits in its queue.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub defers: bool,
    /// Warm-up: recipients per day, in place of a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp: Option<Ramp>,
    /// Whether deferrals by the recipients' provider lower the rate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub adaptive: bool,
    /// The configuration set through which mail is sent that would be over the limit; it does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overflow: Option<String>,
    /// The place in `TIDEGATE_LIMIT_QUEUES`, from 0, of the queue in which its mail waits; `None` if it waits in
    /// its campaigns' queues. An initial limit has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<usize>,
    /// Members that this version does not know. They are kept for a newer version.
    #[serde(flatten)]
    pub unknown: std::collections::BTreeMap<String, serde_json::Value>,
}

impl From<LimitRate> for Limit {
    fn from(rate: LimitRate) -> Self {
        Self { rate: Some(rate), ..Self::default() }
    }
}

impl Limit {
    /// Checks that the members go together.
    ///
    /// # Errors
    /// [`InvalidLimit`] for the first fault.
    pub fn check(&self) -> Result<(), InvalidLimit> {
        let fault = |text: &str| Err(InvalidLimit(text.to_owned()));
        let has_times = self.not_before.is_some() || self.until.is_some();
        if let (Some(begin), Some(end)) = (self.not_before, self.until)
            && end <= begin
        {
            return fault(&format!(
                "the limit ends at {end}, not after {begin}, before which nothing is sent"
            ));
        }
        if self.adaptive && self.rate.is_none() {
            return fault(
                "the limit is adaptive and has no rate; give the highest rate, such as 50/s or 25%",
            );
        }
        if self.defers && self.until.is_none() {
            return fault(
                "the limit defers what is left at its end and has no end; give one, such as --until 18:00",
            );
        }
        match &self.ramp {
            Some(_) if self.rate.is_some() => {
                fault("the limit has a rate and a warm-up; allowed is one of them")
            }
            Some(ramp) => ramp.check(self.hours.as_ref()),
            None if self.rate.is_none() && self.hours.is_none() && !has_times => fault(
                "the limit limits nothing; give a rate, hours, a time before or after which nothing is sent, or a warm-up",
            ),
            None => Ok(()),
        }
    }

    /// Whether the limit's end has come by the opening of `window`.
    pub fn has_ended(&self, window: Window) -> bool {
        self.until.is_some_and(|end| window.opens() >= Timestamp::from(end))
    }

    /// Whether SES's notices about its mail change it.
    pub const fn hears(&self) -> bool {
        self.adaptive || self.ramp.is_some()
    }

    /// The time zone in force.
    pub fn zone(&self) -> Zone {
        self.zone.clone().unwrap_or_default()
    }

    /// The first time after `window` opens at which the limit's pace may change by itself.
    pub fn next_change(&self, window: Window) -> Option<Timestamp> {
        let zone = self.zone();
        let ends = [self.not_before, self.until].into_iter().flatten().map(Timestamp::from);
        let hours = self.hours.as_ref().and_then(|hours| hours.next_change(&zone, window));
        let day =
            self.ramp.as_ref().and_then(|_| Some(zone.at(zone.day_of(window).tomorrow().ok()?, 0)));
        ends.chain(hours).chain(day).filter(|at| *at > window.opens()).min()
    }

    /// The rate in `window`, as far as deferrals have `adapted` it; `None` if the limit has no rate.
    pub fn rate_in(&self, window: Window, quota: Rate, adapted: Option<&Adapted>) -> Option<Rate> {
        self.rate.map(|rate| Adapted::rate(adapted, rate.of(quota), window))
    }

    /// The slot grid in `window`, for an account with this quota (without the rate factor), as far as deferrals have
    /// `adapted` them; `None` if mail is sent as fast as the account's slots come. A rate that is at least the quota
    /// has no slots: the account's own keep it.
    pub fn grid(
        &self,
        window: Window,
        quota: Rate,
        rate_margin: RateMargin,
        adapted: Option<&Adapted>,
    ) -> Option<LimitGrid> {
        let opens = window.opens();
        if let Some(begin) = self.not_before.map(Timestamp::from).filter(|begin| opens < *begin) {
            return Some(LimitGrid::Closed(Some(begin)));
        }
        if self.has_ended(window) {
            return Some(LimitGrid::Closed(None));
        }
        let zone = self.zone();
        if let Some(hours) = self.hours.as_ref().filter(|hours| !hours.is_open(&zone, window)) {
            return Some(LimitGrid::Closed(hours.next_change(&zone, window)));
        }
        if let Some(ramp) = &self.ramp {
            let day = ramp.day(self.hours.as_ref(), &zone, window);
            // Outside the hours was dealt with above: the ramp has not begun.
            let begin = Some(zone.at(ramp.from, 0)).filter(|begin| *begin > opens);
            return Some(day.map_or(LimitGrid::Closed(begin), LimitGrid::Day));
        }
        if let Some(opens) = adapted.and_then(|adapted| adapted.opens(window)) {
            return Some(LimitGrid::Closed(Some(opens.opens())));
        }
        let rate = self.rate_in(window, quota, adapted).filter(|rate| *rate < quota)?;
        Some(LimitGrid::even(rate, rate_margin))
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let zone = self.zone.as_ref().map(|zone| format!(" {zone}")).unwrap_or_default();
        let parts = [
            self.rate.map(|rate| format!("{rate}{}", if self.adaptive { " adaptive" } else { "" })),
            self.ramp.as_ref().map(|ramp| match self.hours {
                Some(_) => ramp.to_string(),
                None => format!("{ramp}{zone}"),
            }),
            self.hours.as_ref().map(|hours| format!("{hours}{zone}")),
            self.not_before.map(|at| format!("not before {}", self.zone().time(at))),
            self.until.map(|at| {
                let then = if self.defers { ", then deferred" } else { "" };
                format!("until {}{then}", self.zone().time(at))
            }),
            self.overflow.as_ref().map(|set| format!("the rest through {set}")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// A limit's rate, as the operator wrote it: `10/s`, `5000/h` or `25%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitRate {
    /// A rate that does not depend on the account's quota, in recipients per second.
    Rate(Rate),
    /// A share of the account's quota, in millionths: 1 to 1,000,000.
    Share(u64),
}

impl LimitRate {
    /// The limit in recipients per second for an account with this quota. The quota is that without the
    /// rate factor: SES's throttling does not change how much mail a provider accepts.
    pub fn of(self, quota: Rate) -> Rate {
        match self {
            Self::Rate(rate) => rate,
            Self::Share(millionths) => quota.scaled(millionths),
        }
    }
}

/// The fault of a text that is no limit's rate.
const NO_RATE: &str =
    "is no rate; allowed is 0.001/s (4/h, 87/d) to 10000/s, or a share from 0.0001% to 100%";

impl FromStr for LimitRate {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let wrong = || InvalidText::new(text, NO_RATE);
        if let Some(share) = percent(text) {
            return if share > 0 { Ok(Self::Share(share)) } else { Err(wrong()) };
        }
        let rate = text.contains('/').then(|| text.parse().ok()).flatten();
        rate.map(Self::Rate).ok_or_else(wrong)
    }
}

impl fmt::Display for LimitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => {
                let second = rate.as_per_second();
                // The first unit in which the number is at least 1 and, to the two decimals that are written,
                // the rate itself: 5000/h is 1.388888/s. A rate is kept in millionths per second, which is
                // 0.0864 per day, so more decimals would say nothing.
                let rounded = |factor: f64| (second * factor * 100.0).round() / 100.0;
                let is_exact = |factor: &f64| (rounded(*factor) / factor - second).abs() < 2e-6;
                let fitting = || UNITS.into_iter().filter(|(factor, _)| second * factor >= 1.0);
                let (factor, unit) = fitting()
                    .find(|(factor, _)| is_exact(factor))
                    .or_else(|| fitting().next())
                    .unwrap_or(UNITS[3]);
                write!(f, "{}/{unit}", rounded(factor))
            }
            Self::Share(millionths) => write!(f, "{}%", real(*millionths) / 10_000.0),
        }
    }
}

serialized_as_text!(LimitRate);

#[cfg(test)]
mod tests;

#[cfg(test)]
mod rate_tests {
    use super::*;

    #[test]
    fn a_rate_is_written_in_a_unit_in_which_it_reads_back() {
        for text in ["10/s", "6/m", "5/h", "5000/h", "3.75/h", "25%", "0.5%", "1.5/s"] {
            assert_eq!(text.parse::<LimitRate>().unwrap().to_string(), text);
        }
        assert_eq!("90/m".parse::<LimitRate>().unwrap().to_string(), "1.5/s");
        for text in ["ten/s", "10/w", "10", "1/h", "101%", "0%", ""] {
            let error = text.parse::<LimitRate>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("{text:?} is no rate; allowed is 0.001/s (4/h, 87/d)"))
            );
        }
    }
}
