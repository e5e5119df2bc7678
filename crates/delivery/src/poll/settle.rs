//! Settling: what received messages become, in batches. A message is deleted from where it stands
//! only after SES took it, or after it stands, acknowledged, in its next queue.
//!
//! A delete that failed is tried again while the poller has time for it: otherwise the mail comes back after
//! its visibility timeout and is sent twice. Of the other calls none is repeated. A move whose answer was
//! lost may stand in its next queue already, and one that failed leaves the mail where it is. Making a
//! message visible twice could show it while the next poller sends it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::time::Duration;

use futures_channel::mpsc::UnboundedReceiver;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, select_biased};
use tidegate_core::config::MOVED;

use super::context::Context;
use crate::environment::Environment;
use crate::ports::{Clock as _, Entry, Outgoing, PortError, QueueUrl, Queues as _};

/// SQS's most entries in one batch.
pub(super) const BATCH: usize = 10;
/// SQS's limit of a batch, in bytes.
pub(super) const BATCH_BYTES: usize = 1_048_576;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

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
pub(super) struct SettleCounts {
    pub(super) deleted: u64,
    pub(super) moved: u64,
    /// Deletes that failed to the last: the message comes again after its visibility timeout.
    pub(super) delete_failed: u64,
    /// Moves that failed: the message stays where it is.
    pub(super) move_failed: u64,
}

/// Settles what comes through `jobs` until it is closed and all is done. `buffered` counts the
/// messages that take room in the buffer.
pub(super) async fn settle<E: Environment>(
    ctx: &Context<'_, E>,
    mut jobs: UnboundedReceiver<Job>,
    buffered: &Cell<usize>,
) -> SettleCounts {
    let mut state =
        Settlement { pending: Pending::default(), settled: SettleCounts::default(), buffered };
    let mut batches = FuturesUnordered::new();
    let mut open = true;
    loop {
        for batch in state.pending.full(!open) {
            batches.push(run(ctx, batch));
        }
        if !open && batches.is_empty() {
            return state.settled;
        }
        let ended = if open {
            select_biased! {
                ended = batches.select_next_some() => Some(ended),
                job = jobs.next().fuse() => {
                    match job {
                        Some(job) => state.pending.push(job),
                        None => open = false,
                    }
                    None
                }
            }
        } else {
            batches.next().await
        };
        if let Some((batch, result)) = ended {
            let in_time = |pause| ctx.monotonic() + pause <= ctx.after_close(MOVED);
            let again = state.finish(batch, &result, in_time);
            batches.extend(again.map(|batch| run(ctx, batch)));
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
    /// Tried so often before, without success.
    Delete(QueueUrl, Vec<Receipt>, u32),
    Show(QueueUrl, Duration, Vec<Receipt>),
    Move(QueueUrl, Vec<(Outgoing, Receipt)>),
}

impl Batch {
    const fn queue(&self) -> &QueueUrl {
        let (Self::Delete(queue, ..) | Self::Show(queue, ..) | Self::Move(queue, _)) = self;
        queue
    }
}

/// How long a delete that was tried `tries` times in vain is left before it is tried again: 50 ms,
/// doubling, at most 1 s.
fn pause(tries: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(LONGEST_PAUSE)
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
                batches.push(Batch::Delete(queue.clone(), std::mem::replace(receipts, rest), 0));
            }
        }
        for ((queue, after), receipts) in &mut self.shows {
            while receipts.len() >= BATCH || (all && !receipts.is_empty()) {
                let rest = receipts.split_off(receipts.len().min(BATCH));
                batches.push(Batch::Show(queue.clone(), *after, std::mem::replace(receipts, rest)));
            }
        }
        let bodies = self.moves.values().flatten().map(|(message, _)| message.bytes());
        // They take room that mail to be sent could have.
        let crowded = bodies.sum::<usize>() > BATCH_BYTES;
        for (queue, moves) in &mut self.moves {
            let urgent = self.urgent.remove(queue);
            if moves.len() >= BATCH || crowded || urgent || all {
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

async fn run<E: Environment>(
    ctx: &Context<'_, E>,
    batch: Batch,
) -> (Batch, Result<Vec<Entry>, PortError>) {
    let receipts = |all: &[Receipt]| all.iter().map(|r| r.handle.clone()).collect::<Vec<_>>();
    let queues = ctx.queues();
    let result = match &batch {
        Batch::Delete(queue, all, tries) => {
            if *tries > 0 {
                ctx.env.clock().sleep_until(ctx.monotonic() + pause(*tries)).await;
            }
            queues.delete(queue, &receipts(all)).await
        }
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

struct Settlement<'a> {
    pending: Pending,
    settled: SettleCounts,
    buffered: &'a Cell<usize>,
}

impl Settlement<'_> {
    /// Notes how a batch ended; gives the deletes that are to be tried again, where a call that begins
    /// after a pause is `in_time`.
    fn finish(
        &mut self,
        batch: Batch,
        result: &Result<Vec<Entry>, PortError>,
        in_time: impl Fn(Duration) -> bool,
    ) -> Option<Batch> {
        log_failures(batch.queue(), result);
        let done = |index| result.as_ref().is_ok_and(|all| matches!(all.get(index), Some(Ok(()))));
        match batch {
            Batch::Delete(queue, receipts, tries) => {
                let in_time = in_time(pause(tries + 1));
                let mut again = Vec::new();
                for (index, mut receipt) in receipts.into_iter().enumerate() {
                    self.free(&mut receipt);
                    if done(index) {
                        self.settled.deleted += 1;
                    } else if in_time && may_pass(result, index) {
                        again.push(receipt);
                    } else {
                        self.settled.delete_failed += 1;
                    }
                }
                return (!again.is_empty()).then(|| Batch::Delete(queue, again, tries + 1));
            }
            Batch::Show(_, _, receipts) => {
                for mut receipt in receipts {
                    self.free(&mut receipt);
                }
            }
            Batch::Move(_, moves) => {
                for (index, (_, mut receipt)) in moves.into_iter().enumerate() {
                    if done(index) {
                        self.settled.moved += 1;
                        self.pending.push(Job::Delete(receipt));
                    } else {
                        self.settled.move_failed += 1;
                        self.free(&mut receipt);
                    }
                }
            }
        }
        None
    }

    /// Its room in the buffer is another message's.
    fn free(&self, receipt: &mut Receipt) {
        let buffered = usize::from(std::mem::take(&mut receipt.buffered));
        self.buffered.set(self.buffered.get().saturating_sub(buffered));
    }
}

/// Whether what failed at `index` of a batch may succeed when it is tried again.
fn may_pass(result: &Result<Vec<Entry>, PortError>, index: usize) -> bool {
    match result {
        Ok(entries) => !matches!(entries.get(index), Some(Err(error)) if !error.may_pass()),
        Err(error) => error.kind.may_pass(),
    }
}

fn log_failures(queue: &QueueUrl, result: &Result<Vec<Entry>, PortError>) {
    let queue = queue.as_str();
    match result {
        Ok(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                if let Err(error) = entry {
                    tracing::warn!(index, queue, %error, "entry of a batch refused");
                }
            }
        }
        Err(error) => tracing::error!(error = error as &dyn std::error::Error, "batch failed"),
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
