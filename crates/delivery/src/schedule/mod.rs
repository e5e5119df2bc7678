//! The scheduler's run: one tick per window, each sent its lead before the window opens.
//! [`minute`] runs other work beside the ticks.

pub mod minute;
mod ticks;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use tidegate_core::Window;
use tidegate_core::config::SchedulerConfig;
use tidegate_core::idle::RUN;
use tidegate_core::rate::Rate;
use tidegate_core::tick::deadlines;

use crate::ports::{Account, Clock, Directory, Invoke, Ledger, PortError, Queues, Standing};
use crate::{account, campaigns, quota, tenants};
pub use ticks::ScheduleReport;
use ticks::Ticks;

/// Counted from the run's start: how long the run waits for the list of campaigns, and for what SES says of
/// tenants, if its ticks end earlier, as an idle run's do.
const LISTED_WITHIN: Duration = Duration::from_secs(55);
/// Windows within which the newest claim lies while every window has a tick, even if two ticks were lost.
const LATELY: u64 = 3;

/// The services that the ticks of a run need.
#[derive(Debug)]
pub struct SchedulePorts<'a, C, A, L, I, D, Q> {
    /// The time, and waits.
    pub clock: &'a C,
    /// SES's account, which tells the quota.
    pub account: &'a A,
    /// The ledger.
    pub ledger: &'a L,
    /// The pollers' function.
    pub invoke: &'a I,
    /// Where the campaigns' queues are found.
    pub directory: &'a D,
    /// All queues.
    pub queues: &'a Q,
}

/// Runs once: reads the quota, then issues 60 ticks and `TIDEGATE_OVERLAP_WINDOWS` more. While every queue
/// is empty it checks them once per `TIDEGATE_IDLE_WAKE_SECONDS` instead, if that is above 1, and issues no
/// ticks.
///
/// A run that is `woken` (somebody invoked the scheduler, not EventBridge) does not check: it issues ticks
/// at once, since SQS's counts lag behind what that somebody has just sent. If another run is at it already,
/// it issues none.
///
/// Deadlines are absolute, no tick waits for the answer to another one, and the run ends with its last tick.
/// `before` is the ledger as it was read when the run began; `None` if it did not answer. Then every window
/// has a tick, and the list of campaigns stays as it is.
///
/// If `GetAccount` fails, the last known quota is used, else the configured one; if neither is known,
/// nothing is sent. An Invoke is not retried: one that fails or is slow costs its own window.
///
/// If `TIDEGATE_CAMPAIGN_QUEUES` is set, the run also finds campaigns by their queues' tags. This delays no
/// tick; it may end after the last tick, up to 55 s after the run's start. The same holds for the question
/// whether SES's tenants for which campaigns are held may send again.
///
/// # Errors
/// [`PortError`] only if SES does not answer with the quota and no other quota is known.
pub async fn run(
    config: &SchedulerConfig,
    woken: bool,
    before: Option<Standing>,
    ports: SchedulePorts<
        '_,
        impl Clock,
        impl Account,
        impl Ledger,
        impl Invoke,
        impl Directory,
        impl Queues,
    >,
) -> Result<ScheduleReport, PortError> {
    let SchedulePorts { clock, account, ledger, invoke, directory, queues } = ports;
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
    let rate = match read_quota(config, clock, account, ledger, before.as_ref()).await? {
        (Some(rate), known) => {
            report.quota_known = known;
            rate
        }
        (None, _) => return Ok(report),
    };
    report.rate_per_second = Some(rate);
    // Reading the quota took time. The run before serves the windows whose ticks became due meanwhile.
    let now = wall + clock.monotonic().saturating_since(started);
    let first = Window::containing(now + config.lead).plus(1);
    report.first_window = Some(first);
    let mut ticks = Ticks::new(clock, invoke, wall, started, config.lead, rate, report);
    let end = || clock.sleep_until(started + LISTED_WITHIN);
    let lifting = async {
        let Some(before) = &before else { return false };
        let lifting = Box::pin(tenants::lift_holds(clock, account, ledger, before));
        matches!(select(lifting, pin!(end())).await, Either::Left((true, _)))
    };
    let lifting = lifting.boxed_local().shared();
    let ticks = async {
        let from = match &before {
            Some(standing) if woken => (!is_ticked(standing, first)).then_some(first),
            Some(standing) => match ticks.sleep(config, standing, first, ledger, queues).await {
                // It slept over the mail of campaigns that this run may have set free.
                None => lifting.clone().await.then(|| ticks.first_open()),
                from => from,
            },
            None => Some(first),
        };
        if let Some(from) = from {
            let windows = deadlines(now, config.lead, RUN + config.overlap_windows);
            let windows = windows.map(|(_, window)| window).filter(|window| *window >= from);
            windows.for_each(|window| ticks.issue(window));
        }
        ticks.finish().await
    };
    let ticks = Box::pin(async { ticks_first(ticks, lifting.clone(), end()).await.0 });
    let campaigns = Box::pin(list_campaigns(config, clock, directory, ledger, before.as_ref()));
    let (mut report, campaigns) = ticks_first(ticks, campaigns, end()).await;
    if campaigns.is_none() {
        tracing::warn!("the campaigns were not found within the run: the list stays as it is");
    }
    report.campaigns = campaigns.flatten();
    Ok(report)
}

