//! How fast events go out: a token bucket a stream, and one a client address over all its streams.
//!
//! Both must grant an event, and neither gives anything away where the other refuses: the two are
//! looked at first and taken from together. Nothing runs in the background: a bucket is one instant,
//! that at which it is full again, and what is in it follows from the time that has passed.

mod addresses;
mod bucket;

pub use addresses::{AddressLimits, ClientAddress, EmptyBucket, TooManyStreams};
pub use bucket::{BucketRate, InvalidBucketRate, TokenBucket};

#[cfg(test)]
mod tests;
