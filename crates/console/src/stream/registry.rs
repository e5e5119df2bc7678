use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_delivery::ports::Monotonic;

use super::change_log::{ChangeLog, Cursor, Gap, RecordedChange};
use super::counts::Counts;
use super::outbox::{NextItem, Outbox};
use crate::event::{StateChange, Telemetry};
use crate::rate_limit::{
    BucketRate, ClientLimits, EmptyBucket, GroupLimits, StreamClient, TooManyStreams,
};

/// The number of newest changes that are part of the whole state.
const RECENT: usize = 50;

/// Limits for the rate and for the number of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Rate of one stream.
    pub stream: BucketRate,
    pub session: GroupLimits,
    pub address: GroupLimits,
    /// Streams of all addresses at most.
    pub streams: usize,
}

/// The limits of a console that is told no others.
impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            stream: BucketRate::OF_STREAM,
            session: GroupLimits::OF_SESSION,
            address: GroupLimits::OF_ADDRESS,
            streams: 2_000,
        }
    }
}

/// An event in the form in which it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Name of the SSE event.
    pub event: &'static str,
    /// Cursor after this event; none for telemetry.
    pub id: Option<String>,
    /// Whether it is the first event of its stream, which carries SSE's `retry`.
    pub is_first: bool,
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
    outbox: Outbox,
    /// The bucket that the next event waits for, so that each wait is counted once.
    waits: Option<EmptyBucket>,
}

/// All open streams, the newest telemetry, the change log, and an outbox for each stream. It holds
/// no clock: `now` is an argument.
#[derive(Debug)]
pub struct StreamRegistry {
    limits: StreamLimits,
    history: ChangeLog,
    /// The newest JSON of each kind of telemetry that was published.
    latest: BTreeMap<Telemetry, Arc<str>>,
    /// The curves of the last half hour, which are part of the whole state only.
    series: Arc<str>,
    clients: ClientLimits,
    streams: BTreeMap<u64, OpenStream>,
    next: u64,
    is_closed: bool,
    counts: Counts,
}

