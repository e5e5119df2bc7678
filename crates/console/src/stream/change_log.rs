use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::event::StateChange;

/// The number of newest changes that are kept in memory.
pub(crate) const MAX_CHANGES: usize = 1_000;

/// A change in the log, and its JSON for the streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedChange {
    pub change: StateChange,
    /// The change as JSON on one line, serialised once for all streams.
    pub json: Arc<str>,
}

impl From<StateChange> for RecordedChange {
    fn from(change: StateChange) -> Self {
        // It holds text and numbers only, which JSON can always represent.
        let json = serde_json::to_string(&change).unwrap_or_default().into();
        Self { change, json }
    }
}

/// The position up to which a client knows the changes. It is the `id` of an SSE event, which a
/// browser sends back when it reconnects.
///
/// ```
/// use tidegate_console::stream::Cursor;
/// let cursor: Cursor = "k3x9-41".parse()?;
/// assert_eq!((cursor.history.as_str(), cursor.seq), ("k3x9", 41));
/// assert_eq!(cursor.to_string(), "k3x9-41");
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Name of the change log: sequence numbers of another log mean nothing here.
    pub history: String,
    /// The client knows all changes up to this sequence number.
    pub seq: u64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.history, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (history, seq) = text.rsplit_once('-').unwrap_or((text, ""));
        Ok(Self { history: history.to_owned(), seq: seq.parse()? })
    }
}

/// Changes that are missing for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The number of changes that are not kept any more.
    Missed(u64),
    /// An unknown number: the client's cursor is of another log.
    Unknown,
}

/// The newest changes, in order, with consecutive sequence numbers.
#[derive(Clone, Debug)]
pub struct ChangeLog {
    name: String,
    kept: VecDeque<Arc<RecordedChange>>,
    next: u64,
    most: usize,
}

impl ChangeLog {
    /// A log of this name with the changes that were saved, the oldest first. If there are more than the
    /// log keeps, the newest are used.
    pub fn new(name: String, changes: Vec<StateChange>) -> Self {
        Self::with_capacity(name, changes, MAX_CHANGES)
    }

    pub(super) fn with_capacity(name: String, changes: Vec<StateChange>, most: usize) -> Self {
        let next = changes.last().map_or(1, |change| change.seq + 1);
        let skipped = changes.len().saturating_sub(most);
        let kept = changes.into_iter().skip(skipped).map(|change| Arc::new(change.into()));
        Self { name, kept: kept.collect(), next, most }
    }

    /// The log's random name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sequence number of the newest change; 0 if there is none.
    pub const fn last(&self) -> u64 {
        self.next - 1
    }

    /// Appends a change and assigns its sequence number.
    pub fn append(&mut self, change: StateChange) -> Arc<RecordedChange> {
        let kept = Arc::new(RecordedChange::from(StateChange { seq: self.next, ..change }));
        self.next += 1;
        if self.kept.len() >= self.most {
            self.kept.pop_front();
        }
        self.kept.push_back(Arc::clone(&kept));
        kept
    }

    /// The changes that are kept, the oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Arc<RecordedChange>> + ExactSizeIterator {
        self.kept.iter()
    }

    /// The changes after `cursor`; and the gap, if some of them are not kept any more.
    pub fn after(&self, cursor: &Cursor) -> (Vec<Arc<RecordedChange>>, Option<Gap>) {
        if cursor.history != self.name || cursor.seq > self.last() {
            return (Vec::new(), Some(Gap::Unknown));
        }
        let after = self.kept.iter().filter(|kept| kept.change.seq > cursor.seq).cloned();
        let first = self.kept.front().map_or(self.next, |kept| kept.change.seq);
        let missed = first.saturating_sub(cursor.seq + 1);
        (after.collect(), (missed > 0).then_some(Gap::Missed(missed)))
    }
}
