//! The state of the queues and the ledger before a run.

use tidegate_core::counters::Counter;
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
    let all = |depth: QueueDepth| depth.visible + depth.in_flight + depth.delayed;
    let queued = all(queues.depth(queue).await?);
    let merging = match merge {
        Some(merge) => all(queues.depth(merge).await?),
        None => 0,
    };
    Ok(Baseline {
        sent: Counter::Sent.sum_of(campaign, &counters),
        possibly_sent: Counter::PossiblySent.sum(&counters),
        queued,
        merging,
    })
}
