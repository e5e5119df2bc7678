//! The event streams: which events wait for each, and which is sent next.
//!
//! [`StreamRegistry`] holds no clock: `now` is an argument. [`Hub`] shares it among connections.

mod outbox;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::Args;
use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;
use tidegate_delivery::ports::Monotonic;
use tidegate_operator::connections::ClientAddress;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::event::{StateChange, Telemetry};
use crate::rate_limit::{BucketRate, TokenBucket};
use outbox::NextItem;
pub use outbox::{ChangeLog, Cursor, Gap, Outbox, QUEUE, RecordedChange};

/// The number of newest changes that are part of the whole state.
const RECENT: usize = 50;

/// Limits for the rate and for the number of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct StreamLimits {
    /// Events that a stream may have: a second, and at once
    #[arg(long, value_name = "RATE/s:BURST", default_value = "5/s:10")]
    pub stream_rate: BucketRate,
    /// Streams that a session may have (a login, or an address without one); more are refused with 429
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub streams_per_session: u16,
    /// Streams that a client address may have, over all its sessions
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    pub streams_per_address: u16,
    /// Streams that all addresses may have together
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub streams: u16,
}

/// The limits of a console that is told no others.
impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            stream_rate: BucketRate::OF_STREAM,
            streams_per_session: 20,
            streams_per_address: 200,
            streams: 2_000,
        }
    }
}

/// Whose limits a stream counts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamClient {
    /// A login, or a token and where it comes from, or an address of which nothing is asked. It has no secret.
    pub session: String,
    pub address: ClientAddress,
}

impl From<ClientAddress> for StreamClient {
    /// A client without a login.
    fn from(address: ClientAddress) -> Self {
        Self { session: address.to_string(), address }
    }
}

/// Reasons for which a stream is refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum TooManyStreams {
    #[error("your session has as many streams as it may")]
    Session,
    #[error("your address has as many streams as it may")]
    Address,
    #[error("your address opens streams too often")]
    Often,
    #[error("the console has as many streams as it may")]
    All,
}

/// Counters of all streams since the console started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that were to go out, by name: of each change and each new value, one for each open stream.
    pub produced: BTreeMap<&'static str, u64>,
    /// Events that went out, by name; each took a token of its stream's bucket.
    pub sent: BTreeMap<&'static str, u64>,
    /// Telemetry that was replaced by a newer one before it went out, and changes that found
    /// the queue full, by name.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Events that had to wait for a token.
    pub waited: u64,
    pub opened: u64,
    /// Streams that were opened with a cursor, because the client reconnected.
    pub reconnects: u64,
    /// Changes that were sent again to clients that reconnected.
    pub replayed: u64,
    /// Number of times that a stream was told of missing changes.
    pub gaps: u64,
    /// Streams that were refused, by the name of [`TooManyStreams`].
    pub refused: BTreeMap<&'static str, u64>,
}

fn count(counts: &mut BTreeMap<&'static str, u64>, name: &'static str) {
    *counts.entry(name).or_default() += 1;
}

/// An event in the form in which it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name of the SSE event.
    pub event: &'static str,
    /// Cursor after this event; none for telemetry.
    pub id: Option<String>,
    /// JSON on one line.
    pub data: Arc<str>,
}

/// The next step of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamStep {
    /// Send this event.
    Frame(Frame),
    /// Ask again at this time: the next event waits for a token.
    At(Monotonic),
    /// Wait until something is published.
    Nothing,
    /// The console ends: close the stream.
    Closed,
}

#[derive(Debug)]
struct OpenStream {
    client: StreamClient,
    bucket: TokenBucket,
    outbox: Outbox,
    /// Whether the next event waits for a token, so that each wait is counted once.
    waits: bool,
}

/// All open streams, the newest telemetry, the change log, and an outbox for each stream.
#[derive(Debug)]
pub struct StreamRegistry {
    pub(crate) limits: StreamLimits,
    pub history: ChangeLog,
    /// The newest JSON of each kind of telemetry that was published.
    latest: BTreeMap<Telemetry, Arc<str>>,
    /// The curves of the last half hour, which are part of the whole state only.
    pub series: Arc<str>,
    streams: BTreeMap<u64, OpenStream>,
    /// Each opened stream takes from its address's bucket, which is forgotten once it is full again.
    openings: BTreeMap<ClientAddress, TokenBucket>,
    next: u64,
    is_closed: bool,
    pub counts: Counts,
}

impl StreamRegistry {
    pub fn new(limits: StreamLimits, history: ChangeLog) -> Self {
        Self {
            limits,
            history,
            latest: BTreeMap::new(),
            series: "null".into(),
            streams: BTreeMap::new(),
            openings: BTreeMap::new(),
            next: 0,
            is_closed: false,
            counts: Counts::default(),
        }
    }

