//! A scheduler's minute: its ticks; beside them what SES reports; at its end what is held.

use std::cell::RefCell;
use std::error::Error as StdError;
use std::pin::pin;

use futures_util::future::{Either, select};
use tidegate_core::config::FeedbackConfig;

use crate::feedback::{self, FeedbackReport};
use crate::ports::{Clock, Feedback, Ledger};

/// What there was beside the ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MinuteReport {
    /// What SES reported.
    pub feedback: FeedbackReport,
    /// Holds that stand, on all sending and on campaigns; none where the ledger does not say.
    pub holds: Option<u64>,
}

/// Runs `ticks`, a run of [`crate::schedule::run`], with `reading` beside it, where there is one.
///
/// The reading costs no tick and no time: it ends with the ticks, wherever it then stands, and by
/// itself some seconds before.
pub async fn run<T>(
    ticks: impl Future<Output = T>,
    reading: Option<(&FeedbackConfig, &impl Feedback)>,
    clock: &impl Clock,
    ledger: &impl Ledger,
) -> (T, MinuteReport) {
    let heard = RefCell::default();
    let ticked = match reading {
        Some((config, feedback)) => {
            let reading = pin!(feedback::read(config, clock, feedback, ledger, &heard));
            match select(pin!(ticks), reading).await {
                Either::Left((ticked, _)) => ticked,
                Either::Right(((), ticks)) => ticks.await,
            }
        }
        None => ticks.await,
    };
    let holds = match ledger.read().await {
        Ok(standing) => u64::try_from(standing.control.standing_holds()).ok(),
        Err(error) => {
            tracing::warn!(error = &error as &dyn StdError, "holds not read");
            None
        }
    };
    (ticked, MinuteReport { feedback: heard.take(), holds })
}
