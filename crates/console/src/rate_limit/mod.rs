//! Limits the rate of events with token buckets: one of the stream, and one each of its connection, its
//! session and its client address, over all their streams.
//!
//! An event needs a token of each bucket. All are checked before any is taken from, so that no
//! token is lost when only some of them have one. No task runs in the background: a bucket is stored as
//! the instant at which it is full again, and its level follows from the time that has passed.

mod bucket;
mod clients;

pub use bucket::{BucketRate, InvalidBucketRate, TokenBucket};
pub use clients::{
    ClientAddress, ClientLimits, ClientSession, EmptyBucket, GroupLimits, StreamClient,
    TooManyStreams,
};

#[cfg(test)]
mod tests;
