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
use std::error::Error as StdError;
use std::mem::{replace, take};
use std::time::Duration;

use futures_channel::mpsc::UnboundedReceiver;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _, select_biased};
use tidegate_core::config::MOVED;
use tidegate_core::counters::Counter;
use tidegate_core::events::MailFate;

use super::context::Context;
use crate::ports::{
    BATCH, BATCH_BYTES, Clock as _, Entry, Environment, Outgoing, PortError, QueueUrl, Queues as _,
    Store as _,
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
    /// The key of the object in the store that is deleted once the message is.
    pub(super) object: Option<String>,
    /// Whether it counts in the drain's `buffered` until it is settled.
    pub(super) buffered: bool,
    /// The mail's fate once this is done, if SES was not given it.
    pub(super) fate: Option<Box<MailFate>>,
}

impl Job {
    /// The same job, which is the end of a mail that SES was not given.
    pub(super) fn with_fate(mut self, fate: MailFate) -> Self {
        let (Self::Delete(receipt) | Self::Move { from: receipt, .. } | Self::Show(receipt, _)) =
            &mut self;
        receipt.fate = Some(Box::new(fate));
        self
    }
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
    entries: BTreeMap<Call, Vec<Pended>>,
    /// The queues to which a move may not wait for its batch to fill.
    urgent: BTreeSet<QueueUrl>,
}

/// The call that a batch makes: to delete, show again, or move to a queue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Delete(QueueUrl),
    Show(QueueUrl, Duration),
    Move(QueueUrl),
}

/// A message in a batch, and what a move sends of it.
struct Pended {
    receipt: Receipt,
    message: Option<Outgoing>,
}

impl Pended {
    fn bytes(&self) -> usize {
        self.message.as_ref().map_or(0, Outgoing::bytes)
    }
}

struct Batch {
    call: Call,
    entries: Vec<Pended>,
    /// The failed tries before this one.
    tries: u32,
}

impl Call {
    const fn queue(&self) -> &QueueUrl {
        let (Self::Delete(queue) | Self::Show(queue, _) | Self::Move(queue)) = self;
        queue
    }
}

/// Pause before a delete that failed `tries` times is tried again: 50, 100, 200, 400, 800 ms, then 1 s.
fn pause(tries: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(LONGEST_PAUSE)
}

impl Pending {
    fn push(&mut self, job: Job) {
        let (call, receipt, message) = match job {
            Job::Delete(receipt) => (Call::Delete(receipt.queue.clone()), receipt, None),
            Job::Show(receipt, after) => (Call::Show(receipt.queue.clone(), after), receipt, None),
            Job::Move { to, message, from, at_once } => {
                self.urgent.extend(at_once.then(|| to.clone()));
                (Call::Move(to), from, Some(*message))
            }
        };
        self.entries.entry(call).or_default().push(Pended { receipt, message });
    }

    /// Takes the batches that are full; if `all`, every job that waits.
    fn full(&mut self, all: bool) -> Vec<Batch> {
        // The bodies of waiting moves occupy memory that receives need: above 1 MiB in all, none waits for
        // its batch to fill.
        let moves = self.entries.iter().filter(|(call, _)| matches!(call, Call::Move(_)));
        let bytes = moves.flat_map(|(_, moves)| moves).map(Pended::bytes);
        let crowded = bytes.sum::<usize>() > BATCH_BYTES;
        let mut batches = Vec::new();
        for (call, entries) in &mut self.entries {
            let is_over = match call {
                Call::Delete(_) => false,
                // At once means at once: the next window's poller waits for it.
                Call::Show(_, after) => after.is_zero(),
                Call::Move(to) => {
                    let is_urgent = self.urgent.remove(to);
                    is_urgent || crowded || entries.len() >= BATCH
                }
            };
            let kept = if all || is_over { 0 } else { entries.len() % BATCH };
            let rest = entries.split_off(entries.len() - kept);
            let packed = pack(replace(entries, rest), Pended::bytes).into_iter();
            batches.extend(packed.map(|entries| Batch { call: call.clone(), entries, tries: 0 }));
        }
        batches
    }
}

