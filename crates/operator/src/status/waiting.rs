use serde::Serialize;
use tidegate_delivery::poll::all_limits_waiting;

use super::{RunStatus, StackFacts};
use tidegate_core::format::count;

/// All that waits, by where it does. Nothing is in two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize)]
pub struct WaitingStatus {
    /// Messages on the express queue.
    pub express: u64,
    /// Messages on the campaigns' queues.
    pub campaigns: u64,
    /// Messages on the merge queue.
    pub merge: u64,
    /// Recipients on the limits' queues, also on those that no limit has any more.
    pub limits: u64,
    /// Rows of runs that somebody will enqueue: they are in no queue yet.
    pub rows: u64,
}

impl WaitingStatus {
    pub(super) fn of(facts: &StackFacts, runs: &[RunStatus]) -> Self {
        let depth = |name| facts.depths.get(name).map_or(0, |depth| depth.all());
        Self {
            express: depth("express"),
            campaigns: facts.backlog_of(|_| true),
            merge: depth("merge"),
            limits: all_limits_waiting(&facts.standing.counters),
            rows: runs.iter().map(|run| run.to_come).sum(),
        }
    }

    /// Each kind, as it is named in a sum.
    const fn kinds(&self) -> [(u64, &'static str); 5] {
        [
            (self.express, "express"),
            (self.campaigns, "of campaigns"),
            (self.merge, "on the merge queue"),
            (self.limits, "on limits' queues"),
            (self.rows, "not enqueued yet"),
        ]
    }

    pub fn all(&self) -> u64 {
        self.kinds().into_iter().map(|(waiting, _)| waiting).sum()
    }

    /// The sum and its parts, such as `1,302: 102 express, 1,200 of campaigns`.
    pub fn in_words(&self) -> String {
        let parts = self.kinds().into_iter().filter(|(waiting, _)| *waiting > 0);
        let parts: Vec<_> = parts.map(|(waiting, of)| format!("{} {of}", count(waiting))).collect();
        if parts.is_empty() {
            return "nothing".to_owned();
        }
        format!("{}: {}", count(self.all()), parts.join(", "))
    }
}
