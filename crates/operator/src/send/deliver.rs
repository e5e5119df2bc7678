//! Packs messages into batches of SQS's limits (10 entries, 1 MiB), and puts them on their queue unless that is deeper
//! than allowed. Transient failures are retried until the patience ends.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, Shared, select};
use tidegate_core::in_full;
use tidegate_delivery::ports::{
    BATCH, BATCH_BYTES, Body, Clock, Entropy, EntryError, FailureKind, Monotonic, Outgoing,
    PortError, QueueUrl, Queues, Store,
};

use super::journal::AcknowledgedRows;
use super::progress::{RunEnd, SendProgress};
use tidegate_core::draft::RenderedMessage;

/// The pause before the first retry; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// How long transient failures are retried.
const PATIENCE: Duration = Duration::from_mins(5);

/// A batch, or a part of it, could not be put on its queue.
#[derive(Debug, thiserror::Error)]
enum DeliverError {
    /// The call failed permanently, or for longer than the patience.
    #[error(transparent)]
    Call(#[from] PortError),
    #[error("SQS refused the mail of row {row}")]
    Entry { row: u64, source: EntryError },
}

impl DeliverError {
    fn is_permanent(&self) -> bool {
        match self {
            Self::Call(error) => is_permanent(error),
            Self::Entry { source, .. } => is_refusal(&source.code),
        }
    }
}

/// Whether a retry of a failed call cannot succeed.
fn is_permanent(error: &PortError) -> bool {
    let is_refused = matches!(&error.kind, FailureKind::Refused(code) if is_refusal(code));
    is_refused || !error.kind.may_pass()
}

/// Whether SQS's code says that the request itself is invalid.
pub(crate) fn is_refusal(code: &str) -> bool {
    ["Invalid", "Missing", "Unsupported", "AWS.SimpleQueueService.", "KmsAccess", "KmsDisabled"]
        .iter()
        .any(|prefix| code.starts_with(prefix))
}

#[derive(Debug)]
pub(super) struct BatchReport {
    pub(super) acknowledged: AcknowledgedRows,
    pub(super) bytes: u64,
    pub(super) retries: u64,
    /// Why messages are left that were not accepted; `None` if none are.
    pub(super) ended: Option<RunEnd>,
}

/// The ports that a run needs.
#[derive(Debug)]
pub struct SendPorts<'a, Q, C, E, P, S> {
    pub queues: &'a Q,
    /// For mail that is too large for its queue; `None` without a store.
    pub store: Option<&'a S>,
    pub clock: &'a C,
    /// Randomness, for the pauses between tries.
    pub entropy: &'a E,
    pub progress: &'a P,
}

pub(super) struct Deliverer<'a, Q, C, E, P, S> {
    pub(super) ports: &'a SendPorts<'a, Q, C, E, P, S>,
    pub(super) queue: &'a QueueUrl,
}

