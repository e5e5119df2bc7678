//! Limits the rate of events with two token buckets: one of the stream, and one of the client
//! address for all its streams.
//!
//! An event needs a token of both buckets. Both are checked before either is taken from, so that no
//! token is lost when only one of them has one. No task runs in the background: a bucket is stored as
//! the instant at which it is full again, and its level follows from the time that has passed.

mod addresses;
mod bucket;

pub use addresses::{AddressLimits, ClientAddress, EmptyBucket, TooManyStreams};
pub use bucket::{BucketRate, InvalidBucketRate, TokenBucket};

#[cfg(test)]
mod tests;
