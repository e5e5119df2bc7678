//! Changing the control record: written where nobody else came first, else changed anew on what
//! stands then.

use tidegate_core::control::{Control, Holds};

use crate::ports::{Ledger, PortError};

/// What came of a change.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one a change, read where it is made")]
pub enum ChangeOutcome {
    /// It was made.
    Made {
        /// What stood before.
        before: Control,
        /// What stands now.
        after: Control,
    },
    /// There was nothing to change.
    Nothing,
    /// Others always came first: it was not made.
    Outrun,
}

impl ChangeOutcome {
    /// What stood before and what stands now, where it was made.
    pub fn made(self) -> Option<(Control, Control)> {
        match self {
            Self::Made { before, after } => Some((before, after)),
            Self::Nothing | Self::Outrun => None,
        }
    }
}

/// How often a change is tried anew.
const TRIES: usize = 4;

/// Applies `change` to the control record, first to the one that was read before, with its version.
/// Holds that come and go are logged.
///
/// # Errors
/// [`PortError`]; then it may have been made all the same.
pub async fn change(
    ledger: &impl Ledger,
    (mut version, mut before): (u64, Control),
    change: impl Fn(&mut Control),
) -> Result<ChangeOutcome, PortError> {
    for _ in 0..TRIES {
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(ChangeOutcome::Nothing);
        }
        if ledger.set_control(version, &after).await? {
            log_holds(&before, &after);
            return Ok(ChangeOutcome::Made { before, after });
        }
        let standing = ledger.read().await?;
        (version, before) = (standing.control_version, standing.control);
    }
    tracing::warn!(tries = TRIES, "control record not changed: others were faster each time");
    Ok(ChangeOutcome::Outrun)
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
