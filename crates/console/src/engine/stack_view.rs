use tidegate_core::counters::Counter;
use tidegate_operate::status::StackFacts;
use tidegate_operate::top;

use crate::event::StateChange;
use crate::figures::{
    Curves, LongHistory, LongSpan, RateHistory, RecentSlots, SavedCurves, StackFigures,
};
use crate::watch::LastSeen;

/// The figures of the newest look, with counts of looks.
#[derive(Clone, Debug)]
pub struct LatestFigures {
    pub figures: StackFigures,
    /// Looks at the stack since the console began.
    pub looks: u64,
    /// Number of looks that failed, out of `looks`.
    pub failed: u64,
}

/// Everything that is derived from successive looks at the stack.
#[derive(Debug)]
pub(super) struct StackView {
    pub(super) facts: StackFacts,
    top: top::Dashboard,
    recently: RecentSlots,
    series: RateHistory,
    long: LongHistory,
    pub(super) seen: LastSeen,
}

impl StackView {
    /// Starts with the first look. If an earlier console saved `seen`, the changes since then are
    /// returned. Its curves go on.
    pub(super) fn new(
        facts: StackFacts,
        seen: Option<LastSeen>,
        curves: &SavedCurves,
    ) -> (Self, Vec<StateChange>) {
        let top = top::Dashboard::new(&facts);
        let mut recently = RecentSlots::default();
        recently.see(&facts);
        let mut changes = Vec::new();
        let seen = match seen {
            Some(mut seen) => {
                changes = seen.changes(top.status(), true);
                seen
            }
            None => LastSeen::first(top.status()),
        };
        let (series, long) = (RateHistory::default(), LongHistory::new(curves));
        (Self { facts, top, recently, series, long, seen }, changes)
    }

    /// Adds a look. `counted` tells whether the queues were counted for it.
    pub(super) fn see(&mut self, facts: StackFacts, counted: bool) -> Vec<StateChange> {
        self.top.update(&facts);
        self.recently.see(&facts);
        self.facts = facts;
        let changes = self.seen.changes(self.top.status(), counted);
        let figures = StackFigures::of(&self.top, &self.recently);
        self.series.add(&figures);
        self.long.add(&figures);
        changes
    }

    /// Records that a look failed, and why.
    pub(super) fn miss(&mut self, why: String) {
        self.top.set_error(why);
    }

    pub(super) fn figures(&self) -> StackFigures {
        StackFigures::of(&self.top, &self.recently)
    }

    pub(super) fn series(&self) -> Curves {
        self.series.curves()
    }

    pub(super) fn curves(&self, span: LongSpan) -> Curves {
        self.long.curves(span)
    }

    pub(super) fn saved_curves(&self) -> SavedCurves {
        self.long.saved()
    }

    /// Counter of dead letters, and the depth of their queue. When either changes, the letters are
    /// read again.
    pub(super) fn dead_letters(&self) -> (u64, u64) {
        let status = self.top.status();
        let waiting = status.queues.get("dead_letters").map_or(0, |depth| depth.all());
        (status.counter(Counter::Dead), waiting)
    }
}
