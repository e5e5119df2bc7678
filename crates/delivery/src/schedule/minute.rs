//! A scheduler's minute: issues the ticks, and beside them reads feedback, judges the back-pressure level and fills
//! the queues from the store. At the end it counts the holds, and sums up the minute.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use tidegate_core::back_pressure::Reading;
use tidegate_core::config::FeedbackConfig;
use tidegate_core::counters::Counter;

use super::refill::{Refill, RefillReport};
use super::{read, ticks_first};
use crate::back_pressure::{BackPressure, grown};
use crate::feedback::{self, FeedbackReader, FeedbackReport};
use crate::ports::{Clock, Entropy, Ledger, Marks, Queues, Runs, Standing, Store};
use crate::waiting::listed;

/// Counted from the run's start: how long the run waits for the look at the back-pressure, and for the first
/// round of feedback, if the ticks end earlier.
const LOOKED_WITHIN: Duration = Duration::from_secs(50);

/// A run that took no longer reports what it read of the ledger when it began. While the stack sleeps, this
/// saves a read a minute.
const SHORT: Duration = Duration::from_secs(5);

/// The ledger's sums at the end of the run before, which a scheduler keeps in memory.
#[derive(Debug, Default)]
pub struct SumsMemory(RefCell<Option<BTreeMap<String, i64>>>);

/// The results of a scheduler's run apart from the ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerRunReport {
    /// SES's notices that were counted.
    pub feedback: FeedbackReport,
    /// The back-pressure level and its figures; `None` if none is configured, or the ledger did not answer.
    pub back_pressure: Option<Reading>,
    /// The run over the store; `None` if nothing was due.
    pub refill: Option<RefillReport>,
    /// The ledger at the end of the run, or at most 5 s before; `None` if it did not answer.
    pub standing: Option<Standing>,
    /// By how much the ledger's totals grew since the run before; counters that did not grow are left out.
    pub grown: BTreeMap<Counter, u64>,
}

impl SchedulerRunReport {
    /// Holds in force, on all sending and on single campaigns; `None` if the ledger did not answer.
    pub fn holds(&self) -> Option<u64> {
        u64::try_from(self.standing.as_ref()?.control.standing_holds()).ok()
    }

    /// By how much the total of `counter` grew since the run before.
    pub fn grown_by(&self, counter: Counter) -> u64 {
        self.grown.get(&counter).copied().unwrap_or(0)
    }

    /// Logs the minute in one line, with the sums that an operator looks for; nothing in a minute in which
    /// nothing was received from a queue.
    fn log(&self) {
        use Counter::{
            Dead, Deferred, Excluded, Failed, First, FirstWaited, Left, Mails, Refused, Retried,
            Sent,
        };
        let by = |counter| self.grown_by(counter);
        if [Mails, Failed, Refused, Retried, Dead, Left, Deferred, Excluded].map(by) == [0; 8] {
            return;
        }
        let mean_wait_s = by(FirstWaited).checked_div(by(First));
        tracing::info!(
            sent = by(Sent),
            mails = by(Mails),
            mean_wait_s,
            failed = by(Failed),
            refused = by(Refused),
            retried = by(Retried),
            dead = by(Dead),
            left = by(Left),
            deferred = by(Deferred),
            excluded = by(Excluded),
            holds = self.holds(),
            "minute"
        );
    }
}

/// Reads the ledger and runs `ticks` with what it read, a run of [`super::run`]; beside it reads
/// `feedback` (if there is a queue of it), judges the back-pressure level, and fills the queues from the store. Logs a summary of the minute.
///
/// Reading feedback delays no tick. One short round is read to its end; the rest is dropped when the ticks
/// end, and normally ends some seconds earlier by itself. Judging the level delays no tick. If the ticks end early,
/// as they do when nothing may be sent, the run waits for it until 50 s after its start.
pub async fn run<T, R: Future<Output = T>>(
    ticks: impl FnOnce(Option<Standing>) -> R,
    feedback: Option<&FeedbackConfig>,
    back_pressure: BackPressure<'_, impl Queues>,
    refill: Refill<'_, impl Store, impl Queues, impl Entropy>,
    sums: &SumsMemory,
    clock: &impl Clock,
    ledger: &(impl Ledger + Marks + Runs),
) -> (T, SchedulerRunReport) {
    let began = clock.monotonic();
    let before = read(ledger).await;
    let heard = RefCell::default();
    let (looked, filled) = (RefCell::default(), RefCell::default());
    let end = began + LOOKED_WITHIN;
    let ticks = ticks(before.clone());
    let ticked = async {
        let Some(config) = feedback else { return ticks.await };
        let queues = back_pressure.queues;
        let reader = FeedbackReader { config, clock, queues, ledger, report: &heard };
        let mut ticks = pin!(ticks);
        let once = pin!(feedback::read_once(&reader));
        if let Either::Left((ticked, once)) = select(ticks.as_mut(), once).await {
            select(once, pin!(clock.sleep_until(end))).await;
            return ticked;
        }
        match select(ticks, pin!(feedback::read(&reader))).await {
            Either::Left((ticked, _)) => ticked,
            Either::Right(((), ticks)) => ticks.await,
        }
    };
    let look = Box::pin(async {
        let Some(standing) = &before else { return };
        let allowance = back_pressure.look(clock, ledger, standing, &looked).await;
        let Some(known) = &back_pressure.config.back_pressure else { return };
        let campaigns = listed(&known.campaigns, standing);
        refill.run(campaigns, standing, allowance, clock, ledger, &filled).await;
    });
    let (ticked, _) = ticks_first(ticked, look, clock.sleep_until(end)).await;
    let is_short = clock.monotonic().saturating_since(began) < SHORT;
    let standing = match &before {
        Some(before) if is_short => Some(before.clone()),
        _ => read(ledger).await,
    };
    let grown = standing.as_ref().map(|now| {
        let last = sums.0.replace(Some(now.counters.clone()));
        // After a cold start since the beginning of the run.
        let first = before.as_ref().unwrap_or(now);
        grown(last.as_ref().unwrap_or(&first.counters), &now.counters)
    });
    let report = SchedulerRunReport {
        feedback: heard.take(),
        back_pressure: looked.take(),
        refill: filled.take(),
        standing,
        grown: grown.unwrap_or_default(),
    };
    report.log();
    (ticked, report)
}