    /// Opens a stream for `client`. `last` is the cursor that a client sends when it reconnects.
    ///
    /// # Errors
    /// [`TooManyStreams`].
    pub fn open(
        &mut self,
        client: impl Into<StreamClient>,
        last: Option<&str>,
        now: Monotonic,
    ) -> Result<u64, TooManyStreams> {
        let client = client.into();
        self.check(&client, now)
            .inspect_err(|refusal| count(&mut self.counts.refused, refusal.into()))?;
        let id = self.next;
        self.next += 1;
        // One that cannot be read is of no log.
        let cursor = last.map(|last| last.parse::<Cursor>().unwrap_or_default());
        let after = cursor.as_ref().map(|cursor| self.history.after(cursor));
        let (missed, gap) = after.unwrap_or_default();
        self.counts.opened += 1;
        self.counts.reconnects += u64::from(cursor.is_some());
        self.counts.replayed += missed.len() as u64;
        let last = self.history.last();
        let known = cursor.filter(|_| gap != Some(Gap::Unknown)).map_or(last, |cursor| cursor.seq);
        let outbox = Outbox::opened(known, gap);
        let bucket = TokenBucket::full(self.limits.stream_rate, now);
        let mut stream = OpenStream { client, bucket, outbox, waits: false };
        for kept in missed {
            stream.push(kept, &mut self.counts);
        }
        self.streams.insert(id, stream);
        Ok(id)
    }

    fn check(&mut self, client: &StreamClient, now: Monotonic) -> Result<(), TooManyStreams> {
        let StreamLimits { streams_per_session, streams_per_address, streams, .. } = self.limits;
        let clients = || self.streams.values().map(|stream| &stream.client);
        let of_session = clients().filter(|other| other.session == client.session).count();
        let of_address = clients().filter(|other| other.address == client.address).count();
        let bounds = [
            (self.streams.len(), streams, TooManyStreams::All),
            (of_session, streams_per_session, TooManyStreams::Session),
            (of_address, streams_per_address, TooManyStreams::Address),
        ];
        if let Some((.., refusal)) =
            bounds.into_iter().find(|(open, most, _)| *open >= (*most).into())
        {
            return Err(refusal);
        }
        self.openings.retain(|_, bucket| !bucket.is_full(now));
        let full = TokenBucket::full(BucketRate::of_openings(streams_per_address), now);
        let bucket = self.openings.entry(client.address).or_insert(full);
        bucket.take(now).then_some(()).ok_or(TooManyStreams::Often)
    }

    pub fn close(&mut self, id: u64) {
        self.streams.remove(&id);
    }

    /// Ends all streams; a stream that is opened afterwards ends at once.
    pub fn close_all(&mut self) {
        self.is_closed = true;
    }

    /// Appends a change to the log, and queues it for every stream.
    pub fn publish(&mut self, change: StateChange) {
        let kept = self.history.append(change);
        for stream in self.streams.values_mut() {
            stream.push(Arc::clone(&kept), &mut self.counts);
        }
    }

    /// Stores the newest telemetry, and flags it for every stream.
    pub fn show(&mut self, telemetry: Telemetry, json: Arc<str>) {
        self.latest.insert(telemetry, json);
        for stream in self.streams.values_mut() {
            count(&mut self.counts.produced, telemetry.into_str());
            if stream.outbox.mark(telemetry) {
                count(&mut self.counts.dropped, telemetry.into_str());
            }
        }
    }

    /// The next event of stream `id` if its bucket has a token, else when to ask again.
    pub fn next(&mut self, id: u64, now: Monotonic) -> StreamStep {
        let Some(stream) = self.streams.get_mut(&id).filter(|_| !self.is_closed) else {
            return StreamStep::Closed;
        };
        if stream.outbox.is_empty() {
            return StreamStep::Nothing;
        }
        if !stream.bucket.take(now) {
            self.counts.waited += u64::from(!std::mem::replace(&mut stream.waits, true));
            return StreamStep::At(stream.bucket.ready_at());
        }
        stream.waits = false;
        let Some(due) = stream.outbox.take() else { return StreamStep::Nothing };
        let known = stream.outbox.known();
        let frame = self.frame(due, known);
        count(&mut self.counts.sent, frame.event);
        self.counts.gaps += u64::from(frame.event == "gap");
        StreamStep::Frame(frame)
    }

    fn frame(&self, due: NextItem, known: Option<u64>) -> Frame {
        let cursor = known.map(|seq| Cursor { history: self.history.name().to_owned(), seq });
        let (event, id, data) = match due {
            NextItem::State => ("state", cursor, self.state().into()),
            // Without an id, so that a client that disconnects now is told of the gap again.
            NextItem::Gap(gap) => ("gap", None, gap.to_string().into()),
            NextItem::Change(kept) => (kept.change.kind.into_str(), cursor, Arc::clone(&kept.json)),
            NextItem::Telemetry(telemetry) => (telemetry.into_str(), None, self.newest(telemetry)),
        };
        Frame { event, id: id.map(|cursor| cursor.to_string()), data }
    }

