//! Settling: what received messages become, in batches. A message is deleted from where it stands
//! only after SES took it, or after it stands, acknowledged, in its next queue.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::time::Duration;

use futures_channel::mpsc::UnboundedReceiver;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, select_biased};

use crate::ports::{Entry, Outgoing, PortError, QueueUrl, Queues};

/// SQS's most entries in one batch.
pub(super) const BATCH: usize = 10;
/// SQS's limit of a batch, in bytes.
pub(super) const BATCH_BYTES: usize = 1_048_576;

/// What is to become of a received message.
#[derive(Debug)]
pub(super) enum Job {
    /// SES took it, or it stands in its next queue.
    Delete(Receipt),
    /// It goes to another queue, then is deleted here.
    Move { to: QueueUrl, message: Box<Outgoing>, from: Receipt },
    /// The same without waiting for a batch to fill: its delay counts from now.
    MoveNow { to: QueueUrl, message: Box<Outgoing>, from: Receipt },
    /// It becomes visible again after so many whole seconds.
    Show(Receipt, Duration),
}

/// Where a received message stands.
#[derive(Clone, Debug)]
pub(super) struct Receipt {
    pub(super) queue: QueueUrl,
    pub(super) handle: String,
    /// Whether it takes room in the poller's buffer until it is settled.
    pub(super) buffered: bool,
}

/// What settling came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settled {
    pub(super) deleted: u64,
    pub(super) moved: u64,
    /// Deletes that failed: the message comes again after its visibility timeout.
    pub(super) delete_failed: u64,
    /// Moves that failed: the message stays where it is.
    pub(super) move_failed: u64,
}

/// Settles what comes through `jobs` until it is closed and all is done. `buffered` counts the
/// messages that take room in the buffer.
pub(super) async fn settle(
    queues: &impl Queues,
    mut jobs: UnboundedReceiver<Job>,
    buffered: &Cell<usize>,
) -> Settled {
    let mut pending = Pending::default();
    let mut batches = FuturesUnordered::new();
    let mut settled = Settled::default();
    let mut open = true;
    loop {
        for batch in pending.full(!open) {
            batches.push(run(queues, batch));
        }
        if !open && batches.is_empty() {
            return settled;
        }
        if open {
            select_biased! {
                (batch, result) = batches.select_next_some() =>
                    finish(batch, result, &mut pending, &mut settled, buffered),
                job = jobs.next().fuse() => match job {
                    Some(job) => pending.push(job),
                    None => open = false,
                },
            }
        } else if let Some((batch, result)) = batches.next().await {
            finish(batch, result, &mut pending, &mut settled, buffered);
        }
    }
}

/// Jobs that wait for their batch to fill.
#[derive(Default)]
struct Pending {
    deletes: BTreeMap<QueueUrl, Vec<Receipt>>,
    shows: BTreeMap<(QueueUrl, Duration), Vec<Receipt>>,
    moves: BTreeMap<QueueUrl, Vec<(Outgoing, Receipt)>>,
    urgent: BTreeSet<QueueUrl>,
}

enum Batch {
    Delete(QueueUrl, Vec<Receipt>),
    Show(QueueUrl, Duration, Vec<Receipt>),
    Move(QueueUrl, Vec<(Outgoing, Receipt)>),
}

impl Batch {
    const fn queue(&self) -> &QueueUrl {
        let (Self::Delete(queue, _) | Self::Show(queue, ..) | Self::Move(queue, _)) = self;
        queue
    }
}

impl Pending {
    fn push(&mut self, job: Job) {
        match job {
            Job::Delete(receipt) => {
                self.deletes.entry(receipt.queue.clone()).or_default().push(receipt);
            }
            Job::Show(receipt, after) => {
                self.shows.entry((receipt.queue.clone(), after)).or_default().push(receipt);
            }
            Job::Move { to, message, from } => {
                self.moves.entry(to).or_default().push((*message, from));
            }
            Job::MoveNow { to, message, from } => {
                self.urgent.insert(to.clone());
                self.moves.entry(to).or_default().push((*message, from));
            }
        }
    }

