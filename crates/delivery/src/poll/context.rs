//! What every stage of one window shares.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use tidegate_core::Timestamp;
use tidegate_core::allocation::Intake;
use tidegate_core::config::PollerConfig;

use super::learned::Learned;
use super::plan::Plan;
use super::rest::Finds;
use super::spill::Spiller;
use super::time::WindowTime;
use crate::environment::Environment;
use crate::ports::{Clock as _, Monotonic};

/// Every so many windows the merge queue is counted, against drift.
const COUNT_EVERY: u64 = 16;
/// The one long poll's length: `WaitTimeSeconds` 1.
const LONG_POLL: Duration = Duration::from_secs(1);

pub(super) struct Context<'a, E> {
    pub(super) env: &'a E,
    pub(super) config: &'a PollerConfig,
    pub(super) learned: &'a Learned,
    pub(super) plan: &'a Plan,
    pub(super) time: WindowTime,
    /// The claim's.
    pub(super) token: String,
    pub(super) finds: Finds,
    pub(super) spiller: Spiller,
}

impl<E: Environment> Context<'_, E> {
    pub(super) fn now(&self) -> Timestamp {
        self.time.now(self.env.clock())
    }

    pub(super) fn monotonic(&self) -> Monotonic {
        self.env.clock().monotonic()
    }

    /// So long after the window's close.
    pub(super) fn after_close(&self, time: Duration) -> Monotonic {
        self.time.monotonic(self.plan.window.closes() + time)
    }

    /// What `work` comes to; `None` where it is not done so long after the window's close.
    pub(super) async fn within<T>(
        &self,
        time: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let late = pin!(self.env.clock().sleep_until(self.after_close(time)));
        match select(pin!(work), late).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(((), _)) => None,
        }
    }

    pub(super) fn queues(&self) -> &E::Queues {
        self.env.queues()
    }

    /// How long a receive that starts now waits: a long poll never ends after the window.
    pub(super) fn wait_now(&self) -> Duration {
        if self.now() + LONG_POLL < self.plan.window.closes() { LONG_POLL } else { Duration::ZERO }
    }

    /// Whether the merge queue's depth is set right after this window.
    pub(super) fn counts_merge(&self) -> bool {
        self.plan.window.epoch_second().is_multiple_of(COUNT_EVERY)
    }

    /// An intake of `total` recipients from the campaigns, by weight and debt.
    pub(super) fn intake(&self, total: u64) -> Intake {
        let campaigns = &self.plan.campaigns;
        let debts: Vec<i64> = campaigns.iter().map(|campaign| campaign.debt).collect();
        let means: Vec<f64> =
            campaigns.iter().map(|c| self.learned.recipients_per_mail(&c.name)).collect();
        Intake::new(&self.plan.cycle, self.plan.slots.clone(), total, &debts, &means)
    }
}