    fn newest(&self, telemetry: Telemetry) -> Arc<str> {
        self.latest.get(&telemetry).map_or_else(|| "null".into(), Arc::clone)
    }

    /// The whole state: the newest of everything.
    pub fn state(&self) -> String {
        let recent: Vec<&Arc<RecordedChange>> = self.history.all().rev().take(RECENT).collect();
        let recent: Vec<&str> = recent.into_iter().rev().map(|kept| &*kept.json).collect();
        let newest = |of: &Telemetry| format!("\"{}\":{}", of.into_str(), self.newest(*of));
        let newest: Vec<String> = Telemetry::VARIANTS.iter().map(newest).collect();
        let (newest, recent) = (newest.join(","), recent.join(","));
        format!("{{{newest},\"series\":{},\"recent\":[{recent}]}}", self.series)
    }

    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Number of client addresses that have streams.
    pub fn addresses(&self) -> usize {
        let addresses = self.streams.values().map(|stream| stream.client.address);
        addresses.collect::<BTreeSet<_>>().len()
    }

    /// Number of changes that wait: for all streams together, and for the stream with most.
    pub fn waiting(&self) -> (usize, usize) {
        let waiting = || self.streams.values().map(|stream| stream.outbox.waiting());
        (waiting().sum(), waiting().max().unwrap_or(0))
    }
}

impl OpenStream {
    fn push(&mut self, kept: Arc<RecordedChange>, counts: &mut Counts) {
        count(&mut counts.produced, kept.change.kind.into_str());
        if let Some(dropped) = self.outbox.push(kept) {
            count(&mut counts.dropped, dropped.change.kind.into_str());
        }
    }
}

/// Shares the registry among all connections, and wakes their streams when something changes.
#[derive(Debug)]
pub struct Hub {
    started: Instant,
    registry: Mutex<StreamRegistry>,
    /// Notified when the registry changed: every stream then looks for its next event.
    changed: Notify,
    /// Notified when a stream is opened: the engine then looks at once.
    opened: Notify,
    watched: Notify,
}

impl Hub {
    /// Wraps a registry, whose time begins now.
    pub fn new(registry: StreamRegistry) -> Self {
        let (started, registry) = (Instant::now(), Mutex::new(registry));
        let [changed, opened, watched] = [(); 3].map(|()| Notify::new());
        Self { started, registry, changed, opened, watched }
    }

    fn now(&self) -> Monotonic {
        Monotonic::from_origin(self.started.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, StreamRegistry> {
        // No step leaves the registry half changed, so it can be used after a panic, too.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the registry under its lock.
    pub fn look<T>(&self, look: impl FnOnce(&StreamRegistry) -> T) -> T {
        look(&self.lock())
    }

    /// Changes the registry under its lock, and wakes all streams.
    pub fn change<T>(&self, change: impl FnOnce(&mut StreamRegistry) -> T) -> T {
        let answer = change(&mut self.lock());
        self.changed.notify_waiters();
        answer
    }

    /// Waits until a stream is opened; one that was opened since the last wait counts.
    pub async fn opened(&self) {
        self.opened.notified().await;
    }

    /// Waits until a stream is open.
    pub async fn watched(&self) {
        loop {
            let watched = self.watched.notified();
            if self.look(StreamRegistry::streams) > 0 {
                return;
            }
            watched.await;
        }
    }

    /// Opens a stream; dropping the subscription closes it.
    ///
    /// # Errors
    /// [`TooManyStreams`].
    pub fn subscribe(
        self: &Arc<Self>,
        client: impl Into<StreamClient>,
        last: Option<&str>,
    ) -> Result<Subscription, TooManyStreams> {
        let now = self.now();
        let id = self.lock().open(client, last, now)?;
        self.opened.notify_one();
        self.watched.notify_waiters();
        Ok(Subscription { hub: Arc::clone(self), id })
    }
}

/// An open stream of events; dropping it closes the stream.
#[derive(Debug)]
pub struct Subscription {
    hub: Arc<Hub>,
    id: u64,
}

impl Subscription {
    /// The next event, once there is one and its bucket has a token; none when the console ends.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            // Made before the registry is read, so that no change between the two is missed.
            let changed = self.hub.changed.notified();
            let step = self.hub.lock().next(self.id, self.hub.now());
            match step {
                StreamStep::Frame(frame) => return Some(frame),
                StreamStep::Closed => return None,
                StreamStep::Nothing => changed.await,
                StreamStep::At(at) => {
                    // Tokio's timers have a resolution of a millisecond; one more keeps this one
                    // from being early.
                    let until = self.hub.started + at.since_origin() + Duration::from_millis(1);
                    let _ = timeout_at(until, changed).await;
                }
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.lock().close(self.id);
    }
}

#[cfg(test)]
pub(crate) mod tests;
