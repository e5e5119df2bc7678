use std::collections::BTreeMap;
use std::sync::Arc;

use super::change_log::{Gap, RecordedChange};
use crate::event::{ChangeKind, Telemetry};

/// How many changes wait for a stream at most.
pub const QUEUE: usize = 200;

/// What a stream still has to be told. It is as large as [`QUEUE`] changes at most, whatever its client
/// does: telemetry waits as a mark alone, and is put into words when it goes.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    /// By weight, then by place.
    changes: BTreeMap<(ChangeKind, u64), Arc<RecordedChange>>,
    /// Up to here it was told of changes, or still will be.
    heard: u64,
    /// Changes that it cannot be told any more, and has not been told of.
    gap: Option<Gap>,
    /// Before the first of these.
    known_before_gap: u64,
    /// The whole state, which comes first.
    state: bool,
    telemetry: [bool; Telemetry::ALL.len()],
}

/// What goes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextItem {
    /// The whole state.
    State,
    /// That changes are missing.
    Gap(Gap),
    /// A change.
    Change(Arc<RecordedChange>),
    /// The newest of these.
    Telemetry(Telemetry),
}

impl Outbox {
    /// Of a stream that is new, whose client knows every change up to `known` but for those in a gap: the
    /// whole state first.
    pub fn opened(known: u64, gap: Option<Gap>) -> Self {
        Self { heard: known, gap, known_before_gap: known, state: true, ..Self::default() }
    }

    /// Has a change wait; where too many do, one of the least weight is given up for it, the oldest
    /// of them, since newer ones say more of what stands. That one is returned.
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

    /// Marks telemetry as to be told: whether an older one waited, which nobody is told any more.
    pub fn mark(&mut self, telemetry: Telemetry) -> bool {
        // The whole state tells it too.
        let marked = self.telemetry.get_mut(telemetry.index()).filter(|_| !self.state);
        marked.is_some_and(|marked| std::mem::replace(marked, true))
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        !self.state
            && self.gap.is_none()
            && self.changes.is_empty()
            && !self.telemetry.contains(&true)
    }

    /// How many changes wait.
    pub fn waiting(&self) -> usize {
        self.changes.len()
    }

    /// Up to where the client knows every change once it has what was taken so far: before the oldest
    /// that still waits, or of which it must be told that it is missing. Weightier ones may have overtaken
    /// it, and come twice after a reconnection. None where the client must first be told that nobody knows
    /// what it missed: until then it goes by what it knew elsewhere.
    pub fn known(&self) -> Option<u64> {
        let oldest = self.changes.keys().map(|(_, seq)| seq.saturating_sub(1)).min();
        let known = oldest.map_or(self.heard, |before| before.min(self.heard));
        match self.gap {
            None => Some(known),
            Some(Gap::Missed(_)) => Some(known.min(self.known_before_gap)),
            Some(Gap::Unknown) => None,
        }
    }

    /// Takes what goes next.
    pub fn take(&mut self) -> Option<NextItem> {
        if std::mem::take(&mut self.state) {
            return Some(NextItem::State);
        }
        if let Some(gap) = self.gap.take() {
            return Some(NextItem::Gap(gap));
        }
        if let Some((_, kept)) = self.changes.pop_first() {
            return Some(NextItem::Change(kept));
        }
        let telemetry = Telemetry::ALL.into_iter().find(|telemetry| {
            self.telemetry.get_mut(telemetry.index()).is_some_and(std::mem::take)
        });
        telemetry.map(NextItem::Telemetry)
    }
}
