use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tidegate_delivery::ports::Monotonic;

use super::bucket::{BucketRate, TokenBucket};

/// A stream that does not take its token within this time loses its place in the line.
const PATIENCE: Duration = Duration::from_secs(1);
/// The interval at which addresses without streams are removed.
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

/// Reasons for which a stream is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TooManyStreams {
    /// The address has as many as it may.
    OfAddress,
    /// The console has as many streams as it may have.
    OfAll,
}

/// A stream that waits for its address's tokens.
#[derive(Clone, Copy, Debug)]
struct WaitingStream {
    stream: u64,
    /// The time at which its token is ready if no stream before it leaves the line.
    due: Monotonic,
}

#[derive(Debug)]
struct AddressState {
    bucket: TokenBucket,
    streams: usize,
    /// In the order of arrival: the first gets the next token.
    line: VecDeque<WaitingStream>,
}

/// Counts and token buckets of the client addresses that have streams or had some recently.
#[derive(Debug)]
pub struct AddressLimits {
    allowance: BucketRate,
    most_of_one: usize,
    most_of_all: usize,
    streams: usize,
    entries: BTreeMap<ClientAddress, AddressState>,
    swept_at: Monotonic,
}

impl AddressLimits {
    /// No addresses yet. Each may have `most_of_one` streams, and all together `most_of_all`.
    pub const fn new(allowance: BucketRate, most_of_one: usize, most_of_all: usize) -> Self {
        Self {
            allowance,
            most_of_one,
            most_of_all,
            streams: 0,
            entries: BTreeMap::new(),
            swept_at: Monotonic::from_origin(Duration::ZERO),
        }
    }

    /// Counts a new stream of `address`.
    ///
    /// # Errors
    /// [`TooManyStreams`]: it is not counted, and must not be opened.
    pub fn open(&mut self, address: ClientAddress, now: Monotonic) -> Result<(), TooManyStreams> {
        self.sweep(now);
        if self.streams >= self.most_of_all {
            return Err(TooManyStreams::OfAll);
        }
        let bucket = TokenBucket::full(self.allowance, now);
        let new = || AddressState { bucket, streams: 0, line: VecDeque::new() };
        let entry = self.entries.entry(address).or_insert_with(new);
        if entry.streams >= self.most_of_one {
            return Err(TooManyStreams::OfAddress);
        }
        entry.streams += 1;
        self.streams += 1;
        Ok(())
    }

    /// Removes a stream of `address` from the counts and from its line.
    pub fn close(&mut self, address: ClientAddress, stream: u64) {
        if let Some(entry) = self.entries.get_mut(&address) {
            entry.streams = entry.streams.saturating_sub(1);
            entry.line.retain(|waiting| waiting.stream != stream);
            self.streams = self.streams.saturating_sub(1);
        }
    }

    /// Removes addresses that have no stream and a full bucket: a new entry would be equal.
    fn sweep(&mut self, now: Monotonic) {
        if now.saturating_since(self.swept_at) >= SWEEP_EVERY {
            self.swept_at = now;
            self.entries.retain(|_, entry| entry.streams > 0 || !entry.bucket.is_full(now));
        }
    }

    pub fn known(&self) -> usize {
        self.entries.len()
    }

    /// Takes a token of `own` and one of the address's bucket for an event of `stream`.
    ///
    /// If the address has no token, its streams wait in line, so that none of them starves. The stream
    /// with n others before it gets the token that is ready after theirs: it may ask again when
    /// n + 1 tokens are ready. With three streams waiting and one token every 100 ms, they get theirs
    /// after 100, 200 and 300 ms. A stream that does not come for its token within a second is removed
    /// from the line; the others have lost only that wait.
    ///
    /// # Errors
    /// Nothing was taken from either bucket. The error tells when to ask again, and which bucket was
    /// empty.
    pub fn take(
        &mut self,
        address: ClientAddress,
        stream: u64,
        own: &mut TokenBucket,
        now: Monotonic,
    ) -> Result<(), (Monotonic, EmptyBucket)> {
        let own_at = own.ready_at(1);
        if own_at > now {
            return Err((own_at, EmptyBucket::Stream));
        }
        let Some(entry) = self.entries.get_mut(&address) else {
            return Err((now + PATIENCE, EmptyBucket::Address));
        };
        let late =
            |waiting: &WaitingStream| waiting.stream != stream && waiting.due + PATIENCE < now;
        entry.line.retain(|waiting| !late(waiting));
        let place = entry.line.iter().position(|waiting| waiting.stream == stream);
        let before = place.unwrap_or(entry.line.len());
        let due = entry.bucket.ready_at(u32::try_from(before + 1).unwrap_or(u32::MAX));
        if due > now {
            if place.is_none() {
                entry.line.push_back(WaitingStream { stream, due });
            }
            return Err((due, EmptyBucket::Address));
        }
        if let Some(place) = place {
            entry.line.remove(place);
        }
        entry.bucket.take(now);
        own.take(now);
        Ok(())
    }
}

/// The bucket that had no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EmptyBucket {
    /// The bucket of the stream.
    Stream,
    /// The bucket of the client address.
    Address,
}
