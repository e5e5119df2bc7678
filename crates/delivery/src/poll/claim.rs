//! The claim: the tick is admitted, and its window claimed. Nothing is asked of a queue before.

use std::time::Duration;

use thiserror::Error;
use tidegate_core::config::PollerConfig;
use tidegate_core::counters::{Counter, WindowCounts};
use tidegate_core::grid::SlotGrid;
use tidegate_core::rate::Rate;
use tidegate_core::tick::{Admission, Tick};
use tidegate_core::{Window, idle};

use super::context::WindowTime;
use super::report::{End, WindowReport};
use crate::ports::{
    Account as _, Claim, ClaimRequest, Clock as _, Entropy as _, Environment, Ledger as _,
    PortError, Ports, Standing,
};
use crate::quota;

/// Without a scheduler, which renews it, the ledger's record of the account is renewed once it is this old.
const KEPT_EVERY: Duration = Duration::from_mins(1);

/// Reasons why a window was not served. Nothing was sent, and nothing is lost.
#[derive(Debug, Error)]
pub enum PollError {
    /// The claim could not be written, so the poller sends nothing.
    #[error("window {window} is not served: the ledger is out of reach")]
    Ledger {
        /// The window that could not be claimed; its mail waits for the next ones.
        window: Window,
        /// The ledger's answer to the claim, or why there was none.
        source: PortError,
    },
    /// The event was empty, so the quota has to come from SES: `GetAccount` failed, and neither settings
    /// nor ledger hold a quota.
    #[error("no quota: AWS does not tell it, and none is configured or known")]
    Quota {
        /// The failure of `GetAccount`.
        source: PortError,
    },
}

/// A window that this poller has claimed.
pub(super) struct ClaimedWindow {
    pub(super) request: ClaimRequest,
    pub(super) standing: Standing,
    pub(super) time: WindowTime,
    /// The counts that its tick gives; none without a tick.
    pub(super) arrival: WindowCounts,
    /// Windows before it may count as missed: it has a tick, and the stack did not sleep.
    pub(super) can_miss: bool,
    /// How long the claim took.
    pub(super) took: Duration,
}

/// Claims the tick's window; without a tick the next whole second, at the account's quota. A window that is
/// not claimed has a report that says why.
pub(super) async fn claim<E: Environment>(
    env: &Ports<E>,
    config: &PollerConfig,
    tick: Option<Tick>,
) -> Result<Result<ClaimedWindow, WindowReport>, PollError> {
    let time = WindowTime::start(&env.clock);
    let is_ticked = tick.is_some();
    let tick = match tick {
        Some(tick) => tick,
        None => {
            let window = Window::containing(time.now(&env.clock)).plus(1);
            match quota_now(env, config).await? {
                Some(rate) => Tick { window, quota: rate },
                None => return Ok(Err(WindowReport::new(window, End::NoQuota))),
            }
        }
    };
    let ended = |end| Ok(Err(WindowReport::new(tick.window, end)));
    let now = time.now(&env.clock);
    match tick.admit(now) {
        Admission::Expired => return ended(End::Expired),
        Admission::Early => return ended(End::Early),
        Admission::Admitted => {}
    }
    // The configured cap holds whatever rate the tick names.
    let rate = config.cap.quota.map_or(tick.quota, |cap| cap.min(tick.quota));
    let token = env.entropy.token();
    let (rate_margin, limits) = (config.rate_margin, config.limits.initial.digest());
    let request = ClaimRequest { window: tick.window, quota: rate, rate_margin, limits, token };
    let asked = env.clock.monotonic();
    let claim = env.ledger.claim(&request).await;
    let took = env.clock.monotonic().saturating_since(asked);
    match claim.map_err(|source| PollError::Ledger { window: tick.window, source })? {
        Claim::Taken { owed: true, .. } => ended(End::Owed),
        Claim::Taken { .. } => ended(End::Duplicate),
        Claim::Claimed(standing) => {
            let mut arrival = WindowCounts::default();
            let can_miss = is_ticked && standing.looks.rest(tick.window).is_none();
            if is_ticked {
                let early = tick.window.opens().saturating_since(now).as_millis();
                arrival.add(Counter::TicksEarly, u64::try_from(early).unwrap_or(0));
                let before = standing.previous.map(|previous| previous.window);
                let margin = standing.factor.margin(config.rate_margin, tick.window);
                let grid = SlotGrid::new(standing.factor.of(rate), margin);
                let missed = idle::missed(grid, before, tick.window, &standing.looks);
                arrival.add(Counter::WindowsMissed, missed);
            }
            Ok(Ok(ClaimedWindow { request, standing, time, arrival, can_miss, took }))
        }
    }
}

/// The account's quota under the configured cap; `None` if SES gives the account none. As the scheduler would, this keeps
/// SES's answer in the ledger: once a minute, and in every window in which a hold may wait for it.
async fn quota_now<E: Environment>(
    env: &Ports<E>,
    config: &PollerConfig,
) -> Result<Option<Rate>, PollError> {
    let standing = env.ledger.read().await.ok();
    let control = standing.as_ref().map(|standing| &standing.control);
    let asked = env.clock.wall();
    match env.account.account().await {
        Ok(status) => {
            let fresh = control
                .and_then(|control| control.daily)
                .is_some_and(|reading| asked.saturating_since(reading.read_at.into()) < KEPT_EVERY);
            let waits = control.is_some_and(|control| !control.holds.is_empty());
            if let Some(standing) = standing.as_ref().filter(|_| !fresh || waits) {
                quota::keep(&env.ledger, config.cap.daily, standing, Some(&status), asked).await;
            }
            Ok(quota::told(&status, &config.cap))
        }
        Err(source) => match quota::remembered(control, &config.cap) {
            Some(rate) => Ok(Some(rate)),
            None => Err(PollError::Quota { source }),
        },
    }
}
