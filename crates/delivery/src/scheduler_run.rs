//! A scheduler's minute: its ticks; beside them what SES reports and how high the back-pressure is; at its
//! end what is held.

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

/// From a run's start, the time that the look at the back-pressure may take where the ticks end earlier.
const LOOKED_WITHIN: Duration = Duration::from_secs(50);

/// What there was beside the ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerRunReport {
    /// What SES reported.
    pub feedback: FeedbackReport,
    /// How high the back-pressure is; none where nobody judges it, or could.
    pub back_pressure: Option<BackPressureReport>,
    /// Holds that stand, on all sending and on campaigns; none where the ledger does not say.
    pub holds: Option<u64>,
}

/// Runs `ticks`, a run of [`crate::schedule::run`], with `reading` beside it, where there is one, and
/// the look at the `back-pressure`.
///
/// The reading costs no tick and no time: it ends with the ticks, wherever it then stands, and by
/// itself some seconds before. The look costs no tick; where the ticks end within moments, since
/// nothing is to be sent, it is waited for.
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
