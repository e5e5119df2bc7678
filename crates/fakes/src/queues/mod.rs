//! SQS in memory: standard and FIFO queues with its rules of visibility, groups and deduplication.
//!
//! `ListQueues` and `ListQueueTags` in memory.

mod check;
mod queue;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_delivery::ports::{
    Directory, Entropy as _, Entry, EntryError, FailureKind, Outgoing, PortError, QueueDepth,
    QueueUrl, Queues, Received,
};

use crate::clock::{Latency, SeededEntropy, Universe};
use crate::faults::{FaultPlan, Faults, Operation};
use crate::shared::SharedState;
use queue::{ALL_SERVERS, Queue, SERVERS};
pub use queue::{MessageState, QueueSettings, QueuedMessage};

/// SQS in memory. A clone is the same client; [`MemoryQueues::client`] is another client of the
/// same queues.
///
/// Message ids and receipts follow from the seed. A queue must be created before it is used; a call
/// for an unknown queue fails with `NotFound`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::time::Duration;
/// use tidegate_core::Timestamp;
/// use tidegate_delivery::ports::{Outgoing, QueueUrl, Queues};
/// use tidegate_fakes::{MemoryQueues, QueueSettings, Universe};
/// let queues = MemoryQueues::new(Universe::starting_at(Timestamp::from_millis(1_000)), 1);
/// let url = QueueUrl::new("memory://big");
/// queues.create(&url, QueueSettings::default());
/// let hello =
///     Outgoing { body: "hello".into(), attributes: vec![], delay: Duration::ZERO, fifo: None };
/// queues.send(&url, &[hello]).await.unwrap();
/// let received = queues.receive(&url, 10, Duration::ZERO).await.unwrap();
/// assert_eq!(&*received[0].body, "hello");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryQueues {
    universe: Universe,
    entropy: SeededEntropy,
    service: SharedState<QueueService>,
    client: SharedState<ClientState>,
    faults: Faults,
}

/// State that all clients share.
#[derive(Default)]
struct QueueService {
    latency: Latency,
    queues: BTreeMap<QueueUrl, Queue>,
    calls: BTreeMap<(QueueUrl, Operation), u64>,
    max_bytes_held: u64,
}

#[derive(Default)]
struct ClientState {
    calls: u64,
    /// The bodies that this client has received; those still alive are counted as held memory.
    received_bodies: Vec<Weak<String>>,
}

impl MemoryQueues {
    /// No queues yet, calls without latency.
    pub fn new(universe: Universe, seed: u64) -> Self {
        Self {
            universe,
            entropy: SeededEntropy::new(seed),
            service: SharedState::default(),
            client: SharedState::default(),
            faults: Faults::default(),
        }
    }

    /// How long a call takes from now on, for every client.
    pub fn set_latency(&self, latency: Latency) {
        self.service.with(|service| service.latency = latency);
    }

    /// Another client of the same queues, with its own count of calls.
    pub fn client(&self) -> Self {
        Self { client: SharedState::default(), ..self.clone() }
    }

    /// A handle on this client whose calls fail as `plan` says.
    pub fn with_faults(self, plan: &FaultPlan) -> Self {
        Self { faults: plan.into(), ..self }
    }

    /// The most bytes of received bodies that one client has held at the same time: each body
    /// counts from SQS's answer until it is dropped.
    pub fn max_bytes_held(&self) -> u64 {
        self.service.with(|service| service.max_bytes_held)
    }

    /// Updates the maximum with the bodies that this client holds, including `received`.
    fn track_bytes_held(&self, received: &[Received]) {
        let held = self.client.with(|ClientState { received_bodies, .. }| {
            received_bodies.retain(|body| body.strong_count() > 0);
            received_bodies
                .extend(received.iter().map(|message| Arc::downgrade(message.body.text())));
            received_bodies.iter().filter_map(Weak::upgrade).map(|body| body.len() as u64).sum()
        });
        self.service.with(|service| service.max_bytes_held = service.max_bytes_held.max(held));
    }

    /// Creates an empty queue, FIFO if its name ends in `.fifo`. An existing queue of this name is
    /// replaced.
    pub fn create(&self, url: &QueueUrl, settings: QueueSettings) {
        let made = Queue::new(settings, url.is_fifo(), self.entropy.bits());
        self.service.with(|service| service.queues.insert(url.clone(), made));
    }

