//! What a run of the scheduler reports.

use serde::Serialize;
use tidegate_core::Window;
use tidegate_core::rate::Rate;

/// What a run did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScheduleReport {
    /// The first window a tick was sent for.
    pub first_window: Option<Window>,
    /// The quota that the ticks carry; none where nothing may be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<Rate>,
    /// Ticks that were accepted.
    pub ticks: u64,
    /// Ticks that were not; each costs its own window only.
    pub ticks_failed: u64,
    /// Ticks whose sending time had passed (the run itself was held up).
    pub ticks_late: u64,
    /// Ticks left out because every queue was empty, of the run's own minute.
    pub idle_ticks: u64,
    /// Whether SES told the quota in this run.
    pub quota_known: bool,
    /// Campaigns on the ledger's list, where the scheduler keeps it and could.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaigns: Option<usize>,
}
