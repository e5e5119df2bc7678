//! Puts mails onto their queues, the content of large ones into the store before, in batches over all clients: a batch is sent once it is full, or 5 ms after its first mail.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tidegate_core::email::LargeObject;
use tidegate_delivery::ports::{
    BATCH, BATCH_BYTES, Clock, Monotonic, Outgoing, QueueUrl, Queues, Store,
};
use tokio::sync::{mpsc, oneshot};

use super::refusal::Refusal;
use crate::send::is_refusal;

/// How long a mail waits for others to share its batch.
const LINGER: Duration = Duration::from_millis(5);
/// Calls to SQS at the same time: at 20 ms a call and ten mails a batch, room for 16,000 mails a second.
const MOST_CALLS: usize = 32;
/// Attempts for an entry that SQS fails alone; the client tries again later.
const ATTEMPTS: usize = 2;

/// A mail on its way to its queue.
#[derive(Debug)]
pub(crate) struct PendingMail {
    queue: QueueUrl,
    message: Outgoing,
    /// Content for the store, until it is there.
    object: Option<LargeObject>,
    answer: oneshot::Sender<Result<(), Refusal>>,
}

/// The way to [`run`]; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Enqueuer(mpsc::Sender<PendingMail>);

impl Enqueuer {
    pub(crate) fn new() -> (Self, mpsc::Receiver<PendingMail>) {
        let (sender, receiver) = mpsc::channel(BATCH * MOST_CALLS);
        (Self(sender), receiver)
    }

    /// Puts a message onto its queue; returns once SQS has acknowledged it.
    pub(crate) async fn put(
        &self,
        queue: QueueUrl,
        message: Outgoing,
        object: Option<LargeObject>,
    ) -> Result<(), Refusal> {
        let closed = || Refusal::Busy("the relay is ending".to_owned());
        let (answer, answered) = oneshot::channel();
        self.0.send(PendingMail { queue, message, object, answer }).await.map_err(|_| closed())?;
        answered.await.unwrap_or_else(|_| Err(closed()))
    }
}

/// A batch that is being filled.
#[derive(Debug)]
struct Batch {
    mails: Vec<PendingMail>,
    bytes: usize,
    due: Monotonic,
}

/// Sends what [`Enqueuer`]s hand over, until the last of them is gone and everything is answered; tells `sent` of each
/// batch.
pub(crate) async fn run(
    mut from: mpsc::Receiver<PendingMail>,
    queues: &impl Queues,
    store: Option<&impl Store>,
    clock: &impl Clock,
    sent: impl Fn(),
) {
    let mut batches: BTreeMap<QueueUrl, Batch> = BTreeMap::new();
    let mut calls = FuturesUnordered::new();
    let mut storing = FuturesUnordered::new();
    loop {
        let due = batches.values().map(|batch| batch.due).min();
        tokio::select! {
            next = from.recv(), if calls.len() < MOST_CALLS => {
                let Some(waiting) = next else { break };
                // Its client has gone, and may hand it over again.
                if waiting.answer.is_closed() {
                    continue;
                }
                if waiting.object.is_some() {
                    storing.push(stored(store, waiting));
                    continue;
                }
                let now = clock.monotonic();
                calls.extend(add(&mut batches, waiting, now).map(|full| send(queues, full)));
            }
            Some(stored) = storing.next() => {
                let now = clock.monotonic();
                let full = stored.into_iter().flat_map(|mail| add(&mut batches, mail, now));
                calls.extend(full.map(|full| send(queues, full)));
            }
            () = clock.sleep_until(due.unwrap_or_default()), if due.is_some() => {
                let now = clock.monotonic();
                let due = batches.extract_if(.., |_, batch| batch.due <= now);
                calls.extend(due.map(|(_, batch)| send(queues, batch.mails)));
            }
            Some(()) = calls.next() => sent(),
        }
    }
    while let Some(stored) = storing.next().await {
        let now = clock.monotonic();
        let full = stored.into_iter().flat_map(|mail| add(&mut batches, mail, now));
        calls.extend(full.map(|full| send(queues, full)));
    }
    calls.extend(batches.into_values().map(|batch| send(queues, batch.mails)));
    while calls.next().await.is_some() {
        sent();
    }
}

/// Puts a mail's content into the store. Returns the mail, unless it was answered that this failed.
async fn stored(store: Option<&impl Store>, mut mail: PendingMail) -> Option<PendingMail> {
    let (object, store) = mail.object.take().zip(store)?;
    match store.put(&object.key, object.bytes).await {
        Ok(()) => Some(mail),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the store took no mail");
            let busy = "the store cannot be reached; try again later".to_owned();
            _ = mail.answer.send(Err(Refusal::Busy(busy)));
            None
        }
    }
}

/// Adds a mail to its queue's batch. Returns the batches that are full: that one, and the one before if both do not fit.
fn add(
    batches: &mut BTreeMap<QueueUrl, Batch>,
    waiting: PendingMail,
    now: Monotonic,
) -> impl Iterator<Item = Vec<PendingMail>> + use<> {
    let (queue, bytes) = (waiting.queue.clone(), waiting.message.bytes());
    let no_room = batches.get(&queue).is_some_and(|batch| batch.bytes + bytes > BATCH_BYTES);
    let before = no_room.then(|| batches.remove(&queue)).flatten();
    let empty = || Batch { mails: Vec::new(), bytes: 0, due: now + LINGER };
    let batch = batches.entry(queue.clone()).or_insert_with(empty);
    batch.bytes += bytes;
    batch.mails.push(waiting);
    let is_full = batch.mails.len() == BATCH;
    let full = is_full.then(|| batches.remove(&queue)).flatten();
    before.into_iter().chain(full).map(|batch| batch.mails)
}

/// Sends one batch and answers each mail.
async fn send(queues: &impl Queues, mut mails: Vec<PendingMail>) {
    for left in (0..ATTEMPTS).rev() {
        let Some(first) = mails.first() else { return };
        let messages: Vec<Outgoing> = mails.iter().map(|mail| mail.message.clone()).collect();
        let entries = match queues.send(&first.queue, &messages).await {
            Ok(entries) => entries,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "SQS took no mail");
                let busy = || Refusal::Busy("SQS cannot be reached; try again later".to_owned());
                return mails.drain(..).for_each(|mail| _ = mail.answer.send(Err(busy())));
            }
        };
        // An entry without an answer has failed.
        let mut entries = entries.into_iter().map(Some).chain(std::iter::repeat(None));
        for mail in std::mem::take(&mut mails) {
            match entries.next().flatten() {
                Some(Ok(())) => _ = mail.answer.send(Ok(())),
                _ if left > 0 => mails.push(mail),
                failed => {
                    let code = failed.and_then(Result::err).map(|error| error.code);
                    tracing::error!(code, "SQS did not take a mail");
                    let refusal = match code {
                        Some(code) if is_refusal(&code) => {
                            Refusal::Invalid(format!("SQS refuses the mail: {code}"))
                        }
                        _ => Refusal::Busy("SQS did not take the mail; try again later".to_owned()),
                    };
                    _ = mail.answer.send(Err(refusal));
                }
            }
        }
    }
}
