use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use tidegate_delivery::ports::Monotonic;

use super::bucket::{BucketRate, TokenBucket};

/// A stream that does not take its token within this time no longer goes before others.
const PATIENCE: Duration = Duration::from_secs(1);
/// The interval at which clients without streams are removed.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// The unit in which streams are counted: an IPv4 address, or the /64 network of an IPv6 address,
/// since providers give a /64 to a single customer.
///
/// ```
/// use tidegate_console::rate_limit::ClientAddress;
/// let of = |text: &str| Ok::<_, std::net::AddrParseError>(ClientAddress::of(text.parse()?));
/// assert_eq!(of("::ffff:192.0.2.7")?, of("192.0.2.7")?);
/// assert_eq!(of("2001:db8::1")?, of("2001:db8::2:3")?);
/// assert_ne!(of("192.0.2.7")?, of("192.0.2.8")?);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    /// The one that `ip` counts to.
    pub fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(v4) => Self(IpAddr::V4(v4)),
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                Self(IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)))
            }
        }
    }
}

/// A login, or a token and where it comes from, or an address of which nothing is asked. Its text is a label
/// of metrics, and has no secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientSession(Arc<str>);

impl ClientSession {
    pub fn new(label: &str) -> Self {
        Self(label.into())
    }

    pub fn label(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whose limits a stream counts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamClient {
    /// The number of the connection; none of a proxy's, which has many clients.
    pub connection: Option<u64>,
    pub session: ClientSession,
    pub address: ClientAddress,
}

impl From<ClientAddress> for StreamClient {
    /// A client without a login.
    fn from(address: ClientAddress) -> Self {
        let session = ClientSession::new(&address.to_string());
        Self { connection: None, session, address }
    }
}

/// Reasons for which a stream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TooManyStreams {
    /// The session has as many as it may.
    OfSession,
    /// The address has as many as it may.
    OfAddress,
    /// The console has as many streams as it may have.
    OfAll,
    /// The session or the address opens streams too often, and may open one after so many seconds.
    TooOften(u64),
}

/// The bucket that had no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EmptyBucket {
    /// The bucket of the stream.
    Stream,
    /// That of the connection.
    Connection,
    /// That of the session.
    Session,
    /// That of the client address.
    Address,
}

/// The limits of one session, or of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Events over all its streams.
    pub events: BucketRate,
    /// Streams at the same time.
    pub streams: usize,
}

impl GroupLimits {
    /// 30 events a second, 60 at once, and 20 streams, for a session.
    pub const OF_SESSION: Self = Self { events: BucketRate::OF_SESSION, streams: 20 };
    /// 300 events a second, 600 at once, and 200 streams, for an address: ten busy sessions.
    pub const OF_ADDRESS: Self = Self { events: BucketRate::OF_ADDRESS, streams: 200 };

    /// Streams that may be opened: each twice at once, and all of them every 20 s.
    fn openings(self) -> BucketRate {
        let streams = u32::try_from(self.streams).unwrap_or(u32::MAX);
        let burst = streams.saturating_mul(2).clamp(1, 10_000);
        let per_second = (f64::from(streams) / 20.0).clamp(0.1, 1_000.0);
        BucketRate::new(per_second, burst).unwrap_or(BucketRate::OF_SESSION)
    }
}

/// Streams that share a bucket: those of a connection, of a session or of an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GroupKey {
    Connection(u64),
    Session(ClientSession),
    Address(ClientAddress),
}

impl GroupKey {
    const fn bucket(&self) -> EmptyBucket {
        match self {
            Self::Connection(_) => EmptyBucket::Connection,
            Self::Session(_) => EmptyBucket::Session,
            Self::Address(_) => EmptyBucket::Address,
        }
    }
}

/// The groups of a client, the smallest first.
fn groups(client: &StreamClient) -> impl Iterator<Item = GroupKey> {
    let connection = client.connection.map(GroupKey::Connection);
    let session = GroupKey::Session(client.session.clone());
    connection.into_iter().chain([session, GroupKey::Address(client.address)])
}

#[derive(Debug)]
struct StreamGroup {
    bucket: TokenBucket,
    /// Streams that may be opened.
    openings: TokenBucket,
    streams: usize,
    /// The streams that wait for a token of any of their buckets, by their turn.
    line: BTreeMap<u64, u64>,
    /// The buckets of streams that ended before they were full again: the next streams take them over,
    /// so that coming back buys no new burst.
    left: Vec<TokenBucket>,
}

