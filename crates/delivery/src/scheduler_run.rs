//! A scheduler's minute: issues the ticks, and beside them reads feedback and judges the back-pressure
//! level. At the end it counts the holds.

use std::cell::RefCell;
use std::error::Error as StdError;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use tidegate_core::config::FeedbackConfig;

use crate::back_pressure::{BackPressure, BackPressureReport};
use crate::feedback::{self, FeedbackReport};
use crate::ports::{Clock, DeferralStore, Entropy, Feedback, Ledger, Queues};
use crate::ticks_first::ticks_first;

/// Counted from the run's start: how long the run waits for the look at the back-pressure if the ticks end
/// earlier.
const LOOKED_WITHIN: Duration = Duration::from_secs(50);

/// The results of a scheduler's run apart from the ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerRunReport {
    /// Bounces and complaints that were counted.
    pub feedback: FeedbackReport,
    /// The back-pressure level and its figures; `None` if none is configured, or the ledger did not answer.
    pub back_pressure: Option<BackPressureReport>,
    /// Holds in force, on all sending and on single campaigns; `None` if the ledger did not answer.
    pub holds: Option<u64>,
}

/// Runs `ticks`, a run of [`crate::schedule::run`]; beside it reads feedback (if `reading` is given) and
/// judges the back-pressure level.
///
/// Reading feedback delays neither the ticks nor the end of the run: it is dropped when the ticks end, and
/// normally ends some seconds earlier by itself. Judging the level delays no tick. If the ticks end early,
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
    let end = clock.sleep_until(clock.monotonic() + LOOKED_WITHIN);
    let ticked = async {
        let Some((config, feedback)) = reading else { return ticks.await };
        let reading = pin!(feedback::read(config, clock, feedback, ledger, &heard));
        match select(pin!(ticks), reading).await {
            Either::Left((ticked, _)) => ticked,
            Either::Right(((), ticks)) => ticks.await,
        }
    };
    let look = Box::pin(back_pressure.look(clock, ledger, &looked));
    let (ticked, _) = ticks_first(ticked, look, end).await;
    let holds = match ledger.read().await {
        Ok(standing) => u64::try_from(standing.control.standing_holds()).ok(),
        Err(error) => {
            tracing::warn!(error = &error as &dyn StdError, "holds not read");
            None
        }
    };
    (ticked, SchedulerRunReport { feedback: heard.take(), back_pressure: looked.take(), holds })
}
