//! Settling: the end of every received message, in batches of 10. A message is deleted from its queue only
//! after SES accepted it, or after its next queue acknowledged it.
//!
//! A failed delete is tried again as long as the poller has time (until 8.5 s after the window's close):
//! otherwise the mail becomes visible after its visibility timeout and is sent twice. No other call is
//! repeated. A move whose answer was lost may stand in its next queue already, and a move that failed
//! leaves the mail where it is. Making a message visible twice could show it while the next poller sends
//! it.
//!
//! Example of a delete batch of 10: SQS answers "internal error" for two entries and "receipt handle is
//! invalid" for one. Seven are deleted, one counts as failed at once, since the same call would fail again;
//! two are tried again after 50 ms, then after 100, 200, 400, 800 ms, and every second from then on.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{replace, take};
use std::time::Duration;

use futures_channel::mpsc::UnboundedReceiver;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, select_biased};
use tidegate_core::config::MOVED;
use tidegate_core::counters::Counter;

use super::context::Context;
use crate::ports::{
    BATCH, BATCH_BYTES, Clock as _, Entry, Environment, Outgoing, PortError, QueueUrl, Queues as _,
};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A message's next step, once its outcome is known.
#[derive(Debug)]
pub(super) enum Job {
    /// SES accepted it, or its next queue acknowledged it: delete it.
    Delete(Receipt),
    /// Send it to another queue, if `at_once` without waiting for a batch to fill; delete it here once that queue
    /// acknowledged it.
    Move { to: QueueUrl, message: Box<Outgoing>, from: Receipt, at_once: bool },
    /// Make it visible again after this many whole seconds; 0 is at once.
    Show(Receipt, Duration),
}

/// A received message's queue and SQS's handle of it.
#[derive(Clone, Debug)]
pub(super) struct Receipt {
    pub(super) queue: QueueUrl,
    pub(super) handle: String,
    /// Whether it counts in the drain's `buffered` until it is settled.
    pub(super) buffered: bool,
}

/// Settles the messages that come through `jobs`, until it is closed and every call has ended.
pub(super) async fn settle<E: Environment>(ctx: &Context<'_, E>, mut jobs: UnboundedReceiver<Job>) {
    let mut state = Settlement { ctx, pending: Pending::default() };
    let mut batches = FuturesUnordered::new();
    let mut open = true;
    loop {
        // Only full batches go out while more may come; the rest goes out once `jobs` is closed. A move
        // that ends adds a delete, which the next round finds.
        for batch in state.pending.full(!open) {
            batches.push(run(ctx, batch));
        }
        if !open && batches.is_empty() {
            return;
        }
        let ended = if open {
            select_biased! {
                ended = batches.select_next_some() => Some(ended),
                job = jobs.next().fuse() => {
                    open = job.is_some();
                    if let Some(job) = job {
                        state.pending.push(job);
                    }
                    // What was decided at the same moment goes into the same batch.
                    while let Some(Some(job)) = jobs.next().now_or_never() {
                        state.pending.push(job);
                    }
                    None
                }
            }
        } else {
            batches.next().await
        };
        if let Some((batch, result)) = ended {
            let again = state.finish(batch, &result);
            batches.extend(again.map(|batch| run(ctx, batch)));
        }
    }
}

#[derive(Default)]
struct Pending {
    deletes: BTreeMap<QueueUrl, Vec<Receipt>>,
    shows: BTreeMap<(QueueUrl, Duration), Vec<Receipt>>,
    moves: BTreeMap<QueueUrl, Vec<(Outgoing, Receipt)>>,
    urgent: BTreeSet<QueueUrl>,
}

enum Batch {
    /// The number counts the failed tries before this one.
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

/// Pause before a delete that failed `tries` times is tried again: 50, 100, 200, 400, 800 ms, then 1 s.
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
            Job::Move { to, message, from, at_once } => {
                if at_once {
                    self.urgent.insert(to.clone());
                }
                self.moves.entry(to).or_default().push((*message, from));
            }
        }
    }

    /// Takes the batches that are full; if `all`, every job that waits.
    fn full(&mut self, all: bool) -> Vec<Batch> {
        let mut batches = Vec::new();
        for (queue, receipts) in &mut self.deletes {
            while receipts.len() >= BATCH || (all && !receipts.is_empty()) {
                let rest = receipts.split_off(receipts.len().min(BATCH));
                batches.push(Batch::Delete(queue.clone(), replace(receipts, rest), 0));
            }
        }
        for ((queue, after), receipts) in &mut self.shows {
            // At once means at once: the next window's poller waits for it.
            let all = all || after.is_zero();
            while receipts.len() >= BATCH || (all && !receipts.is_empty()) {
                let rest = receipts.split_off(receipts.len().min(BATCH));
                batches.push(Batch::Show(queue.clone(), *after, replace(receipts, rest)));
            }
        }
        let bodies = self.moves.values().flatten().map(|(message, _)| message.bytes());
        // The bodies of waiting moves occupy memory that receives need: above 1 MiB in all, none waits for
        // its batch to fill.
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

/// Packs entries, in order, into batches of at most 10 entries and 1 MiB; a larger entry gets a batch of
/// its own.
///
/// Example: 600,000, 500,000, 400,000, 100,000 and 60,000 bytes become three batches: the first alone (with
/// the second it would exceed 1,048,576), the next three (1,000,000 together), and the last.
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
    let queues = &ctx.env.queues;
    let result = match &batch {
        Batch::Delete(queue, all, tries) => {
            if *tries > 0 {
                ctx.env.clock.sleep_until(ctx.monotonic() + pause(*tries)).await;
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

struct Settlement<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    pending: Pending,
}

impl<E: Environment> Settlement<'_, E> {
    /// Notes how a batch ended. Returns the deletes to try again: those whose error may pass, if there is time for it.
    fn finish(&mut self, batch: Batch, result: &Result<Vec<Entry>, PortError>) -> Option<Batch> {
        let ctx = self.ctx;
        log_failures(batch.queue(), result);
        let done = |index| result.as_ref().is_ok_and(|all| matches!(all.get(index), Some(Ok(()))));
        match batch {
            Batch::Delete(queue, receipts, tries) => {
                // The pause must end, and the call begin, by `MOVED`: 2 s are left for it.
                let in_time = ctx.monotonic() + pause(tries + 1) <= ctx.after_close(MOVED);
                let mut again = Vec::new();
                for (index, mut receipt) in receipts.into_iter().enumerate() {
                    // SES, or the next queue, has the mail whatever becomes of the delete: the drain may
                    // receive another in its place.
                    self.free(&mut receipt);
                    if done(index) {
                        continue;
                    }
                    if in_time && may_pass(result, index) {
                        again.push(receipt);
                    } else {
                        ctx.count(Counter::DeleteFailed, 1);
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
                        // The next queue acknowledged it: only now may it be deleted here.
                        self.pending.push(Job::Delete(receipt));
                    } else {
                        ctx.count(Counter::MoveFailed, 1);
                        self.free(&mut receipt);
                    }
                }
            }
        }
        None
    }

    /// Gives the message's place in the drain's buffer free, once.
    fn free(&self, receipt: &mut Receipt) {
        if take(&mut receipt.buffered) {
            self.ctx.free();
        }
    }
}

/// Whether entry `index` of a batch may succeed at the next try; an entry without an answer may.
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