    /// As [`MemoryQueues::create`], but an existing queue stays as it is. Tells whether it was created.
    #[cfg(feature = "sandbox")]
    pub(crate) fn create_missing(&self, url: &QueueUrl, settings: QueueSettings) -> bool {
        let made = Queue::new(settings, url.is_fifo(), self.entropy.bits());
        self.service.with(|service| {
            let is_missing = !service.queues.contains_key(url);
            service.queues.entry(url.clone()).or_insert(made);
            is_missing
        })
    }

    #[cfg(feature = "sandbox")]
    pub(crate) fn settings(&self, url: &QueueUrl) -> Option<QueueSettings> {
        self.look_at(url, |queue, _| Some(queue.settings))
    }

    /// Deletes a queue with all its messages.
    pub fn remove(&self, url: &QueueUrl) {
        self.service.with(|service| service.queues.remove(url));
    }

    /// Changes a queue's settings; does nothing if there is no such queue. Messages in flight keep
    /// the visibility timeout that they were received with.
    pub fn reconfigure(&self, url: &QueueUrl, settings: QueueSettings) {
        self.look_at(url, |queue, _| queue.settings = settings);
    }

    /// All messages of a queue, the oldest first, without receiving them; empty if there is no such
    /// queue.
    pub fn contents(&self, url: &QueueUrl) -> Vec<QueuedMessage> {
        self.look_at(url, Queue::contents)
    }

    /// The exact depth of a queue, without a call and without SQS's delay; zero if there is no such
    /// queue.
    pub fn true_depth(&self, url: &QueueUrl) -> QueueDepth {
        self.look_at(url, Queue::depth)
    }

    /// Looks at a queue without a call; the default if there is no such queue.
    fn look_at<R: Default>(
        &self,
        url: &QueueUrl,
        look: impl FnOnce(&mut Queue, Timestamp) -> R,
    ) -> R {
        let now = self.universe.now();
        let look = |service: &mut QueueService| Some(look(service.queues.get_mut(url)?, now));
        self.service.with(look).unwrap_or_default()
    }

    /// The calls of all clients so far, as (standard, FIFO): SQS charges more for FIFO queues.
    pub fn calls_by_kind(&self) -> (u64, u64) {
        self.service.with(|QueueService { calls, .. }| {
            let sum = |fifo| {
                let of_kind = calls.iter().filter(|((url, _), _)| url.is_fifo() == fifo);
                of_kind.map(|(_, count)| count).sum()
            };
            (sum(false), sum(true))
        })
    }

    /// The calls of one kind on one queue, of all clients so far.
    pub fn calls_of(&self, url: &QueueUrl, operation: Operation) -> u64 {
        let of = (url.clone(), operation);
        self.service.with(|service| service.calls.get(&of).copied().unwrap_or(0))
    }

    fn count_call(&self, url: &QueueUrl, operation: Operation) {
        let of = (url.clone(), operation);
        self.service.with(|service| *service.calls.entry(of).or_insert(0) += 1);
        self.client.with(|client| client.calls += 1);
    }

    /// Every message that was ever put on the queue with an identity, with the time. Messages fresh
    /// from their producer have no identity yet, so these were put by Tidegate.
    pub fn taken(&self, url: &QueueUrl) -> Vec<(Timestamp, String)> {
        self.look_at(url, |queue, _| queue.taken.clone())
    }

    /// The bodies of the messages that a queue delivered twice ([`QueueSettings::doubled`]), each
    /// with the time of that decision.
    pub fn doubled(&self, url: &QueueUrl) -> Vec<(Timestamp, String)> {
        self.look_at(url, |queue, _| queue.doubled.clone())
    }

    pub fn urls(&self) -> Vec<QueueUrl> {
        self.service.with(|service| service.queues.keys().cloned().collect())
    }

    /// [`Queues::send`], returning SQS's message id of each accepted message.
    ///
    /// # Errors
    /// As [`Queues::send`].
    pub async fn send_for_ids(
        &self,
        queue: &QueueUrl,
        messages: &[Outgoing],
    ) -> Result<Vec<Result<String, EntryError>>, PortError> {
        let bytes = messages.iter().map(Outgoing::bytes).sum();
        self.batch(Operation::Send, queue, messages, bytes, |served, now, message| {
            let id = self.entropy.uuid();
            served.send(now, message, id.clone()).map(|()| id)
        })
        .await
    }

