//! The log of changes, and what one stream must still be told of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::event::{ChangeKind, StateChange, Telemetry};

/// The number of newest changes that are kept in memory.
const MAX_CHANGES: usize = 1_000;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// As JSON for the client.
impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (missed, why) = match self {
            Self::Missed(missed) => {
                (Some(missed), "more changes came than are kept for a client that is away or slow")
            }
            Self::Unknown => (
                None,
                "this console does not know what the page last saw: it was restarted, or is another one",
            ),
        };
        serde_json::json!({ "missed": missed, "why": why }).fmt(f)
    }
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
    /// An empty log.
    pub fn new(name: String) -> Self {
        Self::with_capacity(name, MAX_CHANGES)
    }

    pub(super) fn with_capacity(name: String, most: usize) -> Self {
        Self { name, kept: VecDeque::new(), next: 1, most }
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

/// The number of changes that may wait for one stream.
pub const QUEUE: usize = 200;
/// After so many changes in a row comes telemetry, if it waits: a page that comes back gets 200 changes at 5
/// events a second, and its figures may not be 40 s old meanwhile.
const IN_A_ROW: usize = 3;

/// The events that wait for one stream. Its size is bounded by [`QUEUE`] however slow the client
/// is: telemetry waits as a flag only, and is read from the registry when it is sent.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    /// By importance, then by sequence number.
    changes: BTreeMap<(ChangeKind, u64), Arc<RecordedChange>>,
    /// Sequence number of the newest change that was pushed.
    heard: u64,
    /// Changes that were dropped, and of which the client has not been told yet.
    gap: Option<Gap>,
    /// Sequence number before the first missing change.
    known_before_gap: u64,
    /// The whole state, which comes first.
    state: bool,
    telemetry: BTreeSet<Telemetry>,
    /// Changes that were taken in a row while telemetry waited.
    in_a_row: usize,
}

/// The next event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextItem {
    /// The whole state, which a new stream gets first.
    State,
    /// Some changes are missing.
    Gap(Gap),
    /// One change.
    Change(Arc<RecordedChange>),
    /// The newest value of this kind.
    Telemetry(Telemetry),
}

impl Outbox {
    /// An outbox for a new stream. Its client knows every change up to `known`, except those in the
    /// gap; it gets the whole state first.
    pub fn opened(known: u64, gap: Option<Gap>) -> Self {
        Self { heard: known, gap, known_before_gap: known, state: true, ..Self::default() }
    }

    /// Queues a change. If more than [`QUEUE`] then wait, the oldest change of the least important kind
    /// is dropped and returned: newer ones tell more about the present state. The client is told of the
    /// gap.
    pub fn push(&mut self, kept: Arc<RecordedChange>) -> Option<Arc<RecordedChange>> {
        self.heard = self.heard.max(kept.change.seq);
        self.changes.insert((kept.change.kind, kept.change.seq), kept);
        if self.changes.len() <= QUEUE {
            return None;
        }
        let least = self.changes.last_key_value().map(|((kind, _), _)| *kind)?;
        let oldest = self.changes.range((least, 0)..).next().map(|(key, _)| *key)?;
        let before = oldest.1.saturating_sub(1);
        self.known_before_gap = self.gap.map_or(before, |_| self.known_before_gap.min(before));
        self.gap = Some(match self.gap {
            None => Gap::Missed(1),
            Some(Gap::Missed(missed)) => Gap::Missed(missed + 1),
            Some(Gap::Unknown) => Gap::Unknown,
        });
        self.changes.remove(&oldest)
    }

    /// Flags telemetry as changed. It returns whether an older value was still waiting: that one is never
    /// sent.
    pub fn mark(&mut self, telemetry: Telemetry) -> bool {
        // The whole state contains it, too.
        !self.state && !self.telemetry.insert(telemetry)
    }

    pub fn is_empty(&self) -> bool {
        !self.state && self.gap.is_none() && self.changes.is_empty() && self.telemetry.is_empty()
    }

    pub fn waiting(&self) -> usize {
        self.changes.len()
    }

    /// The sequence number up to which the client knows every change, once it has received what was
    /// taken so far. It lies before the oldest change that waits or is missing; a more important
    /// change may have overtaken that one, and is then sent twice after a reconnection. None while
    /// an unknown number of changes is missing and the client has not been told: its old cursor
    /// then stays valid.
    pub fn known(&self) -> Option<u64> {
        let oldest = self.changes.keys().map(|(_, seq)| seq.saturating_sub(1)).min();
        let known = oldest.map_or(self.heard, |before| before.min(self.heard));
        match self.gap {
            None => Some(known),
            Some(Gap::Missed(_)) => Some(known.min(self.known_before_gap)),
            Some(Gap::Unknown) => None,
        }
    }

    /// Takes the next event: the state, then gaps, changes by importance, and telemetry. At least every
    /// fourth event is telemetry, if it waits.
    pub fn take(&mut self) -> Option<NextItem> {
        if std::mem::take(&mut self.state) {
            return Some(NextItem::State);
        }
        if let Some(gap) = self.gap.take() {
            return Some(NextItem::Gap(gap));
        }
        let is_telemetrys_turn = self.in_a_row >= IN_A_ROW && !self.telemetry.is_empty();
        if !is_telemetrys_turn && let Some((_, kept)) = self.changes.pop_first() {
            self.in_a_row = if self.telemetry.is_empty() { 0 } else { self.in_a_row + 1 };
            return Some(NextItem::Change(kept));
        }
        self.in_a_row = 0;
        self.telemetry.pop_first().map(NextItem::Telemetry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::tests::change;

    fn recorded(seq: u64) -> Arc<RecordedChange> {
        Arc::new(StateChange { seq, ..change(ChangeKind::Change, "c") }.into())
    }

    #[test]
    fn figures_are_every_fourth_event_however_many_changes_wait() {
        let mut outbox = Outbox::opened(0, None);
        outbox.take();
        for seq in 1..=100 {
            outbox.push(recorded(seq));
        }
        let mut figures = Vec::new();
        for event in 0..60 {
            outbox.mark(Telemetry::Figures);
            if outbox.take() == Some(NextItem::Telemetry(Telemetry::Figures)) {
                figures.push(event);
            }
        }
        assert_eq!(figures, (0..15).map(|n| 4 * n + 3).collect::<Vec<_>>());
    }
}
