//! The state of the queues and the ledger before a run.

use tidegate_delivery::ports::{Ledger, PortError, QueueDepth, QueueUrl, Queues};

use super::journal::Baseline;

/// Reads the depths and counters before a run, for its journal; `tidegate reconcile` compares later
/// values with them.
pub async fn baseline(
    queues: &impl Queues,
    ledger: &impl Ledger,
    campaign: &str,
    queue: &QueueUrl,
    merge: Option<&QueueUrl>,
) -> Result<Baseline, PortError> {
    let counters = ledger.read().await?.counters;
    let counter = |name: &str| counters.get(name).copied().unwrap_or(0);
    let all = |depth: QueueDepth| depth.visible + depth.in_flight + depth.delayed;
    let queued = all(queues.depth(queue).await?);
    let merging = match merge {
        Some(merge) => all(queues.depth(merge).await?),
        None => 0,
    };
    Ok(Baseline {
        sent: counter(&format!("sent.{campaign}")),
        possibly_sent: counter("possibly_sent"),
        queued,
        merging,
    })
}