    /// Runs `act` on the queue: half of the latency passes before, and half after.
    async fn reach<R>(
        &self,
        url: &QueueUrl,
        act: impl FnOnce(&mut Queue, Timestamp) -> Result<R, FailureKind>,
    ) -> Result<R, FailureKind> {
        let act = async {
            self.on_queue(url, |queue, now| {
                let done = act(queue, now);
                // Long polls wait for a message of the queue.
                queue.changed.notify_waiters();
                done
            })
        };
        self.service.with(|service| service.latency).around(&self.entropy, act).await
    }

    /// One call with a batch of so many bytes, `act` for each entry. SQS may fail single
    /// entries of a batch that it answers with 200.
    async fn batch<T, R>(
        &self,
        operation: Operation,
        url: &QueueUrl,
        entries: &[T],
        bytes: usize,
        mut act: impl FnMut(&mut Queue, Timestamp, &T) -> Result<R, EntryError>,
    ) -> Result<Vec<Result<R, EntryError>>, PortError> {
        self.count_call(url, operation);
        let decision = self.faults.decide(operation, url);
        let refused = decision.pick(entries.len(), decision.refuse_entries);
        let lost = decision.pick(entries.len(), decision.lose_entries);
        let done = self.reach(url, |queue, now| {
            check::batch(entries.len(), bytes)?;
            let one = |(entry, (refused, lost)): (&T, (bool, bool))| {
                if refused || self.entropy.chance(queue.settings.failing) {
                    return Err(check::internal_error());
                }
                let done = act(queue, now, entry);
                if lost { Err(check::internal_error()) } else { done }
            };
            Ok(entries.iter().zip(refused.into_iter().zip(lost)).map(one).collect())
        });
        let done = decision.run(done).await;
        done.map_err(|kind| operation.failed(url, kind))
    }

    fn on_queue<R>(
        &self,
        url: &QueueUrl,
        act: impl FnOnce(&mut Queue, Timestamp) -> Result<R, FailureKind>,
    ) -> Result<R, FailureKind> {
        let now = self.universe.now();
        self.service.with(|service| {
            let queue = service.queues.get_mut(url).ok_or(FailureKind::NotFound)?;
            queue.refresh_depth(now);
            act(queue, now)
        })
    }

    fn poll_once(
        &self,
        url: &QueueUrl,
        max: usize,
        short: bool,
    ) -> Result<Vec<Received>, FailureKind> {
        self.on_queue(url, |queue, now| {
            if !queue.fifo && queue.is_at_limit(now) {
                return Err(FailureKind::Refused("OverLimit".to_owned()));
            }
            let asked = if short { self.sample(queue.settings.sampling) } else { ALL_SERVERS };
            let received = queue.receive(now, max, asked);
            for message in &received {
                if self.entropy.chance(queue.settings.doubled) {
                    let early = queue.settings.visibility.mul_f64(self.entropy.unit());
                    queue.give_again(now, &message.receipt, early);
                }
            }
            Ok(received)
        })
    }

    /// Draws the servers that a short poll asks, a bit for each.
    fn sample(&self, sampling: f64) -> u16 {
        let bit = |server| u16::from(self.entropy.chance(sampling)) << server;
        (0..SERVERS).map(bit).sum()
    }

