//! Changes that a poller makes in the ledger while it serves: rate factor, holds, windows owed, the
//! breaker's probe.

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

/// How often a change of the rate factor is tried anew when another poller's came first.
const TRIES: usize = 4;

/// A change to make, or a look to take.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// SES refused for the rate in this window.
    Refused,
    /// Sending is held: all of it, or a campaign's.
    Hold { campaign: Option<String>, reason: HoldReason, detail: String },
    /// The windows up to this one are owed to the mail that waits for it.
    Advance { through: Window },
    /// This poller becomes the breaker's prober.
    Probe,
    /// Whether the breaker still allows.
    Look,
}

impl Change {
    /// Its name in the log: what SES said may hold an address.
    const fn name(&self) -> &'static str {
        match self {
            Self::Refused => "rate factor",
            Self::Hold { .. } => "hold",
            Self::Advance { .. } => "claim",
            Self::Probe | Self::Look => "breaker",
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeResult {
    /// It stands in the ledger, or needs not.
    Done,
    /// Whether the claim was advanced.
    Advanced(bool),
    /// Whether this poller is the prober.
    Prober(bool),
    /// Whether the breaker allows.
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
            // As the claim showed it.
            Change::Look => ChangeResult::Allows(true),
            Change::Refused | Change::Hold { .. } => ChangeResult::Done,
        }
    })
}

async fn lower<E: Environment>(ctx: &Context<'_, E>) -> Result<(), PortError> {
    change_factor(ctx, |factor| factor.refused(ctx.plan.window)).await
}

/// Gives back a step of the rate after a window without a refusal.
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

/// Changes the control record, tried first on the one that came with the claim.
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

/// Notes in the control record how the window's sends ended: for the breaker, and for the permanent
/// refusals in a row. Written only where it changes something.
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
        // This poller became the prober after its claim.
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