impl<Q: Queues, C: Clock, E: Entropy, P: SendProgress, S: Store> Deliverer<'_, Q, C, E, P, S> {
    /// Sends `batch`; stops between two calls when `stop` is ready.
    pub(super) async fn deliver(
        &self,
        batch: Vec<RenderedMessage>,
        stop: Shared<impl Future<Output = ()>>,
    ) -> BatchReport {
        let (mut retries, mut ended) = (0, None);
        let mut done: Vec<RenderedMessage> = Vec::with_capacity(batch.len());
        let mut left = batch;
        let mut failing_since = None;
        loop {
            let (sent, error) = self.attempt(&mut left).await;
            done.extend(sent);
            let Some(error) = error else { break };
            let now = self.ports.clock.monotonic();
            let since = *failing_since.get_or_insert(now);
            if error.is_permanent() || now.saturating_since(since) >= PATIENCE {
                ended = Some(RunEnd::GaveUp(in_full(&error)));
                break;
            }
            self.ports.progress.retrying(&error);
            if self.pause(retries, now, stop.clone()).await {
                ended = Some(RunEnd::Interrupted);
                break;
            }
            retries += 1;
        }
        done.sort_unstable_by_key(|message| message.row);
        let rows = done.iter().map(|message| (message.row, message.id.as_str()));
        BatchReport {
            acknowledged: AcknowledgedRows::of(self.ports.clock.wall().into(), rows),
            bytes: done.iter().map(|message| message.body.len() as u64).sum(),
            retries,
            ended,
        }
    }

    /// Makes one call. Accepted messages are removed from `left` and returned, with the worst error
    /// of the others.
    async fn attempt(
        &self,
        left: &mut Vec<RenderedMessage>,
    ) -> (Vec<RenderedMessage>, Option<DeliverError>) {
        for message in &mut *left {
            if let Some((object, store)) = message.object.as_ref().zip(self.ports.store) {
                if let Err(error) = store.put(&object.key, object.bytes.clone()).await {
                    return (Vec::new(), Some(error.into()));
                }
                message.object = None;
            }
        }
        let outgoing: Vec<Outgoing> = left.iter().map(outgoing).collect();
        let entries = match self.ports.queues.send(self.queue, &outgoing).await {
            Ok(entries) => entries,
            Err(error) => return (Vec::new(), Some(error.into())),
        };
        let unanswered = || {
            let (code, message) = ("NoAnswer".to_owned(), "no answer for this entry".to_owned());
            Err(EntryError { code, message })
        };
        let entries = entries.into_iter().chain(std::iter::repeat_with(unanswered));
        let mut worst: Option<DeliverError> = None;
        let (mut sent, mut kept) = (Vec::new(), Vec::new());
        for (message, entry) in left.drain(..).zip(entries) {
            match entry {
                Ok(()) => sent.push(message),
                Err(source) => {
                    let error = DeliverError::Entry { row: message.row, source };
                    // A permanent error is reported before a transient one: a retry does not help.
                    if worst.as_ref().is_none_or(|known| !known.is_permanent()) {
                        worst = Some(error);
                    }
                    kept.push(message);
                }
            }
        }
        *left = kept;
        (sent, worst)
    }

    /// Waits before the next attempt; returns true if `stop` was ready first.
    async fn pause(
        &self,
        retries: u64,
        now: Monotonic,
        stop: Shared<impl Future<Output = ()>>,
    ) -> bool {
        let doubled = FIRST_PAUSE.saturating_mul(1 << retries.min(10)).min(LONGEST_PAUSE);
        // Jitter: half to all of the pause, so that parallel batches do not retry at the same
        // moment.
        let pause = doubled.mul_f64(0.5 + self.ports.entropy.unit().clamp(0.0, 1.0) / 2.0);
        let sleep = pin!(self.ports.clock.sleep_until(now + pause));
        matches!(select(stop, sleep).await, Either::Left(_))
    }
}

/// The message as a producer sends it: a body without attributes.
fn outgoing(message: &RenderedMessage) -> Outgoing {
    Outgoing::new(Body::from(message.body.as_str()).compress().to_queue())
}

/// SQS bills every begun 64 KiB of a call as one request.
const CHARGED_BYTES: u64 = 65_536;

/// Packs messages, of which only the sizes count, and counts the requests that SQS bills for the batches.
#[derive(Debug)]
pub(super) struct Packer<T> {
    batch: Vec<T>,
    bytes: usize,
    charged: u64,
}

impl<T> Packer<T> {
    pub(super) const fn new() -> Self {
        Self { batch: Vec::new(), bytes: 0, charged: 0 }
    }

    /// Adds a message. Returns the batch before it if the message does not fit into that batch.
    pub(super) fn add(&mut self, message: T, size: usize) -> Option<Vec<T>> {
        let full = self.batch.len() == BATCH || self.bytes + size > BATCH_BYTES;
        let before = if full { self.flush() } else { None };
        self.bytes += size;
        self.batch.push(message);
        before
    }

