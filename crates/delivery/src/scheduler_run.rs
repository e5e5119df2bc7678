//! A scheduler's minute: issues the ticks, and beside them reads feedback and judges the back-pressure
//! level. At the end it counts the holds.

use std::cell::RefCell;
use std::error::Error as StdError;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use tidegate_core::config::FeedbackConfig;

use crate::back_pressure::{BackPressure, BackPressureReport};
use crate::feedback::{self, FeedbackReader, FeedbackReport};
use crate::ports::{Clock, DeferralStore, Entropy, Feedback, Ledger, Queues, Standing};
use crate::ticks_first::ticks_first;

/// Counted from the run's start: how long the run waits for the look at the back-pressure, and for the first
/// round of feedback, if the ticks end earlier.
const LOOKED_WITHIN: Duration = Duration::from_secs(50);

/// The results of a scheduler's run apart from the ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerRunReport {
    /// Bounces and complaints that were counted.
    pub feedback: FeedbackReport,
    /// The back-pressure level and its figures; `None` if none is configured, or the ledger did not answer.
    pub back_pressure: Option<BackPressureReport>,
    /// The ledger at the end of the run; `None` if it did not answer.
    pub standing: Option<Standing>,
}

impl SchedulerRunReport {
    /// Holds in force, on all sending and on single campaigns; `None` if the ledger did not answer.
    pub fn holds(&self) -> Option<u64> {
        u64::try_from(self.standing.as_ref()?.control.standing_holds()).ok()
    }
}

/// Runs `ticks`, a run of [`crate::schedule::run`]; beside it reads feedback (if `reading` is given) and
/// judges the back-pressure level.
///
/// Reading feedback delays no tick. One short round is read to its end; the rest is dropped when the ticks
/// end, and normally ends some seconds earlier by itself. Judging the level delays no tick. If the ticks end early,
/// as they do when nothing may be sent, the run waits for it until 50 s after its start.
pub async fn run<T>(
    ticks: impl Future<Output = T>,
    reading: Option<(&FeedbackConfig, &impl Feedback)>,
    back_pressure: BackPressure<'_, impl Queues, impl DeferralStore, impl Entropy>,
    clock: &impl Clock,
    ledger: &impl Ledger,
) -> (T, SchedulerRunReport) {
    let heard = RefCell::default();
    let looked = RefCell::default();
    let end = clock.monotonic() + LOOKED_WITHIN;
    let ticked = async {
        let Some((config, feedback)) = reading else { return ticks.await };
        let reader = FeedbackReader { config, clock, feedback, ledger, report: &heard };
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
    let look = Box::pin(back_pressure.look(clock, ledger, &looked));
    let (ticked, _) = ticks_first(ticked, look, clock.sleep_until(end)).await;
    let standing = ledger.read().await;
    if let Err(error) = &standing {
        tracing::warn!(error = error as &dyn StdError, "holds not read");
    }
    let report = SchedulerRunReport {
        feedback: heard.take(),
        back_pressure: looked.take(),
        standing: standing.ok(),
    };
    (ticked, report)
}
