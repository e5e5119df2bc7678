//! The ticks of one scheduler run. Each is sent its lead before its window opens; while every queue is
//! empty, they are left out.

use std::error::Error as StdError;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, select_biased};
use serde::Serialize;
use tidegate_core::config::SchedulerConfig;
use tidegate_core::idle::{IdleRun, IdleStep, QueueChecks, RUN};
use tidegate_core::rate::Rate;
use tidegate_core::tick::Tick;
use tidegate_core::{Timestamp, Window};

use crate::ports::{Clock, Invoke, Ledger, Monotonic, PortError, Queues, Standing};
use crate::waiting;

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

/// The ledger is read this long before the next tick is due, to decide whether that tick is needed.
const ASKED: Duration = Duration::from_millis(100);

/// A tick's window, whether it was sent more than 1 s late, and whether Lambda accepted it.
type TickResult = (Window, bool, Result<(), PortError>);

/// The ticks of one run; `under_way` holds those that wait for their time or for Lambda's answer.
pub(super) struct Ticks<'a, C, I> {
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

impl<'a, C: Clock, I: Invoke> Ticks<'a, C, I> {
    pub(super) fn new(
        clock: &'a C,
        invoke: &'a I,
        wall: Timestamp,
        started: Monotonic,
        lead: Duration,
        rate: Rate,
        report: ScheduleReport,
    ) -> Self {
        let under_way = FuturesUnordered::new();
        Self { clock, invoke, wall, started, lead, rate, under_way, report }
    }

    /// The first window whose tick is not yet due. With a lead of 400 ms it is window 11 at 10.5 s (that
    /// tick is due at 10.6 s) and window 12 at 10.7 s.
    pub(super) fn first_open(&self) -> Window {
        let now = self.wall + self.clock.monotonic().saturating_since(self.started);
        Window::containing(now + self.lead).plus(1)
    }

    fn due(&self, window: Window) -> Monotonic {
        self.started + window.opens().saturating_sub(self.lead).saturating_since(self.wall)
    }

    /// Sends the window's tick when it is due, and returns at once.
    pub(super) fn issue(&mut self, window: Window) {
        let (clock, invoke, due) = (self.clock, self.invoke, self.due(window));
        let tick = Tick { window, rate: self.rate };
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
    pub(super) async fn finish(mut self) -> ScheduleReport {
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
    pub(super) async fn sleep(
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
        let run = IdleRun::new(first, config.idle_wake);
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
            let looks = read(ledger).await?.looks;
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
        tracing::warn!(error = error as &dyn StdError, "not known whether anything waits");
    }
    answer.ok()
}