    pub(super) fn flush(&mut self) -> Option<Vec<T>> {
        (self.charged, self.bytes) = (self.charged(), 0);
        Some(std::mem::take(&mut self.batch)).filter(|batch| !batch.is_empty())
    }

    /// The number of requests that SQS bills for all batches.
    pub(super) fn charged(&self) -> u64 {
        self.charged + (self.bytes as u64).div_ceil(CHARGED_BYTES)
    }
}

/// The queue's depth is read at most this often.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The queue's depth: SQS's last count plus the messages sent since then.
pub(super) struct BacklogLimit<'a, Q, C, E, P, S> {
    deliverer: &'a Deliverer<'a, Q, C, E, P, S>,
    /// The largest depth at which batches are sent; `None` for no limit.
    most: Option<u64>,
    /// The time and the result of the last reading.
    reading: Option<(Monotonic, u64)>,
    sent_since: u64,
    failing_since: Option<Monotonic>,
}

impl<'a, Q: Queues, C: Clock, E: Entropy, P: SendProgress, S: Store>
    BacklogLimit<'a, Q, C, E, P, S>
{
    pub(super) fn new(deliverer: &'a Deliverer<'a, Q, C, E, P, S>, most: Option<u64>) -> Self {
        Self { deliverer, most, reading: None, sent_since: 0, failing_since: None }
    }

    /// Adds messages that are about to be sent to the estimate.
    pub(super) fn add(&mut self, messages: u64) {
        self.sent_since += messages;
    }

    /// Until when no batch may be sent; `None` if one may go. Reads the depth from SQS if needed.
    ///
    /// # Errors
    /// The depth cannot be read, for good or for longer than the patience.
    pub(super) async fn closed_until(&mut self) -> Result<Option<Monotonic>, PortError> {
        let Some(most) = self.most else { return Ok(None) };
        let Deliverer { ports, queue } = self.deliverer;
        let SendPorts { queues, clock, progress, .. } = ports;
        let now = clock.monotonic();
        let mut reading = self.reading.map(|(at, depth)| (at, depth + self.sent_since));
        if reading.is_none_or(|(at, depth)| depth >= most && now >= at + CHECK_INTERVAL) {
            match queues.depth(queue).await {
                Ok(depth) => {
                    reading = Some((now, depth.all()));
                    (self.reading, self.sent_since, self.failing_since) = (reading, 0, None);
                }
                Err(error) => {
                    let since = *self.failing_since.get_or_insert(now);
                    if is_permanent(&error) || now.saturating_since(since) >= PATIENCE {
                        return Err(error);
                    }
                    progress.retrying(&error);
                    // The depth is unknown now, so assume the maximum until the next reading.
                    (self.reading, self.sent_since) = (Some((now, most)), 0);
                    return Ok(Some(now + CHECK_INTERVAL));
                }
            }
        }
        Ok(reading.filter(|(_, depth)| *depth >= most).map(|(at, depth)| {
            progress.waiting(depth, most);
            at + CHECK_INTERVAL
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn batches_keep_the_order_and_sqs_limits(
            sizes in proptest::collection::vec(prop_oneof![1_usize..99, 1_usize..1_000_000], 0..60)
        ) {
            let mut packer = Packer::new();
            let mut batches = Vec::new();
            for (row, size) in sizes.iter().enumerate() {
                batches.extend(packer.add(row, *size));
            }
            batches.extend(packer.flush());
            let rows: Vec<usize> = batches.iter().flatten().copied().collect();
            prop_assert_eq!(rows, (0..sizes.len()).collect::<Vec<_>>());
            let bytes = |batch: &Vec<usize>| batch.iter().map(|row| sizes[*row]).sum::<usize>();
            prop_assert!(batches.iter().all(|b| (1..=10).contains(&b.len()) && bytes(b) <= BATCH_BYTES));
            let charged: usize = batches.iter().map(|b| bytes(b).div_ceil(65_536)).sum();
            prop_assert_eq!(packer.charged(), charged as u64);
        }
    }
}
