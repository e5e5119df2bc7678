//! Lifts the holds for SES's tenants, once a minute.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::time::Duration;

use crate::control;
use crate::ports::{Account, Clock, Ledger, Standing};

/// SES allows about one call a second, and a tenant takes two or more.
const BETWEEN_TENANTS: Duration = Duration::from_secs(2);
/// The tenants that one run asks for. If more are held, each run begins at another one.
const A_RUN: usize = 20;

/// Asks SES for each tenant for which a campaign is held, and lifts the holds whose cause is gone; true if it lifted
/// one. Makes no call while none is held.
pub(crate) async fn lift_holds(
    clock: &impl Clock,
    account: &impl Account,
    ledger: &impl Ledger,
    before: &Standing,
) -> bool {
    let asked = clock.wall();
    let held = before.control.held_tenants();
    let minute = usize::try_from(asked.as_millis() / 60_000).unwrap_or(0);
    let first = minute.wrapping_mul(A_RUN) % held.len().max(1);
    let mut found = BTreeMap::new();
    let mut next = clock.monotonic();
    for tenant in held.iter().cycle().skip(first).take(held.len().min(A_RUN)) {
        clock.sleep_until(next).await;
        next = next + BETWEEN_TENANTS;
        match account.tenant(tenant).await {
            Ok(status) => found.extend(status.map(|status| ((*tenant).to_owned(), status))),
            Err(error) => tracing::warn!(
                tenant,
                error = &error as &dyn StdError,
                "SES does not tell the tenant's state: its campaigns stay held"
            ),
        }
    }
    if found.is_empty() {
        return false;
    }
    let (version, control) = (before.control_version, before.control.clone());
    let lifted = control::change(ledger, version, control, |control| {
        control.lift_tenants(&found, asked.into());
    });
    let lifted = lifted.await.inspect_err(|error| {
        tracing::warn!(error = error as &dyn StdError, "holds of tenants are not lifted");
    });
    lifted.is_ok_and(|changed| changed.made().is_some())
}
