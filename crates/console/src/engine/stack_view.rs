use tidegate_core::counters::Counter;
use tidegate_operator::status::{LiveStatus, StackFacts};

use crate::event::StateChange;
use crate::figures::{LongHistory, MonitorFigures, RateHistory, StackFigures};
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
    pub(super) live: LiveStatus,
    pub(super) series: RateHistory,
    pub(super) long: LongHistory,
    pub(super) monitor: MonitorFigures,
    seen: LastSeen,
}

impl StackView {
    /// Starts with the first look.
    pub(super) fn new(facts: StackFacts) -> Self {
        let live = LiveStatus::new(&facts);
        let seen = LastSeen::first(live.status());
        let (series, long) = (RateHistory::default(), LongHistory::default());
        Self { facts, live, series, long, monitor: MonitorFigures::default(), seen }
    }

    /// Adds a look. `counted` tells whether the queues were counted for it.
    pub(super) fn see(&mut self, facts: StackFacts, counted: bool) -> Vec<StateChange> {
        self.live.update(&facts);
        self.facts = facts;
        let changes = self.seen.changes(self.live.status(), counted);
        let figures = self.figures();
        self.series.add(&figures);
        self.long.add(&figures);
        changes
    }

    pub(super) fn figures(&self) -> StackFigures {
        StackFigures::of(&self.live, &self.monitor)
    }

    /// Counter of dead letters, and the depth of their queue. When either changes, the letters are
    /// read again.
    pub(super) fn dead_letters(&self) -> (u64, u64) {
        let status = self.live.status();
        let waiting = status.queues.get("dead_letters").map_or(0, |depth| depth.all());
        (status.counter(Counter::Dead), waiting)
    }
}