/// True if another run issues a tick for every window: a poller has claimed one of the last windows before
/// `first`, and the stack does not sleep.
fn is_ticked(standing: &Standing, first: Window) -> bool {
    let newest = standing.previous.map(|previous| previous.window);
    newest.is_some_and(|newest| newest.plus(LATELY) >= first)
        && standing.looks.rest(first).is_none()
}

async fn list_campaigns(
    config: &SchedulerConfig,
    clock: &impl Clock,
    directory: &impl Directory,
    ledger: &impl Ledger,
    before: Option<&Standing>,
) -> Option<usize> {
    let prefix = config.campaign_queues.as_deref()?;
    campaigns::keep(prefix, clock, directory, ledger, before?).await
}

/// Returns the quota, and whether SES answered with it in this run. Keeps SES's answer in the ledger.
async fn read_quota(
    config: &SchedulerConfig,
    clock: &impl Clock,
    account: &impl Account,
    ledger: &impl Ledger,
    before: Option<&Standing>,
) -> Result<(Option<Rate>, bool), PortError> {
    let asked = clock.wall();
    let answer = account.account().await;
    if let Some(before) = before {
        account::keep(ledger, config.cap.daily, before, answer.as_ref().ok(), asked).await;
    }
    let error = match answer {
        Ok(status) => return Ok((quota::told(&status, &config.cap), true)),
        Err(error) => error,
    };
    tracing::warn!(error = &error as &dyn std::error::Error, "AWS does not tell the quota");
    let control = before.map(|standing| &standing.control);
    match quota::remembered(control, &config.cap) {
        None => Err(error),
        rate => Ok((rate, false)),
    }
}

/// Waits for `ticks` and runs `other` beside it. Ticks that are due are polled first. Once both `ticks` and
/// `end` are done, an unfinished `other` is dropped and its result is `None`.
async fn ticks_first<T, R>(
    ticks: impl Future<Output = T>,
    other: impl Future<Output = R>,
    end: impl Future<Output = ()>,
) -> (T, Option<R>) {
    // `select` polls its first argument first.
    match select(pin!(ticks), pin!(other)).await {
        Either::Left((ticks, other)) => match select(pin!(end), other).await {
            Either::Left(((), other)) => (ticks, other.now_or_never()),
            Either::Right((done, _)) => (ticks, Some(done)),
        },
        Either::Right((done, ticks)) => (ticks.await, Some(done)),
    }
}
