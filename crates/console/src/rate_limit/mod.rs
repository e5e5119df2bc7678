//! Limits the rate of events with token buckets: one of the stream, and one each of its connection, its
//! session and its client address, over all their streams.
//!
//! An event needs a token of each bucket. All are checked before any is taken from, so that no
//! token is lost when only some of them have one. No task runs in the background: a bucket is stored as
//! the instant at which it is full again, and its level follows from the time that has passed.
//!
//! # Several consoles
//!
//! The buckets of sessions and addresses, of events and of opened streams, may be those of all consoles of a
//! stack ([`ClientLimits::share`]). Each console goes on to take from buckets of its own. Every E it tells a
//! server what it took, hears when each bucket is full by all consoles' takes, and has its own bucket not
//! full before that. So what several consoles took too much is a debt, which all of them wait off. A
//! client's first stream at a console waits until the console has heard of its buckets.
//!
//! A take is the map f ↦ max(f, now) + T of the instant f at which a bucket with one token in T is full. A row
//! of n takes is f ↦ max(f + n·T, g), where g is the instant for a bucket that was full before. A console
//! tells n·T and g, so the server needs no other state than f, and a late exchange costs the client nothing.
//!
//! **The bound.** Let N consoles share a bucket of burst B, let an exchange take at most X, and let none fail.
//! In any time d all consoles together grant at most
//!
//! > B + d/T + (N − 1)·K tokens, where K = B + W/T and W = 2·E + 4·X.
//!
//! A console's take is known to each other console after W: it is told with the next exchange (X until the one
//! under way ends, E until the next begins, X until the server has it), and heard with the first exchange
//! after that (at most X + E until it begins, X until it ends; a part of this is counted twice). Let the last
//! of m tokens since the instant a be granted at t by one console. It knows all of them but those that the
//! N − 1 others took after t − W: at most K each, by their own buckets. The k takes that it knows have moved
//! its f to a + k·T at least; it grants only while f is at most t + B·T after the take. So
//! k ≤ B + (t − a)/T. In the long run the rate is 1/T: the term of N does not grow with d.
//!
//! An exchange that fails is not repeated, and what it told is dropped: the answer alone may be lost, and telling
//! it again would charge it twice. While exchanges fail, each console is bounded by its own buckets:
//! N·(B + d/T) for all.

mod bucket;
mod clients;

pub use bucket::{BucketRate, InvalidBucketRate, TokenBucket};
pub use clients::{
    ClientAddress, ClientLimits, ClientSession, EmptyBucket, GroupLimits, StreamClient,
    TooManyStreams,
};

#[cfg(test)]
mod tests;
