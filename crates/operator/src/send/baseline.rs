//! The state of the queues and the ledger before a run.

use tidegate_core::counters::Counter;
use tidegate_core::runs::Baseline;
use tidegate_delivery::ports::{Ledger, PortError, QueueUrl, Queues};

/// Reads the depths and counters before a run, for its journal; `tidegate results` compares later
/// values with them. `own` are the campaign's queues, `shared` those on which mails of all
/// campaigns wait.
pub async fn baseline(
    queues: &impl Queues,
    ledger: &impl Ledger,
    campaign: &str,
    own: &[QueueUrl],
    shared: &[QueueUrl],
) -> Result<Baseline, PortError> {
    let standing = ledger.read().await?;
    let counters = standing.counters;
    let (mut queued, mut merging) = (0, 0);
    for queue in own {
        queued += queues.depth(queue).await?.all();
    }
    for queue in shared {
        merging += queues.depth(queue).await?.all();
    }
    Ok(Baseline {
        sent: Counter::Sent.sum_of(campaign, &counters),
        possibly_sent: Counter::PossiblySent.sum(&counters),
        queued,
        merging,
        dead: Counter::Dead.sum_of(campaign, &counters),
        cancelled: Counter::Cancelled.sum_of(campaign, &counters),
        excluded: Counter::Excluded.sum_of(campaign, &counters),
        cancelled_at: standing.control.cancels.get(campaign).map(|cancel| cancel.at),
    })
}
