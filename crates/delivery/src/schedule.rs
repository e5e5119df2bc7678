//! The scheduler's run: a tick a window, each sent its lead before the window opens.

use std::time::Duration;

use tidegate_core::Window;
use tidegate_core::config::SchedulerConfig;
use tidegate_core::idle::RUN;
use tidegate_core::rate::Rate;
use tidegate_core::tick::deadlines;

use crate::ports::{Account, Clock, Directory, Invoke, Ledger, PortError};
pub use crate::schedule_report::ScheduleReport;
use crate::ticks::Ticks;
use crate::ticks_first::ticks_first;
use crate::{account, campaigns, quota};

/// From a run's start, the time that finding the campaigns may take; an idle run's ticks end earlier.
const LISTED_WITHIN: Duration = Duration::from_secs(55);

/// Runs once: reads the quota, then issues 60 ticks and `TIDEGATE_OVERLAP_WINDOWS` more; fewer while
/// every queue is empty, where `TIDEGATE_IDLE_WAKE_SECONDS` asks for that.
///
/// Deadlines are absolute; no tick waits for the one before, and nothing sleeps after the last.
/// Where `GetAccount` fails the last known quota counts, else the configured one, else nothing is
/// sent. An Invoke is not retried: a slow or failing one costs its own tick only.
///
/// Beside the ticks, and with them at an end, the campaigns are found by tag where
/// `TIDEGATE_CAMPAIGN_QUEUES` says so.
///
/// # Errors
/// [`PortError`] only where SES does not tell the quota and none is known.
pub async fn run(
    config: &SchedulerConfig,
    clock: &impl Clock,
    account: &impl Account,
    ledger: &impl Ledger,
    invoke: &impl Invoke,
    directory: &impl Directory,
) -> Result<ScheduleReport, PortError> {
    let (wall, started) = clock.now();
    let mut report = ScheduleReport {
        first_window: None,
        rate_per_second: None,
        ticks: 0,
        ticks_failed: 0,
        ticks_late: 0,
        idle_ticks: 0,
        quota_known: false,
        campaigns: None,
    };
    let rate = match read_quota(config, clock, account, ledger).await? {
        (Some(rate), known) => {
            report.quota_known = known;
            rate
        }
        (None, _) => return Ok(report),
    };
    report.rate_per_second = Some(rate);
    // The quota took time to read: windows whose tick was due meanwhile are left to the run before.
    let now = wall + clock.monotonic().saturating_since(started);
    let first = Window::containing(now + config.lead).plus(1);
    report.first_window = Some(first);
    let mut ticks = Ticks::new((clock, invoke), (wall, started), (config.lead, rate), report);
    let ticks = async {
        if let Some(from) = ticks.sleep(config, first, ledger).await {
            let windows = deadlines(now, config.lead, RUN + config.overlap_windows);
            let windows = windows.map(|(_, window)| window).filter(|window| *window >= from);
            windows.for_each(|window| ticks.issue(window));
        }
        ticks.finish().await
    };
    let end = clock.sleep_until(started + LISTED_WITHIN);
    let campaigns = Box::pin(list_campaigns(config, clock, directory, ledger));
    let (mut report, campaigns) = ticks_first(ticks, campaigns, end).await;
    if campaigns.is_none() {
        tracing::warn!("the campaigns were not found within the run: the list stays as it is");
    }
    report.campaigns = campaigns.flatten();
    Ok(report)
}

async fn list_campaigns(
    config: &SchedulerConfig,
    clock: &impl Clock,
    directory: &impl Directory,
    ledger: &impl Ledger,
) -> Option<usize> {
    campaigns::keep(config.campaign_queues.as_deref()?, clock, directory, ledger).await
}

/// The quota, and whether SES told it just now; what else it told is kept in the ledger.
async fn read_quota(
    config: &SchedulerConfig,
    clock: &impl Clock,
    account: &impl Account,
    ledger: &impl Ledger,
) -> Result<(Option<Rate>, bool), PortError> {
    let before = ledger.read().await;
    if let Err(error) = &before {
        tracing::warn!(error = error as &dyn std::error::Error, "the ledger does not answer");
    }
    let before = before.ok();
    let asked = clock.wall();
    let answer = account.account().await;
    if let Some(before) = &before {
        account::keep(ledger, config.cap.daily, before, answer.as_ref().ok(), asked).await;
    }
    let error = match answer {
        Ok(status) => return Ok((quota::told(&status, &config.cap), true)),
        Err(error) => error,
    };
    tracing::warn!(error = &error as &dyn std::error::Error, "SES does not tell the quota");
    let control = before.as_ref().map(|standing| &standing.control);
    match quota::remembered(control, &config.cap) {
        None => Err(error),
        rate => Ok((rate, false)),
    }
}