    /// Takes the batches that are full, or all of them.
    fn full(&mut self, all: bool) -> Vec<Batch> {
        let mut batches = Vec::new();
        for (queue, receipts) in &mut self.deletes {
            while receipts.len() >= BATCH || (all && !receipts.is_empty()) {
                let rest = receipts.split_off(receipts.len().min(BATCH));
                batches.push(Batch::Delete(queue.clone(), std::mem::replace(receipts, rest)));
            }
        }
        for ((queue, after), receipts) in &mut self.shows {
            while receipts.len() >= BATCH || (all && !receipts.is_empty()) {
                let rest = receipts.split_off(receipts.len().min(BATCH));
                batches.push(Batch::Show(queue.clone(), *after, std::mem::replace(receipts, rest)));
            }
        }
        for (queue, moves) in &mut self.moves {
            let bytes: usize = moves.iter().map(|(message, _)| message.bytes()).sum();
            let urgent = self.urgent.remove(queue);
            if moves.len() >= BATCH || bytes > BATCH_BYTES || urgent || all {
                let packed = pack(take(moves), |(message, _)| message.bytes());
                batches.extend(packed.into_iter().map(|moves| Batch::Move(queue.clone(), moves)));
            }
        }
        batches
    }
}

/// Packs entries, in order, into batches of at most 10 entries and 1 MiB.
pub(crate) fn pack<T>(entries: Vec<T>, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut batches: Vec<Vec<T>> = Vec::new();
    let mut used = 0;
    for entry in entries {
        let size = bytes(&entry);
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && used + size <= BATCH_BYTES => {
                used += size;
                batch.push(entry);
            }
            _ => {
                used = size;
                batches.push(vec![entry]);
            }
        }
    }
    batches
}

async fn run(queues: &impl Queues, batch: Batch) -> (Batch, Result<Vec<Entry>, PortError>) {
    let receipts = |all: &[Receipt]| all.iter().map(|r| r.handle.clone()).collect::<Vec<_>>();
    let result = match &batch {
        Batch::Delete(queue, all) => queues.delete(queue, &receipts(all)).await,
        Batch::Show(queue, after, all) => {
            queues.set_visibility(queue, &receipts(all), *after).await
        }
        Batch::Move(to, moves) => {
            let messages: Vec<Outgoing> =
                moves.iter().map(|(message, _)| message.clone()).collect();
            queues.send(to, &messages).await
        }
    };
    (batch, result)
}

fn finish(
    batch: Batch,
    result: Result<Vec<Entry>, PortError>,
    pending: &mut Pending,
    settled: &mut Settled,
    buffered: &Cell<usize>,
) {
    let entries = result.unwrap_or_else(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "batch failed");
        Vec::new()
    });
    let done = |index: usize| matches!(entries.get(index), Some(Ok(())));
    let mut free = |receipt: &Receipt| {
        buffered.set(buffered.get().saturating_sub(usize::from(receipt.buffered)));
    };
    for (index, entry) in entries.iter().enumerate() {
        if let Err(error) = entry {
            let queue = batch.queue().as_str();
            tracing::warn!(index, queue, %error, "entry of a batch refused");
        }
    }
    match batch {
        Batch::Delete(_, receipts) => {
            for (index, receipt) in receipts.iter().enumerate() {
                free(receipt);
                let count =
                    if done(index) { &mut settled.deleted } else { &mut settled.delete_failed };
                *count += 1;
            }
        }
        Batch::Show(_, _, receipts) => receipts.iter().for_each(&mut free),
        Batch::Move(_, moves) => {
            for (index, (_, receipt)) in moves.into_iter().enumerate() {
                if done(index) {
                    settled.moved += 1;
                    pending.push(Job::Delete(receipt));
                } else {
                    settled.move_failed += 1;
                    free(&receipt);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_ten_entries_and_a_mebibyte_and_keep_the_order() {
        let sizes = [600_000, 500_000, 400_000, 100_000, 60_000];
        assert_eq!(
            pack(sizes.to_vec(), |size| *size),
            [vec![600_000], vec![500_000, 400_000, 100_000], vec![60_000]]
        );
        let many = pack((0..25).collect(), |_| 1);
        assert_eq!(many.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 5]);
        assert_eq!(many.concat(), (0..25).collect::<Vec<_>>());
    }
}
