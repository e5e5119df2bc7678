//! Changes that a poller makes in the ledger while it serves: rate factor, holds, windows owed.

use std::error::Error as StdError;

use tidegate_core::Window;
use tidegate_core::control::{Hold, HoldReason};
use tidegate_core::factor::RateFactor;

use super::context::Context;
use crate::environment::Environment;
use crate::ports::{Ledger as _, PortError};

/// How often a change is tried anew when another poller's came first.
const TRIES: usize = 4;

/// A change to make.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// SES refused for the rate in this window.
    Refused,
    /// Sending is held: all of it, or a campaign's.
    Hold { campaign: Option<String>, reason: HoldReason, detail: String },
    /// The windows up to this one are owed to the mail that waits for it.
    Advance { through: Window },
}

impl Change {
    /// Its name in the log: what SES said may hold an address.
    const fn name(&self) -> &'static str {
        match self {
            Self::Refused => "rate factor",
            Self::Hold { .. } => "hold",
            Self::Advance { .. } => "claim",
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// It stands in the ledger, or needs not.
    Done,
    /// Whether the claim was advanced.
    Advanced(bool),
}

pub(super) async fn apply<E: Environment>(ctx: &Context<'_, E>, change: Change) -> Changed {
    let result = match &change {
        Change::Refused => lower(ctx).await.map(|()| Changed::Done),
        Change::Hold { campaign, reason, detail } => {
            hold(ctx, campaign.as_deref(), *reason, detail).await.map(|()| Changed::Done)
        }
        Change::Advance { through } => {
            ctx.env.ledger().advance(&ctx.token, *through).await.map(Changed::Advanced)
        }
    };
    result.unwrap_or_else(|error| {
        let what = change.name();
        tracing::error!(what, error = &error as &dyn StdError, "not changed in the ledger");
        match change {
            Change::Advance { .. } => Changed::Advanced(false),
            Change::Refused | Change::Hold { .. } => Changed::Done,
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

async fn hold<E: Environment>(
    ctx: &Context<'_, E>,
    campaign: Option<&str>,
    reason: HoldReason,
    detail: &str,
) -> Result<(), PortError> {
    let ledger = ctx.env.ledger();
    for _ in 0..TRIES {
        let standing = ledger.read().await?;
        let mut control = standing.control;
        let hold = Hold { reason, detail: detail.to_owned(), since: ctx.now().to_string() };
        let held = match campaign {
            Some(name) => control.campaign_holds.contains_key(name),
            None => control.hold.is_some(),
        };
        if held {
            return Ok(());
        }
        match campaign {
            Some(name) => drop(control.campaign_holds.insert(name.to_owned(), hold)),
            None => control.hold = Some(hold),
        }
        if ledger.set_control(standing.control_version, &control).await? {
            // Not the detail: SES names addresses in it. It stands in the control record.
            tracing::error!(campaign, ?reason, "sending is held");
            return Ok(());
        }
    }
    Ok(())
}
