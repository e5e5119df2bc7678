//! The monitoring service, the topic that operators read, and the pollers' function.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::Timestamp;
use tidegate_core::events::StackEvent;
use tidegate_core::identity::EpochMillis;
use tidegate_core::tick::Tick;

use super::PortError;

/// An alarm whose condition holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RingingAlarm {
    /// The alarm's name, which begins with the stack's.
    pub name: String,
    /// When its condition began to hold, if that is known.
    pub since: Option<EpochMillis>,
    /// The monitoring service's reason.
    pub why: String,
}

/// The invocations of a function that failed within the last hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedInvocations {
    /// The function's name.
    pub function: String,
    /// Invocations that ended with an error, a time-out or too little memory.
    pub errors: u64,
    /// Invocations that the service did not begin, for too many at once.
    pub throttles: u64,
}

/// The stack as its monitoring service sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MonitorReport {
    /// The number of the stack's alarms.
    pub alarms: u64,
    /// Those whose condition holds.
    pub ringing: Vec<RingingAlarm>,
    /// One for each function.
    pub failed: Vec<FailedInvocations>,
}

/// The rates of one step of the past, recipients a second.
#[derive(Clone, Debug, PartialEq)]
pub struct PastRates {
    /// The step's end.
    pub until: Timestamp,
    /// Of all mail, express included.
    pub all: f64,
    /// The quota in force; none if it is not known.
    pub quota: Option<f64>,
    /// Only campaigns that sent.
    pub campaigns: BTreeMap<String, f64>,
}

/// A monitoring service that knows a stack.
pub trait Monitor {
    /// Reads alarms, and the failed invocations of the hour before `now`.
    ///
    /// # Errors
    /// [`PortError`]: it does not answer, or may not be asked.
    fn report(&self, now: Timestamp) -> impl Future<Output = Result<MonitorReport, PortError>>;

    /// The rates from `from` to `to` in steps of whole minutes, in order, from the first step in which something
    /// was sent.
    ///
    /// # Errors
    /// [`PortError`].
    fn past(
        &self,
        campaigns: &[String],
        from: Timestamp,
        to: Timestamp,
        step: Duration,
    ) -> impl Future<Output = Result<Vec<PastRates>, PortError>>;
}

/// Tells operators something, by the topic that the alarms tell, too.
pub trait Announce {
    /// Tells `text` with a `subject` of at most 100 ASCII characters. It may arrive twice.
    ///
    /// # Errors
    /// [`PortError`] if it is not known whether anybody was told.
    fn announce(&self, subject: &str, text: &str) -> impl Future<Output = Result<(), PortError>>;
}

/// Takes events for other programs.
pub trait Events {
    /// Puts events onto the bus. They may arrive twice, and in any order.
    ///
    /// # Errors
    /// [`PortError`] if some are not known to be on it.
    fn put(&self, events: &[StackEvent]) -> impl Future<Output = Result<(), PortError>>;
}

/// Hands ticks to the poller, by invoking its function.
pub trait Invoke {
    /// Invokes the poller asynchronously (`InvocationType: Event`): Lambda accepts the tick and answers
    /// before the poller runs. There are no retries.
    ///
    /// # Errors
    /// [`PortError`] if Lambda did not accept the tick; only this tick's window is lost.
    fn tick(&self, tick: &Tick) -> impl Future<Output = Result<(), PortError>>;
}
