use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::event::StateChange;

/// How many changes are kept.
pub(crate) const MAX_CHANGES: usize = 1_000;

/// A change, and its words on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedChange {
    /// The change.
    pub change: StateChange,
    /// As JSON, on one line.
    pub json: Arc<str>,
}

impl From<StateChange> for RecordedChange {
    fn from(change: StateChange) -> Self {
        // It holds text and numbers: there is nothing that JSON could not say.
        let json = serde_json::to_string(&change).unwrap_or_default().into();
        Self { change, json }
    }
}

/// Up to where a client knows the changes, as an event's `id` says it: of which history, and the place.
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
    /// Which history: another console's numbers mean nothing here.
    pub history: String,
    /// All changes up to here are known.
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

/// Changes that a client cannot be told any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// So many.
    Missed(u64),
    /// Nobody knows how many: the client comes from another history.
    Unknown,
}

/// The newest changes, in their order.
#[derive(Clone, Debug)]
pub struct ChangeLog {
    name: String,
    kept: VecDeque<Arc<RecordedChange>>,
    next: u64,
    most: usize,
}

impl ChangeLog {
    /// A history of this name, with the changes that are known of it, the oldest first; of more than
    /// are kept, the newest.
    pub fn new(name: String, changes: Vec<StateChange>) -> Self {
        Self::with_capacity(name, changes, MAX_CHANGES)
    }

    pub(super) fn with_capacity(name: String, changes: Vec<StateChange>, most: usize) -> Self {
        let next = changes.last().map_or(1, |change| change.seq + 1);
        let skipped = changes.len().saturating_sub(most);
        let kept = changes.into_iter().skip(skipped).map(|change| Arc::new(change.into()));
        Self { name, kept: kept.collect(), next, most }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The place of the newest change; 0 where there was none.
    pub const fn last(&self) -> u64 {
        self.next - 1
    }

    /// Keeps a change, and gives it its place.
    pub fn append(&mut self, change: StateChange) -> Arc<RecordedChange> {
        let kept = Arc::new(RecordedChange::from(StateChange { seq: self.next, ..change }));
        self.next += 1;
        if self.kept.len() >= self.most {
            self.kept.pop_front();
        }
        self.kept.push_back(Arc::clone(&kept));
        kept
    }

    /// All that are kept, the oldest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Arc<RecordedChange>> + ExactSizeIterator {
        self.kept.iter()
    }

    /// What came after `cursor`, and what of it is not kept any more.
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
