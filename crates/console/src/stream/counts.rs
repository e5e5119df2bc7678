use std::collections::BTreeMap;

use crate::rate_limit::{EmptyBucket, TooManyStreams};

/// Counters of all streams since the console started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that went out, by name; each took a token of its stream's bucket and one of its address's.
    pub sent: BTreeMap<&'static str, u64>,
    /// Telemetry that was replaced by a newer one before it went out, and changes that found
    /// the queue full, by name.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Events that had to wait for a token, by the bucket that had none.
    pub empty: BTreeMap<EmptyBucket, u64>,
    pub opened: u64,
    /// Streams that were opened with a cursor, because the client reconnected.
    pub reconnects: u64,
    /// Changes that were sent again to clients that reconnected.
    pub replayed: u64,
    /// Number of times that a stream was told of missing changes.
    pub gaps: u64,
    /// Streams that were refused, by reason.
    pub refused: BTreeMap<TooManyStreams, u64>,
}

impl Counts {
    pub(super) fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
        *counts.entry(key).or_default() += 1;
    }

    /// Number of tokens taken from the streams' buckets; the addresses' buckets gave as many.
    pub fn tokens(&self) -> u64 {
        self.sent.values().sum()
    }
}
