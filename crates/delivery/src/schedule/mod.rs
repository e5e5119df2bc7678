//! The scheduler's run: one tick per window, each sent its lead before the window opens.
//! [`minute`] runs other work beside the ticks.
//!
//! The ticks of one scheduler run. Each is sent its lead before its window opens; while every queue is
//! empty, they are left out.

mod destinations;
mod lines;
pub mod minute;
pub mod refill;
pub mod rows;

use std::error::Error as StdError;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, LocalBoxFuture, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, select_biased};
use serde::Serialize;
use tidegate_core::config::SchedulerConfig;
use tidegate_core::idle::{IdleRun, IdleStep, QueueChecks, RUN};
use tidegate_core::rate::Rate;
use tidegate_core::tick::{Tick, deadlines};
use tidegate_core::{Timestamp, Window};

use crate::ports::{
    Account, Clock, Directory, Invoke, Ledger, Monotonic, PortError, Queues, Standing,
};
use crate::{campaigns, quota, waiting};

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
    let mut report = ScheduleReport::default();
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
    let (lead, under_way) = (config.lead, FuturesUnordered::new());
    let mut ticks = Ticks { clock, invoke, wall, started, lead, rate, under_way, report };
    let end = || clock.sleep_until(started + LISTED_WITHIN);
    let lifting = async {
        let Some(before) = &before else { return false };
        let lifting = Box::pin(campaigns::lift_holds(clock, account, ledger, before));
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
    let campaigns = Box::pin(async {
        let prefix = config.campaign_queues.as_deref()?;
        let kept = campaigns::keep(prefix, clock, directory, ledger, before.as_ref()?).await;
        let kept = kept.inspect_err(|error| {
            let error = error as &dyn StdError;
            tracing::warn!(error, "the campaigns' queues are not known: the list stays as it is");
        });
        kept.ok()
    });
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
        quota::keep(ledger, config.cap.daily, before, answer.as_ref().ok(), asked).await;
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

/// The outcome of one scheduler run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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

/// The ledger is read this long before the next tick is due, to decide whether that tick is needed.
const ASKED: Duration = Duration::from_millis(100);

/// A tick's window, whether it was sent more than 1 s late, and whether Lambda accepted it.
type TickResult = (Window, bool, Result<(), PortError>);

/// The ticks of one run; `under_way` holds those that wait for their time or for Lambda's answer.
struct Ticks<'a, C, I> {
    clock: &'a C,
    invoke: &'a I,
    /// The wall clock's time at `started`. Later times are this plus monotonic time, so a step of the wall
    /// clock during the run does not move the ticks.
    wall: Timestamp,
    started: Monotonic,
    lead: Duration,
    rate: Rate,
    under_way: FuturesUnordered<LocalBoxFuture<'a, TickResult>>,
    report: ScheduleReport,
}