impl StreamGroup {
    fn new(limits: GroupLimits, now: Monotonic) -> Self {
        let [bucket, openings] =
            [limits.events, limits.openings()].map(|rate| TokenBucket::full(rate, now));
        let (line, left) = (BTreeMap::new(), Vec::new());
        Self { bucket, openings, streams: 0, line, left }
    }

    /// Whether a new group would be equal.
    fn is_as_new(&self, now: Monotonic) -> bool {
        self.streams == 0
            && self.bucket.is_full(now)
            && self.openings.is_full(now)
            && self.left.iter().all(|bucket| bucket.is_full(now))
    }
}

/// A stream that waits for tokens.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// The order in which streams began to wait.
    number: u64,
    /// The time at which it was told to ask again.
    due: Monotonic,
}

#[derive(Debug)]
struct LimitedStream {
    client: StreamClient,
    own: TokenBucket,
    turn: Option<Turn>,
}

/// Counts and token buckets of the clients that have streams or had some recently.
#[derive(Debug)]
pub struct ClientLimits {
    stream: BucketRate,
    session: GroupLimits,
    address: GroupLimits,
    most_of_all: usize,
    streams: BTreeMap<u64, LimitedStream>,
    groups: BTreeMap<GroupKey, StreamGroup>,
    turns: u64,
    swept_at: Monotonic,
}

impl ClientLimits {
    /// No clients yet. All together may have `most_of_all` streams. A connection may have as many events as
    /// a session.
    pub const fn new(
        stream: BucketRate,
        session: GroupLimits,
        address: GroupLimits,
        most_of_all: usize,
    ) -> Self {
        Self {
            stream,
            session,
            address,
            most_of_all,
            streams: BTreeMap::new(),
            groups: BTreeMap::new(),
            turns: 0,
            swept_at: Monotonic::from_origin(Duration::ZERO),
        }
    }

    /// Counts a new stream of `client`. Its bucket is full, or that of a stream that the session had before.
    ///
    /// # Errors
    /// [`TooManyStreams`]: it is not counted, and must not be opened.
    pub fn open(
        &mut self,
        stream: u64,
        client: StreamClient,
        now: Monotonic,
    ) -> Result<(), TooManyStreams> {
        self.sweep(now);
        if self.streams.len() >= self.most_of_all {
            return Err(TooManyStreams::OfAll);
        }
        for key in groups(&client) {
            let limits = self.limits(&key);
            let group =
                self.groups.entry(key.clone()).or_insert_with(|| StreamGroup::new(limits, now));
            let full = match key {
                GroupKey::Connection(_) => continue,
                GroupKey::Session(_) => TooManyStreams::OfSession,
                GroupKey::Address(_) => TooManyStreams::OfAddress,
            };
            if group.streams >= limits.streams {
                return Err(full);
            }
            let wait = group.openings.ready_at(1).saturating_since(now);
            if !wait.is_zero() {
                let seconds = u64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(1);
                return Err(TooManyStreams::TooOften(seconds));
            }
        }
        let mut own = None;
        for key in groups(&client) {
            if let Some(group) = self.groups.get_mut(&key) {
                group.streams += 1;
                group.openings.take(now);
                group.left.retain(|bucket| !bucket.is_full(now));
                own = own.or_else(|| group.left.pop());
            }
        }
        let own = own.unwrap_or_else(|| TokenBucket::full(self.stream, now));
        self.streams.insert(stream, LimitedStream { client, own, turn: None });
        Ok(())
    }

    /// Removes a stream from the counts and from its lines, and keeps its bucket for the session's next
    /// stream.
    pub fn close(&mut self, stream: u64) {
        let Some(LimitedStream { client, own, turn }) = self.streams.remove(&stream) else {
            return;
        };
        for key in groups(&client) {
            if let Some(group) = self.groups.get_mut(&key) {
                group.streams = group.streams.saturating_sub(1);
                turn.and_then(|turn| group.line.remove(&turn.number));
            }
        }
        if let Some(group) = self.groups.get_mut(&GroupKey::Session(client.session)) {
            group.left.push(own);
        }
    }

    const fn limits(&self, key: &GroupKey) -> GroupLimits {
        match key {
            GroupKey::Connection(_) | GroupKey::Session(_) => self.session,
            GroupKey::Address(_) => self.address,
        }
    }