    /// Receives as soon as a message is visible, or returns nothing when `wait` is over.
    async fn long_poll(
        &self,
        url: &QueueUrl,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Received>, FailureKind> {
        let until = self.universe.now() + wait;
        loop {
            let changed = self.on_queue(url, |queue, _| Ok(Arc::clone(&queue.changed)))?;
            let notified = changed.notified();
            tokio::pin!(notified);
            // Before looking, so that what arrives after the look is not missed.
            notified.as_mut().enable();
            let received = self.poll_once(url, max, wait.is_zero())?;
            if !received.is_empty() || self.universe.now() >= until {
                return Ok(received);
            }
            let next = self.on_queue(url, |queue, _| Ok(queue.next_visible()))?;
            let look_again = next.map_or(until, |next| next.min(until));
            tokio::select! {
                biased;
                () = notified => {}
                () = self.universe.sleep_until(look_again) => {}
            }
        }
    }
}

impl Queues for MemoryQueues {
    async fn receive(
        &self,
        queue: &QueueUrl,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Received>, PortError> {
        self.count_call(queue, Operation::Receive);
        let decision = self.faults.decide(Operation::Receive, queue);
        let (nothing, again) = (decision.nothing, decision.duplicate_at());
        let receive = async {
            check::receive(max, wait)?;
            let received =
                if nothing { Ok(Vec::new()) } else { self.long_poll(queue, max, wait).await };
            let bodies = received.as_deref().unwrap_or_default();
            self.track_bytes_held(bodies);
            if let Some(from) = again {
                self.on_queue(queue, |queue, _| {
                    queue.deliver_again(from, bodies);
                    Ok(())
                })?;
            }
            received
        };
        // A long poll's future is large; boxed, it does not make those of its callers large.
        let receive = Box::pin(receive);
        let receive = self.service.with(|service| service.latency).around(&self.entropy, receive);
        let received = decision.run(receive).await;
        received.map_err(|kind| Operation::Receive.failed(queue, kind))
    }

    async fn send(&self, queue: &QueueUrl, messages: &[Outgoing]) -> Result<Vec<Entry>, PortError> {
        let entries = self.send_for_ids(queue, messages).await?;
        Ok(entries.into_iter().map(|entry| entry.map(drop)).collect())
    }

    async fn delete(&self, queue: &QueueUrl, receipts: &[String]) -> Result<Vec<Entry>, PortError> {
        self.batch(Operation::Delete, queue, receipts, 0, |served, now, receipt| {
            let in_vain = self.entropy.chance(served.settings.doubled);
            served.delete(now, receipt, in_vain)
        })
        .await
    }

    async fn set_visibility(
        &self,
        queue: &QueueUrl,
        receipts: &[String],
        after: Duration,
    ) -> Result<Vec<Entry>, PortError> {
        self.batch(Operation::SetVisibility, queue, receipts, 0, |served, now, receipt| {
            served.set_visibility(now, receipt, after)
        })
        .await
    }

    async fn depth(&self, queue: &QueueUrl) -> Result<QueueDepth, PortError> {
        self.count_call(queue, Operation::Depth);
        let depth = self.reach(queue, |served, now| Ok(served.shown_depth(now)));
        self.faults.call(Operation::Depth, queue, depth).await
    }

    fn calls(&self) -> u64 {
        self.client.with(|client| client.calls)
    }
}

impl MemoryQueues {
    /// Sets a tag of a queue, or removes it if `value` is `None`. Without such a queue this does
    /// nothing.
    pub fn tag(&self, url: &QueueUrl, name: &str, value: Option<&str>) {
        self.look_at(url, |queue, _| match value {
            Some(value) => drop(queue.tags.insert(name.to_owned(), value.to_owned())),
            None => drop(queue.tags.remove(name)),
        });
    }

    /// One call that lists queues or tags: it has latency and is counted, but touches no message.
    async fn look<R>(
        &self,
        operation: Operation,
        resource: &str,
        act: impl FnOnce() -> Result<R, FailureKind>,
    ) -> Result<R, PortError> {
        self.client.with(|client| client.calls += 1);
        let latency = self.service.with(|service| service.latency);
        let look = latency.around(&self.entropy, async { act() });
        self.faults.call(operation, resource, look).await
    }
}

impl Directory for MemoryQueues {
    async fn queues(&self, prefix: &str) -> Result<Vec<QueueUrl>, PortError> {
        let mut urls = self.look(Operation::ListQueues, prefix, || Ok(self.urls())).await?;
        urls.retain(|url| url.name().starts_with(prefix));
        Ok(urls)
    }

    async fn tags(&self, queue: &QueueUrl) -> Result<BTreeMap<String, String>, PortError> {
        let tags = || {
            let tags = self.look_at(queue, |queue, _| Some(queue.tags.clone()));
            tags.ok_or(FailureKind::NotFound)
        };
        self.look(Operation::ListTags, queue.as_str(), tags).await
    }
}

#[cfg(test)]
mod tests;
