//! The facts of a stack, from which its status and its dashboard follow.

use crate::redact::AddressVisibility;
use crate::status::{StackFacts, StatusPorts, StatusSettings, gather, other_queues};
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
    let (standing, campaigns) = stack.standing().await?;
    let settings =
        StatusSettings::of(&stack.label(), &stack.poller, &stack.scheduler, addresses, changes);
    let (queues, account) = (&stack.queues(), &stack.account());
    let (ledger, clock) = (&stack.ledger(), &stack.clock());
    let (places, ports) =
        (other_queues(&stack.poller), StatusPorts { queues, account, ledger, clock });
    gather(settings, standing, campaigns, &places, ports).await
}

/// Reads the ledger again, and takes everything else from `before`.
pub(crate) async fn facts_after(
    stack: &Stack,
    before: &StackFacts,
) -> Result<StackFacts, PortError> {
    let (standing, campaigns) = stack.standing().await?;
    Ok(StackFacts { at: stack.clock().wall(), standing, campaigns, ..before.clone() })
}