impl<C: Clock, I: Invoke> Ticks<'_, C, I> {
    /// The first window whose tick is not yet due. With a lead of 400 ms it is window 11 at 10.5 s (that
    /// tick is due at 10.6 s) and window 12 at 10.7 s.
    fn first_open(&self) -> Window {
        let now = self.wall + self.clock.monotonic().saturating_since(self.started);
        Window::containing(now + self.lead).plus(1)
    }

    fn due(&self, window: Window) -> Monotonic {
        self.started + window.opens().saturating_sub(self.lead).saturating_since(self.wall)
    }

    /// Sends the window's tick when it is due, and returns at once.
    fn issue(&mut self, window: Window) {
        let (clock, invoke, due) = (self.clock, self.invoke, self.due(window));
        let tick = Tick { window, quota: self.rate };
        self.under_way.push(
            async move {
                clock.sleep_until(due).await;
                let late = clock.monotonic().saturating_since(due) > Duration::from_secs(1);
                (window, late, invoke.tick(&tick).await)
            }
            .boxed_local(),
        );
    }

    fn note(&mut self, (window, late, sent): TickResult) {
        self.report.ticks_late += u64::from(late);
        match sent {
            Ok(()) => self.report.ticks += 1,
            Err(error) => {
                self.report.ticks_failed += 1;
                tracing::warn!(%window, error = &error as &dyn StdError, "tick not accepted");
            }
        }
    }

    /// Sleeps until `at` and meanwhile drives the ticks under way.
    async fn until(&mut self, at: Monotonic) {
        let mut timer = pin!(self.clock.sleep_until(at).fuse());
        loop {
            select_biased! {
                sent = self.under_way.select_next_some() => self.note(sent),
                () = timer => return,
            }
        }
    }

    /// Waits until Lambda has answered every tick under way.
    async fn finish(mut self) -> ScheduleReport {
        while let Some(sent) = self.under_way.next().await {
            self.note(sent);
        }
        self.report
    }

    /// Checks all queues when the run begins, and every `TIDEGATE_IDLE_WAKE_SECONDS`, as long as they are
    /// empty: by SQS's counts, or from time to time by a poller ([`IdleRun`]).
    ///
    /// Returns the first window from which every window needs a tick, or `None` if the queues stayed empty
    /// to the end of the run. If SQS or the ledger does not answer, every window gets its tick.
    async fn sleep(
        &mut self,
        config: &SchedulerConfig,
        standing: &Standing,
        first: Window,
        ledger: &impl Ledger,
        queues: &impl Queues,
    ) -> Option<Window> {
        let mut standing = standing.clone();
        standing.control.expire(self.wall.into());
        // Pollers take the mail of a cancelled campaign off its queue, which is held meanwhile. A campaign whose
        // hours begin is served from their first second on.
        let opens = config
            .back_pressure
            .as_ref()
            .is_some_and(|known| waiting::opens(known, &standing, first));
        if opens || standing.control.open_cancels().next().is_some() {
            return Some(first.max(self.first_open()));
        }
        let run = IdleRun { first, wake: config.idle_wake };
        let (mut checks, mut checked, mut ticked) = (standing.looks, None, 0);
        loop {
            let from = first.max(self.first_open());
            match (run.next(&checks, checked, from), &config.back_pressure) {
                (IdleStep::EveryWindow, _) => {
                    self.report.idle_ticks += run.left_out(from, ticked);
                    return Some(from);
                }
                (IdleStep::End, _) => {
                    self.report.idle_ticks += run.left_out(first.plus(RUN), ticked);
                    return None;
                }
                (IdleStep::Count(window), Some(known)) => {
                    if checked.replace(window).is_some() {
                        self.until(self.due(window).before(ASKED)).await;
                    }
                    let empty = waiting::is_empty(queues, known, &standing, window).await;
                    if let Err(error) = &empty {
                        tracing::warn!(error = error as &dyn StdError, "SQS does not count");
                    }
                    if !empty.unwrap_or(false) {
                        checks = QueueChecks::default();
                    }
                }
                // A scheduler that does not know the campaigns lets a poller check each time.
                (IdleStep::Tick(window) | IdleStep::Count(window), _) => {
                    checked = Some(window);
                    ticked += 1;
                    checks = self.look(window, ledger).await.unwrap_or_default();
                }
            }
        }
    }

    /// Issues the tick of `window` and waits for its poller's report: reads the ledger shortly before the
    /// ticks of the next and of the second window would be due, that is about 0.9 s and 1.9 s after this
    /// one.
    ///
    /// Returns `None` if the poller found mail, did not report in time, or was not invoked; then the caller
    /// issues a tick for every window.
    async fn look(&mut self, window: Window, ledger: &impl Ledger) -> Option<QueueChecks> {
        let failed = self.report.ticks_failed;
        self.issue(window);
        for after in [1, 2] {
            self.until(self.due(window.plus(after)).before(ASKED)).await;
            let Some(Standing { looks, .. }) = read(ledger).await else {
                tracing::warn!("not known whether anything waits: every window gets its tick");
                return None;
            };
            if looks.confirms(window) && after == 2 {
                return Some(looks);
            }
            if looks.found >= Some(window) || self.report.ticks_failed > failed {
                return None;
            }
        }
        None
    }
}

/// Reads the ledger; `None`, with a warning in the log, if it does not answer.
async fn read(ledger: &impl Ledger) -> Option<Standing> {
    let answer = ledger.read().await;
    if let Err(error) = &answer {
        tracing::warn!(error = error as &dyn StdError, "the ledger does not answer");
    }
    answer.ok()
}

#[cfg(test)]
mod tests {
    use tidegate_core::factor::RateFactor;
    use tidegate_core::idle::QueueChecks;
    use tidegate_core::rate::RateMargin;

    use super::*;
    use crate::ports::PreviousClaim;

    #[test]
    fn another_run_ticks_every_window_if_one_was_claimed_lately_and_the_stack_is_awake() {
        let window = Window::from_epoch_second;
        let of = |claimed, empty| Standing {
            previous: Some(PreviousClaim {
                window: window(claimed),
                quota: Rate::MIN,
                rate_margin: RateMargin::default(),
                limits: 0,
                changed_limits: 0,
                factor: RateFactor::default(),
            }),
            looks: QueueChecks { found: Some(window(1)), empty, due: None },
            ..Standing::default()
        };
        let asleep = Some(window(9_990));
        assert!(is_ticked(&of(9_997, None), window(10_000)));
        assert!(!is_ticked(&of(9_996, None), window(10_000)));
        assert!(!is_ticked(&of(9_997, asleep), window(10_000)));
        assert!(!is_ticked(&of(9_996, asleep), window(10_000)));
        assert!(!is_ticked(&Standing::default(), window(10_000)));
    }
}
