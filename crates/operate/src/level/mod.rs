//! The back-pressure level, for people and for producers that respect it.

mod gate;
#[cfg(test)]
mod tests;
mod view;

use serde::Serialize;
use tidegate_core::back_pressure::{
    BackPressureFigures, BackPressureLevel, BackPressurePolicy, Reading,
};
use tidegate_core::email::Priority;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{Clock, Ledger, PortError};

pub(crate) use gate::LevelGate;
pub use gate::{LedgerLevel, LevelPolicy, LevelSource, LevelTimeout};

/// Reads the current back-pressure level from the ledger. A producer should hold back mail that the
/// level [defers](BackPressureLevel::defers), and ask again a minute later.
///
/// # Errors
/// [`PortError`] where the ledger does not answer: then nothing is known, and a producer that can wait
/// should.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tidegate_core::{Timestamp, email::Priority};
/// use tidegate_fakes::{MemoryLedger, Universe};
/// let ledger = MemoryLedger::default(); // tidegate_aws::Clients::connect().await.ledger("tidegate-ledger")
/// let clock = Universe::starting_at(Timestamp::from_millis(0)).clock(); // tidegate_aws::SystemClock::new()
/// let level = tidegate_operate::level::level(&ledger, &clock).await.unwrap();
/// if level.defers(Priority::Low) {
///     println!("{level}: the newsletter waits");
/// }
/// # }
/// ```
pub async fn level(
    ledger: &impl Ledger,
    clock: &impl Clock,
) -> Result<BackPressureLevel, PortError> {
    let control = ledger.read().await?.control;
    Ok(control.level(clock.wall().into()))
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelReport {
    pub level: BackPressureLevel,
    pub defers: Vec<&'static str>,
    /// When this level began; `None` if no scheduler judges it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<EpochMillis>,
    /// When it was last judged and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_at: Option<EpochMillis>,
    /// Whether the last judgement is too old, so that the level counts as clear.
    pub is_old: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<BackPressureFigures>,
    /// Since when it has been known that the backlog has grown for an hour; `None` if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growing_since: Option<EpochMillis>,
    /// The thresholds of `busy`; `None` if the stack has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<String>,
    /// The thresholds of `overloaded`; `None` if the stack has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overloaded: Option<String>,
    /// Where deferred mail is stored; `None` if deferral is off, so that only producers hold mail
    /// back.
    #[serde(rename = "spill", skip_serializing_if = "Option::is_none")]
    pub deferral: Option<String>,
    /// Mails stored there; `None` if that is not known. They do not count for the level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deferred_mails: Option<u64>,
    #[serde(skip)]
    pub now: EpochMillis,
}

impl LevelReport {
    /// Builds the report from the control record's reading, if there is one.
    pub fn of(
        reading: Option<&Reading>,
        policy: Option<&BackPressurePolicy>,
        deferral: Option<String>,
        now: EpochMillis,
    ) -> Self {
        let level = reading.map_or(BackPressureLevel::Clear, |reading| reading.level_at(now));
        let deferred = Priority::ALL.into_iter().rev().filter(|priority| level.defers(*priority));
        Self {
            level,
            defers: deferred.map(Priority::as_str).collect(),
            since: reading.map(|reading| reading.since),
            read_at: reading.map(|reading| reading.read_at),
            is_old: reading.is_some_and(|reading| reading.is_old(now)),
            figures: reading.map(|reading| reading.figures),
            growing_since: reading.and_then(|reading| reading.growing_since),
            busy: policy.map(|policy| policy.busy.to_string()),
            overloaded: policy.map(|policy| policy.overloaded.to_string()),
            deferral,
            deferred_mails: None,
            now,
        }
    }
}
