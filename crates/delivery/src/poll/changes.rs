//! Changes that a poller writes to the ledger while it serves: rate factor, holds, further windows claimed,
//! the breaker's probe.
//!
//! The rate factor and the control record change by conditional writes: if another poller was faster, the
//! change is computed again from what is there now.

use std::error::Error as StdError;

use tidegate_core::Window;
use tidegate_core::breaker::Breaker;
use tidegate_core::control::{Control, Hold, HoldReason};
use tidegate_core::factor::RateFactor;

use super::context::Context;
use super::drain::WindowOutcomes;
use crate::control::{self, ChangeOutcome};
use crate::environment::Environment;
use crate::ports::{Ledger as _, PortError};

/// How often a change of the rate factor is tried; another poller's change in between costs a try.
const TRIES: usize = 4;

/// A change of the ledger, or a look at it.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// SES refused for the rate in this window: lower the rate factor.
    Refused,
    /// Hold all sending, or one campaign's.
    Hold { campaign: Option<String>, reason: HoldReason, detail: String },
    /// Claim the windows through this one for an oversize mail.
    Advance { through: Window },
    /// Make this poller the breaker's prober.
    Probe,
    /// Read whether the breaker still allows.
    Look,
}

impl Change {
    /// The change's name for the log, without its values: SES's answer may contain an address.
    const fn name(&self) -> &'static str {
        match self {
            Self::Refused => "rate factor",
            Self::Hold { .. } => "hold",
            Self::Advance { .. } => "claim",
            Self::Probe | Self::Look => "breaker",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeResult {
    /// The change is in the ledger, or was not needed.
    Done,
    Advanced(bool),
    Prober(bool),
    Allows(bool),
}

pub(super) async fn apply<E: Environment>(ctx: &Context<'_, E>, change: Change) -> ChangeResult {
    let result = match &change {
        Change::Refused => lower(ctx).await.map(|()| ChangeResult::Done),
        Change::Hold { campaign, reason, detail } => {
            hold(ctx, campaign.as_deref(), *reason, detail).await.map(|()| ChangeResult::Done)
        }
        Change::Advance { through } => {
            ctx.env.ledger().advance(&ctx.token, *through).await.map(ChangeResult::Advanced)
        }
        Change::Probe => probe(ctx).await.map(ChangeResult::Prober),
        Change::Look => {
            let standing = ctx.env.ledger().read().await;
            standing.map(|standing| ChangeResult::Allows(standing.control.breaker.is_allowing()))
        }
    };
    result.unwrap_or_else(|error| {
        let what = change.name();
        tracing::error!(what, error = &error as &dyn StdError, "not changed in the ledger");
        match change {
            Change::Advance { .. } => ChangeResult::Advanced(false),
            Change::Probe => ChangeResult::Prober(false),
            // The claim showed a breaker that allows.
            Change::Look => ChangeResult::Allows(true),
            Change::Refused | Change::Hold { .. } => ChangeResult::Done,
        }
    })
}

async fn lower<E: Environment>(ctx: &Context<'_, E>) -> Result<(), PortError> {
    change_factor(ctx, |factor| factor.refused(ctx.plan.window)).await
}

/// Raises the rate factor by one step, after a window without a refusal.
pub(super) async fn recover<E: Environment>(ctx: &Context<'_, E>) {
    let recovered = change_factor(ctx, |factor| factor.recovered(ctx.plan.window)).await;
    if let Err(error) = recovered {
        tracing::warn!(error = &error as &dyn StdError, "rate factor not raised");
    }
}

async fn change_factor<E: Environment>(
    ctx: &Context<'_, E>,
    next: impl Fn(RateFactor) -> Option<RateFactor>,
) -> Result<(), PortError> {
    let ledger = ctx.env.ledger();
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
    let claimed = (ctx.plan.control_version, ctx.plan.control.clone());
    control::change(ctx.env.ledger(), claimed, change).await.map(ChangeOutcome::made)
}

async fn hold<E: Environment>(
    ctx: &Context<'_, E>,
    campaign: Option<&str>,
    reason: HoldReason,
    detail: &str,
) -> Result<(), PortError> {
    let hold = Hold::new(detail, ctx.now());
    let changed = change_control(ctx, |control| {
        if let Some(name) = campaign {
            control.refusals.remove(name); // it counts anew once the hold is lifted
        }
        control.hold(campaign, reason, hold.clone());
    });
    changed.await.map(drop)
}

async fn probe<E: Environment>(ctx: &Context<'_, E>) -> Result<bool, PortError> {
    let (window, policy) = (ctx.plan.window, &ctx.config.breaker);
    let become_prober = |control: &mut Control| {
        if let Some(probing) = control.breaker.probing(window, &ctx.token, policy) {
            control.breaker = probing;
        }
    };
    let is_prober = change_control(ctx, become_prober).await?.is_some();
    if is_prober {
        tracing::info!(%window, "circuit breaker probes");
    }
    Ok(is_prober)
}

/// Writes to the control record how the window's sends ended: for the breaker, and for the permanent
/// refusals in a row. Nothing is written if nothing changes.
pub(super) async fn conclude<E: Environment>(ctx: &Context<'_, E>, noted: &WindowOutcomes) {
    let (window, policy) = (ctx.plan.window, &ctx.config.breaker);
    let note = |control: &mut Control| {
        let probed = noted
            .probe
            .and_then(|worked| control.breaker.probed(window, &ctx.token, worked, policy));
        if let Some(breaker) =
            probed.or_else(|| control.breaker.observed(window, noted.outcomes, policy))
        {
            control.breaker = breaker;
        }
        for (campaign, run) in &noted.runs {
            match run.after(control.refusals.get(campaign)) {
                Some(streak) if streak.holds() => {
                    let hold = Hold::new(&streak.in_words(), ctx.now());
                    control.refusals.remove(campaign);
                    control.hold(Some(campaign), HoldReason::Refusals, hold);
                }
                Some(streak) => drop(control.refusals.insert(campaign.clone(), streak)),
                None => drop(control.refusals.remove(campaign)),
            }
        }
    };
    let changed = match noted.probe {
        None => change_control(ctx, note).await,
        // The copy from the claim is too old: this poller became the prober after it.
        Some(_) => match ctx.env.ledger().read().await {
            Ok(now) => {
                let now = (now.control_version, now.control);
                control::change(ctx.env.ledger(), now, note).await.map(ChangeOutcome::made)
            }
            Err(error) => Err(error),
        },
    };
    match changed {
        Ok(Some((before, after))) => log_breaker(window, &before.breaker, &after.breaker),
        Ok(None) => {}
        Err(error) => {
            tracing::error!(error = &error as &dyn StdError, "breaker not told of the outcomes");
        }
    }
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
