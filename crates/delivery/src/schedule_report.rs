//! The report of one scheduler run.

use serde::Serialize;
use tidegate_core::Window;
use tidegate_core::idle::RUN;
use tidegate_core::rate::Rate;

/// The outcome of one scheduler run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScheduleReport {
    /// The first window of the run; `None` if no quota is known.
    pub first_window: Option<Window>,
    /// The quota that the ticks carry, in recipients per second; `None` if nothing may be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<Rate>,
    /// Ticks of this run that Lambda accepted.
    pub ticks: u64,
    /// Ticks that Lambda did not accept. Each costs one window.
    pub ticks_failed: u64,
    /// Ticks sent more than 1 s after their time, because the run itself was delayed.
    pub ticks_late: u64,
    /// Ticks left out because every queue was empty; counts only windows of the run's own minute.
    pub idle_ticks: u64,
    /// Whether SES answered with the quota in this run.
    pub quota_known: bool,
    /// Campaigns on the ledger's list; `None` if the scheduler does not keep that list, or could not read or
    /// write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaigns: Option<usize>,
}

impl ScheduleReport {
    /// True if the stack slept during the run: it issued no tick, or the one whose poller checks the queues.
    pub fn is_asleep(&self) -> bool {
        self.idle_ticks + 1 >= RUN
    }
}
