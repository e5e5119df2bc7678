//! What every stage of one window shares.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use tidegate_core::Timestamp;
use tidegate_core::allocation::Intake;
use tidegate_core::config::PollerConfig;

use super::deferral::DeferralWriter;
use super::idle_mode::FirstMail;
use super::plan::Plan;
use super::running_means::RunningMeans;
use super::time::WindowTime;
use crate::environment::Environment;
use crate::ports::{Clock as _, Monotonic, PortError, QueueUrl, Queues as _, Received};

/// Every so many windows the merge queue is counted, against drift.
const COUNT_EVERY: u64 = 16;
/// The one long poll's length: `WaitTimeSeconds` 1.
const LONG_POLL: Duration = Duration::from_secs(1);

pub(super) struct Context<'a, E> {
    pub(super) env: &'a E,
    pub(super) config: &'a PollerConfig,
    pub(super) running_means: &'a RunningMeans,
    pub(super) plan: &'a Plan,
    pub(super) time: WindowTime,
    /// The claim's.
    pub(super) token: String,
    pub(super) finds: FirstMail,
    pub(super) deferral_writer: DeferralWriter,
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

    /// How long a receive that starts after `pause` waits: a long poll never ends after the window.
    pub(super) fn wait_after(&self, pause: Duration) -> Duration {
        let ends = self.now() + pause + LONG_POLL;
        if ends < self.plan.window.closes() { LONG_POLL } else { Duration::ZERO }
    }

    /// What is left until `last` before the window's close.
    pub(super) fn left_until(&self, last: Duration) -> Duration {
        self.plan.window.closes().saturating_sub(last).saturating_since(self.now())
    }

    /// Receives after a pause, and once there is room for what may come; less where there is not as much.
    /// Says whether it was a long poll.
    pub(super) async fn receive(
        &self,
        queue: &QueueUrl,
        messages: u64,
        (pause, wait): (Duration, Duration),
    ) -> (bool, Result<(Vec<Received>, Monotonic), PortError>) {
        if !pause.is_zero() {
            self.env.clock().sleep_until(self.monotonic() + pause).await;
        }
        let since = self.monotonic();
        let reserve = self.running_means.room.reserve(queue, messages, wait);
        let Some(reserved) = self.within(Duration::ZERO, reserve).await else {
            return (false, Ok((Vec::new(), since)));
        };
        let (since, wait) = (self.monotonic(), wait.min(self.wait_after(Duration::ZERO)));
        let max = usize::try_from(reserved.messages).unwrap_or(1);
        let mut result = self.queues().receive(queue, max, wait).await;
        if let Ok(received) = &mut result {
            reserved.hold(received);
        }
        (!wait.is_zero(), result.map(|received| (received, since)))
    }

    /// Whether the merge queue's depth is set right after this window.
    pub(super) fn counts_merge(&self) -> bool {
        self.plan.window.epoch_second().is_multiple_of(COUNT_EVERY)
    }

    /// An intake of `total` recipients from the campaigns, by weight and debt.
    pub(super) fn intake(&self, total: u64) -> Intake {
        let plan = self.plan;
        let debts: Vec<i64> = plan.lanes().map(|campaign| campaign.debt).collect();
        let means: Vec<f64> =
            plan.lanes().map(|c| self.running_means.recipients_per_mail(&c.name)).collect();
        let mut intake = Intake::of_turns(&plan.turns, plan.slots.clone(), total, &debts, &means);
        // Their share goes to the others at once.
        let lanes = plan.lanes().enumerate();
        let dry = lanes.filter(|(_, campaign)| campaign.idle.is_some() || !plan.asks(campaign));
        intake.mark_all_dry(dry.map(|(lane, _)| lane));
        intake
    }
}