    /// Removes groups to which a new one would be equal, unless they have something to tell.
    fn sweep(&mut self, now: Monotonic) {
        if now.saturating_since(self.swept_at) >= SWEEP_EVERY {
            self.swept_at = now;
            self.groups.retain(|_, group| !group.is_as_new(now));
        }
    }

    /// Number of addresses that are known.
    pub fn addresses(&self) -> usize {
        self.groups.keys().filter(|key| matches!(key, GroupKey::Address(_))).count()
    }

    /// The session of a stream that is open.
    pub fn session(&self, stream: u64) -> Option<&ClientSession> {
        self.streams.get(&stream).map(|stream| &stream.client.session)
    }

    /// Takes a token of the stream's bucket and one of each of its groups' buckets, for an event.
    ///
    /// If a group has no token, its streams take turns, in the order in which they began to wait, so that
    /// none of them starves: a stream leaves a token to each stream before it that has tokens of all its
    /// other buckets. Those that wait for another bucket do not hold the others up. Neither does a stream
    /// that did not come for its token for a second: the others have lost only that wait.
    ///
    /// # Errors
    /// Nothing was taken from any bucket. The error tells when to ask again, and which bucket was
    /// empty.
    pub fn take(&mut self, stream: u64, now: Monotonic) -> Result<(), (Monotonic, EmptyBucket)> {
        let Some(LimitedStream { client, own, turn }) = self.streams.get(&stream) else {
            return Err((now + PATIENCE, EmptyBucket::Stream));
        };
        let own_at = own.ready_at(1);
        if own_at > now {
            return Err((own_at, EmptyBucket::Stream));
        }
        let (client, turn) = (client.clone(), *turn);
        let refusals = groups(&client).filter_map(|key| {
            let due = self.groups.get(&key)?.bucket.ready_at(1 + self.before(&key, turn, now));
            (due > now).then(|| (due, key.bucket()))
        });
        let refusals: Vec<(Monotonic, EmptyBucket)> = refusals.collect();
        let Some((_, empty)) = refusals.first().copied() else {
            self.charge(stream, &client, turn, now);
            return Ok(());
        };
        let due = refusals.iter().map(|(due, _)| *due).fold(now, Monotonic::max);
        self.wait(stream, &client, turn, due);
        Err((due, empty))
    }

    /// Number of streams of a group that go before one with this turn, or before a newcomer.
    fn before(&self, key: &GroupKey, turn: Option<Turn>, now: Monotonic) -> u32 {
        let Some(group) = self.groups.get(key) else { return 0 };
        let number = turn.map_or(u64::MAX, |turn| turn.number);
        let earlier = group.line.range(..number);
        let count = earlier.filter(|(_, stream)| self.lacks_only(**stream, key, now)).count();
        u32::try_from(count).unwrap_or(u32::MAX - 1)
    }

    /// Whether a stream that waits comes for its token, and has those of all buckets but this group's.
    fn lacks_only(&self, stream: u64, key: &GroupKey, now: Monotonic) -> bool {
        let Some(LimitedStream { client, own, turn }) = self.streams.get(&stream) else {
            return false;
        };
        let is_late = turn.is_none_or(|turn| turn.due + PATIENCE < now);
        let is_ready = |other: GroupKey| {
            other == *key
                || self.groups.get(&other).is_none_or(|group| group.bucket.ready_at(1) <= now)
        };
        !is_late && own.ready_at(1) <= now && groups(client).all(is_ready)
    }

    fn charge(&mut self, stream: u64, client: &StreamClient, turn: Option<Turn>, now: Monotonic) {
        for key in groups(client) {
            if let Some(group) = self.groups.get_mut(&key) {
                turn.and_then(|turn| group.line.remove(&turn.number));
                group.bucket.take(now);
            }
        }
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.own.take(now);
            stream.turn = None;
        }
    }

    fn wait(&mut self, stream: u64, client: &StreamClient, turn: Option<Turn>, due: Monotonic) {
        let number = turn.map_or(self.turns, |turn| turn.number);
        if turn.is_none() {
            self.turns += 1;
            for key in groups(client) {
                if let Some(group) = self.groups.get_mut(&key) {
                    group.line.insert(number, stream);
                }
            }
        }
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.turn = Some(Turn { number, due });
        }
    }
}