/// Packs entries, in order, into batches of at most 10 entries and 1 MiB; a larger entry gets a batch of
/// its own.
///
/// Example: 600,000, 500,000, 400,000, 100,000 and 60,000 bytes become three batches: the first alone (with
/// the second it would exceed 1,048,576), the next three (1,000,000 together), and the last.
pub fn pack<T>(entries: Vec<T>, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
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
    let queues = &ctx.env.queues;
    let receipts = || batch.entries.iter().map(|e| e.receipt.handle.clone()).collect::<Vec<_>>();
    let result = match &batch.call {
        Call::Delete(queue) => {
            if batch.tries > 0 {
                ctx.env.clock.sleep_until(ctx.monotonic() + pause(batch.tries)).await;
            }
            let deleted = queues.delete(queue, &receipts()).await;
            delete_objects(ctx, &batch.entries, &deleted).await;
            deleted
        }
        Call::Show(queue, after) => queues.set_visibility(queue, &receipts(), *after).await,
        Call::Move(to) => {
            let messages = batch.entries.iter().filter_map(|entry| entry.message.clone());
            queues.send(to, &messages.collect::<Vec<Outgoing>>()).await
        }
    };
    (batch, result)
}

/// Deletes the objects of messages that are deleted. One that stays is removed by the bucket's lifecycle.
async fn delete_objects<E: Environment>(
    ctx: &Context<'_, E>,
    entries: &[Pended],
    deleted: &Result<Vec<Entry>, PortError>,
) {
    let (Some(store), Ok(deleted)) = (&ctx.env.store, deleted) else { return };
    let gone = entries.iter().zip(deleted).filter(|(_, deleted)| deleted.is_ok());
    let keys = gone.filter_map(|(entry, _)| entry.receipt.object.as_deref());
    let calls = join_all(keys.map(|key| store.delete(key)));
    for failed in ctx.within(MOVED, calls).await.unwrap_or_default() {
        if let Err(error) = failed {
            tracing::warn!(error = &error as &dyn StdError, "a sent mail's content stays");
        }
    }
}

struct Settlement<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    pending: Pending,
}

impl<E: Environment> Settlement<'_, E> {
    /// Notes how a batch ended. Returns the deletes to try again: those whose error may pass, if there is time for it.
    fn finish(&mut self, batch: Batch, result: &Result<Vec<Entry>, PortError>) -> Option<Batch> {
        let (ctx, Batch { call, entries, tries }) = (self.ctx, batch);
        log_failures(call.queue(), result);
        let done = |index| result.as_ref().is_ok_and(|all| matches!(all.get(index), Some(Ok(()))));
        // The pause must end, and the call begin, by `MOVED`: 2 s are left for it.
        let in_time = ctx.monotonic() + pause(tries + 1) <= ctx.after_close(MOVED);
        let mut again = Vec::new();
        for (index, Pended { mut receipt, .. }) in entries.into_iter().enumerate() {
            if done(index)
                && let Some(fate) = receipt.fate.take()
            {
                ctx.note_fate(*fate);
            }
            if matches!(call, Call::Move(_)) && done(index) {
                // The next queue acknowledged it: only now may it be deleted here.
                self.pending.push(Job::Delete(receipt));
                continue;
            }
            // Whatever becomes of a delete, SES or the next queue has the mail: the drain may receive another in its
            // place.
            self.free(&mut receipt);
            match call {
                Call::Move(_) => ctx.count(Counter::MoveFailed, 1),
                Call::Delete(_) if !done(index) => {
                    if in_time && may_pass(result, index) {
                        again.push(Pended { receipt, message: None });
                    } else {
                        ctx.count(Counter::DeleteFailed, 1);
                    }
                }
                Call::Delete(_) | Call::Show(..) => {}
            }
        }
        (!again.is_empty()).then(|| Batch { call, entries: again, tries: tries + 1 })
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
        Err(error) => tracing::error!(error = error as &dyn StdError, "batch failed"),
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
