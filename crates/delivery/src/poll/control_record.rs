//! Changes that a poller writes to the ledger while it serves: rate factor, holds, further windows claimed,
//! the breaker's prober, and at last how the sends ended.
//!
//! The rate factor and the control record change by conditional writes: if another poller was faster, the
//! change is computed again from what is there now. A change that fails is logged, and the window goes on.

use std::error::Error as StdError;

use tidegate_core::Window;
use tidegate_core::breaker::Breaker;
use tidegate_core::control::{Control, Hold, HoldReason};
use tidegate_core::factor::RateFactor;

use super::context::Context;
use crate::control::{self, ChangeOutcome};
use crate::ports::{Environment, Ledger as _, PortError};

/// How often a change of the rate factor is tried; another poller's change in between costs a try.
const TRIES: usize = 4;

/// Lowers the rate factor, because SES refused for the rate in this window.
pub(super) async fn lower_factor<E: Environment>(ctx: &Context<'_, E>) {
    let lowered = change_factor(ctx, |factor| factor.refused(ctx.plan.window)).await;
    log_failure("rate factor", lowered);
}

/// Raises the rate factor by one step, after a window without a refusal.
pub(super) async fn raise_factor<E: Environment>(ctx: &Context<'_, E>) {
    let raised = change_factor(ctx, |factor| factor.recovered(ctx.plan.window)).await;
    if let Err(error) = raised {
        tracing::warn!(error = &error as &dyn StdError, "rate factor not raised");
    }
}

/// Holds all sending, one campaign's, or that of all campaigns with the hold's tenant.
pub(super) async fn hold<E: Environment>(
    ctx: &Context<'_, E>,
    campaign: Option<&str>,
    reason: HoldReason,
    hold: Hold,
) {
    let changed = change_control(ctx, |control| {
        if let Some(name) = campaign {
            control.refusals.remove(name); // it counts anew once the hold is lifted
        }
        control.hold(campaign, reason, hold.clone());
        let of_tenant =
            ctx.plan.tenants.iter().filter(|(_, other)| hold.tenant.as_ref() == Some(other));
        for (name, _) in of_tenant {
            control.hold(Some(name), reason, hold.clone());
        }
    });
    log_failure("hold", changed.await);
}

/// Claims the windows through this one for a mail with more recipients than the window has slots; false if
/// they are not claimed.
pub(super) async fn advance<E: Environment>(ctx: &Context<'_, E>, through: Window) -> bool {
    let advanced = ctx.env.ledger.advance(&ctx.token, through).await;
    log_failure("claim", advanced).unwrap_or(false)
}

/// Makes this poller the breaker's prober; false if another one is, or the ledger does not answer.
pub(super) async fn become_prober<E: Environment>(ctx: &Context<'_, E>) -> bool {
    let (window, policy) = (ctx.plan.window, &ctx.config.breaker);
    let become_prober = |control: &mut Control| {
        if let Some(probing) = control.breaker.probing(window, &ctx.token, policy) {
            control.breaker = probing;
        }
    };
    let changed = change_control(ctx, become_prober).await;
    let is_prober = log_failure("breaker", changed).flatten().is_some();
    if is_prober {
        tracing::info!(%window, "circuit breaker probes");
    }
    is_prober
}

/// Whether the breaker still allows. Without an answer it does: the claim showed a breaker that allows.
pub(super) async fn allows<E: Environment>(ctx: &Context<'_, E>) -> bool {
    let standing = ctx.env.ledger.read().await;
    log_failure("breaker", standing).is_none_or(|now| now.control.breaker.is_allowing())
}

/// Writes `change` to the control record at the window's end. It begins from the copy that came with the
/// claim, or from a newer one if this poller changed the record itself (`is_old`). Nothing is written if
/// nothing changes.
pub(super) async fn conclude<E: Environment>(
    ctx: &Context<'_, E>,
    is_old: bool,
    change: impl Fn(&mut Control),
) {
    let changed = if is_old {
        match ctx.env.ledger.read().await {
            Ok(now) => {
                let changed =
                    control::change(&ctx.env.ledger, now.control_version, now.control, change);
                changed.await.map(ChangeOutcome::made)
            }
            Err(error) => Err(error),
        }
    } else {
        change_control(ctx, change).await
    };
    match changed {
        Ok(Some((before, after))) => {
            log_breaker(ctx.plan.window, &before.breaker, &after.breaker);
        }
        Ok(None) => {}
        Err(error) => {
            tracing::error!(error = &error as &dyn StdError, "breaker not told of the outcomes");
        }
    }
}

/// Logs a change that failed, without its values: SES's answer may contain an address.
fn log_failure<T>(what: &'static str, changed: Result<T, PortError>) -> Option<T> {
    let logged = changed.inspect_err(|error| {
        tracing::error!(what, error = error as &dyn StdError, "not changed in the ledger");
    });
    logged.ok()
}

async fn change_factor<E: Environment>(
    ctx: &Context<'_, E>,
    next: impl Fn(RateFactor) -> Option<RateFactor>,
) -> Result<(), PortError> {
    let ledger = &ctx.env.ledger;
    let mut from = ctx.plan.factor;
    for _ in 0..TRIES {
        let Some(to) = next(from) else { return Ok(()) };
        if ledger.set_factor(from, to).await? {
            tracing::info!(from = from.millionths(), to = to.millionths(), "rate factor changed");
            return Ok(());
        }
        from = ledger.read().await?.factor;
    }
    Ok(())
}

/// Changes the control record, first on the copy that came with the claim: mostly no read is needed.
async fn change_control<E: Environment>(
    ctx: &Context<'_, E>,
    change: impl Fn(&mut Control),
) -> Result<Option<(Control, Control)>, PortError> {
    let (version, claimed) = (ctx.plan.control_version, ctx.plan.control.clone());
    control::change(&ctx.env.ledger, version, claimed, change).await.map(ChangeOutcome::made)
}

fn log_breaker(window: Window, before: &Breaker, after: &Breaker) {
    let blocked_s = before.blocked_for(window).map(|blocked| blocked.as_secs());
    match (before, after) {
        (Breaker::Allowing { .. }, Breaker::Blocking { until, .. }) => {
            tracing::error!(%until, "circuit breaker blocks: too many sends fail");
        }
        (Breaker::Probing { .. }, Breaker::Blocking { until, .. }) => {
            tracing::warn!(%until, blocked_s, "circuit breaker blocks on: the probe failed");
        }
        (Breaker::Probing { .. }, Breaker::Allowing { .. }) => {
            tracing::info!(blocked_s, "circuit breaker allows: the probe was taken");
        }
        _ => {}
    }
}
