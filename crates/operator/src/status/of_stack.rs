//! The facts of a stack, from which its status and its dashboard follow.

use crate::redact::AddressVisibility;
use crate::status::{StackFacts, StatusSettings, gather, other_queues};
use tidegate_adapters::aws::stack::Stack;
use tidegate_delivery::ports::{Clock as _, PortError};

/// Reads the state of a stack, with the newest `changes` changes that operators made.
///
/// # Errors
/// [`PortError`] of ledger or queues.
pub async fn facts(
    stack: &Stack,
    addresses: AddressVisibility,
    changes: usize,
) -> Result<StackFacts, PortError> {
    let read = stack.standing().await?;
    let settings =
        StatusSettings::of(&stack.label(), &stack.poller, &stack.scheduler, addresses, changes);
    let (queues, account) = (stack.queues(), stack.account());
    let ledger = stack.ledger();
    let places = other_queues(&stack.poller);
    gather(settings, read, &places, &queues, &account, &ledger, &stack.clock()).await
}

/// Reads the ledger again, and takes everything else from `before`.
pub(crate) async fn facts_after(
    stack: &Stack,
    before: &StackFacts,
) -> Result<StackFacts, PortError> {
    let (standing, campaigns) = stack.standing().await?;
    Ok(StackFacts { at: stack.clock().wall(), standing, campaigns, ..before.clone() })
}
