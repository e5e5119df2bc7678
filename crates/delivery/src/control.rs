//! Changing the control record: written where nobody else came first, else changed anew on what
//! stands then.

use tidegate_core::control::{Control, Holds};

use crate::ports::{Ledger, PortError};

/// How often a change is tried anew.
const TRIES: usize = 4;

/// Applies `change` to the control record, first to the one that was read before, with its version.
/// Gives what stood before and what stands after; none where there was nothing to change, or others
/// always came first. Holds that come and go are logged.
pub(crate) async fn change(
    ledger: &impl Ledger,
    (mut version, mut before): (u64, Control),
    change: impl Fn(&mut Control),
) -> Result<Option<(Control, Control)>, PortError> {
    for _ in 0..TRIES {
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(None);
        }
        if ledger.set_control(version, &after).await? {
            log_holds(&before, &after);
            return Ok(Some((before, after)));
        }
        let standing = ledger.read().await?;
        (version, before) = (standing.control_version, standing.control);
    }
    tracing::warn!(tries = TRIES, "control record not changed: others were faster each time");
    Ok(None)
}

fn log_holds(before: &Control, after: &Control) {
    log_changes(None, &before.holds, &after.holds);
    let none = Holds::default();
    let campaigns = after.campaign_holds.iter();
    for (name, holds) in campaigns {
        log_changes(Some(name), before.campaign_holds.get(name).unwrap_or(&none), holds);
    }
}

/// Not the detail: SES names addresses in it. It stands in the control record.
fn log_changes(campaign: Option<&str>, before: &Holds, after: &Holds) {
    let has = |holds: &Holds, reason: &str| holds.reasons().any(|other| other == reason);
    for reason in after.reasons().filter(|reason| !has(before, reason)) {
        tracing::error!(campaign, reason, "sending is held");
    }
    for reason in before.reasons().filter(|reason| !has(after, reason)) {
        tracing::info!(campaign, reason, "hold lifted");
    }
}
