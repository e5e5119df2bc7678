//! Changes the control record by optimistic locking: a write names the version that it read. If another
//! write came first, the change is applied again to the newer record.

use tidegate_core::control::{Cancel, Control, HoldReason, Holds};
use tidegate_core::identity::EpochMillis;

use crate::ports::{Ledger, PortError};

/// The result of [`change`]: made, nothing to change, or given up.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one a change, read where it is made")]
pub enum ChangeOutcome {
    /// The record was changed and written.
    Made {
        /// The record before the change, as it was last read.
        before: Control,
        /// The record after the change, as it was written.
        after: Control,
    },
    /// The change left the record as it was, so nothing was written.
    Nothing,
    /// Other writes came first in all of 4 tries: nothing was written.
    Outrun,
}

impl ChangeOutcome {
    /// The records before and after, if the change was made.
    pub fn made(self) -> Option<(Control, Control)> {
        match self {
            Self::Made { before, after } => Some((before, after)),
            Self::Nothing | Self::Outrun => None,
        }
    }
}

/// The number of times a change is tried before it is given up.
const TRIES: usize = 4;

/// Applies `change` to the control record, first to the version and record passed in, which the caller read
/// before, then to the newer ones. `change` may run up to 4 times. Holds that come and go are logged.
///
/// # Errors
/// [`PortError`] if the ledger does not answer; the change may have been written all the same.
pub async fn change(
    ledger: &impl Ledger,
    mut version: u64,
    mut before: Control,
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

/// Logs the reasons only. The detail may contain addresses, since SES names them in its messages; it is in
/// the control record.
fn log_changes(campaign: Option<&str>, before: &Holds, after: &Holds) {
    let has = |holds: &Holds, reason: &str| holds.reasons().any(|other| other == reason);
    for reason in after.reasons().filter(|reason| !has(before, reason)) {
        tracing::error!(campaign, reason, "sending is held");
    }
    for reason in before.reasons().filter(|reason| !has(after, reason)) {
        tracing::info!(campaign, reason, "hold lifted");
    }
}

/// Cancels what a cancelled run enqueued before it took note: the campaign's cancel moves to `at`, on AWS's clock.
///
/// # Errors
/// [`PortError`] of the ledger.
pub async fn extend_cancel(
    ledger: &impl Ledger,
    campaign: &str,
    at: EpochMillis,
) -> Result<(), PortError> {
    let standing = ledger.read().await?;
    let extended = |control: &mut Control| {
        let cancel = control.cancels.get(campaign).copied().filter(|cancel| cancel.at < at);
        let Some(cancel) = cancel else { return };
        let holds = control.holds_on(Some(campaign));
        let hold = holds.and_then(|holds| holds.get(HoldReason::Cancelled));
        let late = || "what the run enqueued before it took note".to_owned();
        let detail = hold.map_or_else(late, |hold| hold.detail.clone());
        control.cancel(campaign, Cancel { at, ..cancel }, &detail);
    };
    let (version, control) = (standing.control_version, standing.control);
    change(ledger, version, control, extended).await.map(drop)
}
