use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tidegate_delivery::ports::Monotonic;

use super::bucket::{BucketRate, TokenBucket};

/// A stream that does not come for its token within so long has its place given away.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often addresses that nobody uses any more are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Whose streams are counted together: an IPv4 address, or the /64 that an IPv6 one lies in, which is
/// what a single customer is given.
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

/// Why no stream is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TooManyStreams {
    /// The address has as many as it may.
    OfAddress,
    /// The console has.
    OfAll,
}

/// A stream that waits for its address's tokens.
#[derive(Clone, Copy, Debug)]
struct WaitingStream {
    stream: u64,
    /// When its token is there, if nobody before it leaves.
    due: Monotonic,
}

#[derive(Debug)]
struct AddressState {
    bucket: TokenBucket,
    streams: usize,
    /// In the order in which they came: each has the next token that comes after those before it.
    line: VecDeque<WaitingStream>,
}

/// The client addresses that have streams, or lately had.
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
    /// None yet. Each may have `most_of_one` streams, all together `most_of_all`.
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

    /// Counts a stream of `address` no more.
    pub fn close(&mut self, address: ClientAddress, stream: u64) {
        if let Some(entry) = self.entries.get_mut(&address) {
            entry.streams = entry.streams.saturating_sub(1);
            entry.line.retain(|waiting| waiting.stream != stream);
            self.streams = self.streams.saturating_sub(1);
        }
    }

    /// Forgets addresses without a stream whose bucket is full: one that comes anew has the same.
    fn sweep(&mut self, now: Monotonic) {
        if now.saturating_since(self.swept_at) >= SWEEP_EVERY {
            self.swept_at = now;
            self.entries.retain(|_, entry| entry.streams > 0 || !entry.bucket.is_full(now));
        }
    }

    /// How many addresses are known.
    pub fn known(&self) -> usize {
        self.entries.len()
    }

    /// A token of `own` and one of the address's for an event of `stream`.
    ///
    /// A stream whose address has none waits in line, so that none of an address's streams starves; one
    /// that does not come for its token loses its place, and costs the others nothing but the wait.
    ///
    /// # Errors
    /// Nothing was taken of either; when to ask again, and which of the two was empty.
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

/// Which bucket had no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EmptyBucket {
    /// The stream's own.
    Stream,
    /// The address's.
    Address,
}
