use std::collections::BTreeMap;

use crate::rate_limit::{ClientSession, EmptyBucket, TooManyStreams};

/// Counters of all streams since the console started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that were to go out, by name: of each change and each new value, one for each open stream.
    pub produced: BTreeMap<&'static str, u64>,
    /// Events that went out, by name; each took a token of its stream's bucket and of its groups'.
    pub sent: BTreeMap<&'static str, u64>,
    /// Telemetry that was replaced by a newer one before it went out, and changes that found
    /// the queue full, by name.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Events that had to wait for a token, by the bucket that had none.
    pub empty: BTreeMap<EmptyBucket, u64>,
    pub opened: u64,
    /// Streams that were opened with a cursor, because the client reconnected.
    pub reconnects: u64,
    /// The sessions that were active last.
    pub sessions: SessionCounts,
    /// Changes that were sent again to clients that reconnected.
    pub replayed: u64,
    /// Number of times that a stream was told of missing changes.
    pub gaps: u64,
    /// Streams that were refused, by reason: `session`, `address`, `all` or `often`.
    pub refused: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub(super) fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
        *counts.entry(key).or_default() += 1;
    }

    pub(super) fn refuse(&mut self, error: TooManyStreams) {
        let reason = match error {
            TooManyStreams::OfSession => "session",
            TooManyStreams::OfAddress => "address",
            TooManyStreams::OfAll => "all",
            TooManyStreams::TooOften(_) => "often",
        };
        Self::add(&mut self.refused, reason);
    }
}

/// Counters of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCount {
    /// Events that it was sent: each took a token.
    pub tokens: u64,
    pub reconnects: u64,
    /// Place of its newest event among all sessions'.
    newest: u64,
}

/// Counters of the sessions that were active last, so that their number is bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    counts: BTreeMap<ClientSession, SessionCount>,
    events: u64,
}

impl SessionCounts {
    /// Most sessions that are counted: a label of metrics each.
    pub const MOST: usize = 50;

    pub fn iter(&self) -> impl Iterator<Item = (&ClientSession, &SessionCount)> {
        self.counts.iter()
    }

    /// The counters of `session`, which is now the one that was active last. Beyond [`Self::MOST`] the one that
    /// was active longest ago is forgotten.
    pub(super) fn of(&mut self, session: &ClientSession) -> &mut SessionCount {
        self.events += 1;
        if self.counts.len() >= Self::MOST && !self.counts.contains_key(session) {
            let oldest = self.counts.iter().min_by_key(|(_, count)| count.newest);
            if let Some(oldest) = oldest.map(|(session, _)| session.clone()) {
                self.counts.remove(&oldest);
            }
        }
        let count = self.counts.entry(session.clone()).or_default();
        count.newest = self.events;
        count
    }
}
