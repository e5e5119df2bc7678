use std::collections::BTreeMap;

use crate::rate_limit::{EmptyBucket, TooManyStreams};

/// What the streams came to since the console began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that went out, by name; each took a token of its stream's bucket and one of its address's.
    pub sent: BTreeMap<&'static str, u64>,
    /// Telemetry that was replaced by a newer one before it went out, and changes that found
    /// the queue full, by name.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Events that had to wait for a token, by the bucket that had none.
    pub empty: BTreeMap<EmptyBucket, u64>,
    /// Streams that were opened.
    pub opened: u64,
    /// Of them, those that came back, with the last id they knew.
    pub reconnects: u64,
    /// Changes that a stream which came back was told.
    pub replayed: u64,
    /// How often a stream was told that changes are missing.
    pub gaps: u64,
    /// Streams that were not opened.
    pub refused: BTreeMap<TooManyStreams, u64>,
}

impl Counts {
    pub(super) fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
        *counts.entry(key).or_default() += 1;
    }

    /// Tokens taken: of the streams' buckets together, and as many of the addresses'.
    pub fn tokens(&self) -> u64 {
        self.sent.values().sum()
    }
}