impl StreamRegistry {
    pub fn new(limits: StreamLimits, history: ChangeLog) -> Self {
        Self {
            limits,
            history,
            latest: BTreeMap::new(),
            series: "null".into(),
            clients: ClientLimits::new(
                limits.stream,
                limits.session,
                limits.address,
                limits.streams,
            ),
            streams: BTreeMap::new(),
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
        let id = self.next;
        let session = client.session.clone();
        self.clients.open(id, client, now).inspect_err(|error| self.counts.refuse(*error))?;
        self.next += 1;
        let cursor = last.map(|last| {
            let unread = Cursor { history: String::new(), seq: 0 };
            last.parse().unwrap_or(unread)
        });
        let (missed, gap) = match &cursor {
            Some(cursor) => self.history.after(cursor),
            None => (Vec::new(), None),
        };
        self.counts.opened += 1;
        self.counts.reconnects += u64::from(cursor.is_some());
        self.counts.sessions.of(&session).reconnects += u64::from(cursor.is_some());
        self.counts.replayed += missed.len() as u64;
        let last = self.history.last();
        let known = cursor.filter(|_| gap != Some(Gap::Unknown)).map_or(last, |cursor| cursor.seq);
        let mut outbox = Outbox::opened(known, gap);
        for kept in missed {
            Counts::add(&mut self.counts.produced, kept.change.kind.name());
            if let Some(dropped) = outbox.push(kept) {
                Counts::add(&mut self.counts.dropped, dropped.change.kind.name());
            }
        }
        self.streams.insert(id, OpenStream { outbox, waits: None });
        Ok(id)
    }

    pub fn close(&mut self, id: u64) {
        self.streams.remove(&id);
        self.clients.close(id);
    }

    /// Ends all streams; a stream that is opened afterwards ends at once.
    pub fn close_all(&mut self) {
        self.is_closed = true;
    }

    /// Appends a change to the log, and queues it for every stream.
    pub fn publish(&mut self, change: StateChange) {
        let kept = self.history.append(change);
        for stream in self.streams.values_mut() {
            Counts::add(&mut self.counts.produced, kept.change.kind.name());
            if let Some(dropped) = stream.outbox.push(Arc::clone(&kept)) {
                Counts::add(&mut self.counts.dropped, dropped.change.kind.name());
            }
        }
    }

    /// Stores the newest telemetry, and flags it for every stream.
    pub fn show(&mut self, telemetry: Telemetry, json: Arc<str>) {
        self.latest.insert(telemetry, json);
        for stream in self.streams.values_mut() {
            Counts::add(&mut self.counts.produced, telemetry.name());
            if stream.outbox.mark(telemetry) {
                Counts::add(&mut self.counts.dropped, telemetry.name());
            }
        }
    }

    /// Replaces the curves that new streams get with the state.
    pub fn set_series(&mut self, json: Arc<str>) {
        self.series = json;
    }

    /// The next event of stream `id` if all its buckets have a token, else when to ask again.
    pub fn next(&mut self, id: u64, now: Monotonic) -> StreamStep {
        let Some(stream) = self.streams.get_mut(&id).filter(|_| !self.is_closed) else {
            return StreamStep::Closed;
        };
        if stream.outbox.is_empty() {
            return StreamStep::Nothing;
        }
        if let Err((at, empty)) = self.clients.take(id, now) {
            if stream.waits != Some(empty) {
                stream.waits = Some(empty);
                Counts::add(&mut self.counts.empty, empty);
            }
            return StreamStep::At(at);
        }
        stream.waits = None;
        if let Some(session) = self.clients.session(id) {
            self.counts.sessions.of(session).tokens += 1;
        }
        let Some(due) = stream.outbox.take() else { return StreamStep::Nothing };
        let known = stream.outbox.known();
        let frame = self.frame(due, known);
        Counts::add(&mut self.counts.sent, frame.event);
        self.counts.gaps += u64::from(frame.event == "gap");
        StreamStep::Frame(frame)
    }

    fn frame(&self, due: NextItem, known: Option<u64>) -> Frame {
        let cursor = known.map(|seq| Cursor { history: self.history.name().to_owned(), seq });
        let (event, id, data) = match due {
            NextItem::State => ("state", cursor, self.state().into()),
            // Without an id, so that a client that disconnects now is told of the gap again.
            NextItem::Gap(gap) => ("gap", None, words(gap).into()),
            NextItem::Change(kept) => (kept.change.kind.name(), cursor, Arc::clone(&kept.json)),
            NextItem::Telemetry(telemetry) => (telemetry.name(), None, self.newest(telemetry)),
        };
        let id = id.map(|cursor| cursor.to_string());
        Frame { event, id, is_first: event == "state", data }
    }

    fn newest(&self, telemetry: Telemetry) -> Arc<str> {
        self.latest.get(&telemetry).map_or_else(|| "null".into(), Arc::clone)
    }

    /// The whole state: the newest of everything.
    pub fn state(&self) -> String {
        let recent: Vec<&Arc<RecordedChange>> = self.history.all().rev().take(RECENT).collect();
        let recent: Vec<&str> = recent.into_iter().rev().map(|kept| &*kept.json).collect();
        let newest = |of: &Telemetry| format!("\"{}\":{}", of.name(), self.newest(*of));
        let newest: Vec<String> = Telemetry::ALL.iter().map(newest).collect();
        let (newest, recent) = (newest.join(","), recent.join(","));
        format!("{{{newest},\"series\":{},\"recent\":[{recent}]}}", self.series)
    }

    /// The changes that are kept, the oldest first.
    pub fn history(&self) -> &ChangeLog {
        &self.history
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    pub const fn limits(&self) -> StreamLimits {
        self.limits
    }

    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    pub fn addresses(&self) -> usize {
        self.clients.addresses()
    }

    /// Number of changes that wait: for all streams together, and for the stream with most.
    pub fn waiting(&self) -> (usize, usize) {
        let waiting = || self.streams.values().map(|stream| stream.outbox.waiting());
        (waiting().sum(), waiting().max().unwrap_or(0))
    }
}

fn words(gap: Gap) -> String {
    match gap {
        Gap::Missed(missed) => format!(
            "{{\"missed\":{missed},\"why\":\"more changes came than are kept for a client that is away or slow\"}}"
        ),
        Gap::Unknown => "{\"missed\":null,\"why\":\"this console does not know what the page last saw: it was restarted without what it remembers, or is another one\"}".to_owned(),
    }
}
