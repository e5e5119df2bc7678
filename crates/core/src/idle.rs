//! Idle operation: when pollers check empty queues again, and when the scheduler leaves ticks out.
//!
//! Suppose that a mail becomes visible while nothing else waits. Two bounds hold for the time until it
//! is found:
//!
//! - With a tick for every window, pollers check all queues again after 1, 2, 4, … windows, at most
//!   `TIDEGATE_IDLE_WINDOWS`. If a check fails, another follows two windows later.
//! - With `TIDEGATE_IDLE_WAKE_SECONDS` above 1, the scheduler leaves ticks out once nothing was found
//!   for [`STILL`] windows. The next tick comes at most this many seconds after the last check that
//!   found every queue empty. If a tick brings no such result, every window is ticked again.
//!
//! Example with 20 s: the queues were empty in window 100, so the next tick is for window 120. If its
//! poller finds them empty, the next is for window 140.

use crate::timestamp::Window;

/// Windows without mail before ticks are left out. 45 s cover a visibility timeout (30 s) and a
/// poller's life (15 s), so nothing is in flight any more and every report has arrived.
pub const STILL: u64 = 45;

/// Windows of one scheduler run, which EventBridge starts once a minute.
pub const RUN: u64 = 60;

/// The latest results of the pollers' checks of the queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueChecks {
    /// The newest window in which a poller received mail, from the reports; none if that is not known.
    pub found: Option<Window>,
    /// The newest window in which a long poll of every queue returned nothing; none if there was none.
    pub empty: Option<Window>,
}

impl QueueChecks {
    /// True if no mail was found in the [`STILL`] windows before `at`. False if it is not known when
    /// mail was found last.
    pub fn is_still(&self, at: Window) -> bool {
        self.found.is_some_and(|found| found.plus(STILL) <= at)
    }

    /// True if the check of `window` or a later one found every queue empty, and no mail was found
    /// since.
    pub fn confirms(&self, window: Window) -> bool {
        self.empty >= Some(window) && self.found < Some(window)
    }
}

/// True if the poller of `window` must check all queues. All were empty; the first becomes `due` for a
/// check in that window. `previous` is the window of the last claim.
///
/// It checks if windows are missing between `previous` and `window`, because ticks were left out or
/// lost. Otherwise the poller of the window before may be checking and has not reported yet, so from
/// `due` on every second window checks.
pub fn looks(due: Window, previous: Option<Window>, window: Window) -> bool {
    let follows = previous.is_some_and(|previous| previous.plus(1) >= window);
    !follows || (due <= window && window.saturating_since(due).is_multiple_of(2))
}

/// The next step of a scheduler run that leaves ticks out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleStep {
    /// Issue a tick for every window from now on.
    EveryWindow,
    /// Issue the tick of this window, and of none before it.
    Tick(Window),
    /// End the run: the next tick belongs to the next run.
    End,
}

/// The plan of one scheduler run while all queues are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleRun {
    first: Window,
    /// The first window that the run before may not serve any more.
    alone: Window,
    overlap: u64,
    wake: u64,
}

impl IdleRun {
    /// A run whose first window is `first`. It is responsible for [`RUN`] + `overlap` windows and
    /// issues one tick in `wake` seconds while all queues are empty. `newest` is the window of the
    /// newest claim.
    ///
    /// If that claim is at most two windows before `first`, the run before is still active. This run
    /// then leaves the first `overlap` + 1 windows to it.
    pub fn new(first: Window, overlap: u64, wake: u64, newest: Option<Window>) -> Self {
        let at_work = newest.is_some_and(|newest| newest.plus(2) >= first);
        let alone = if at_work { first.plus(overlap + 1) } else { first };
        Self { first, alone, overlap, wake }
    }

    /// The next step, if `from` is the first window whose tick can still be sent in time.
    ///
    /// Example with `first` 120, `overlap` 5 (so the run ends before 185) and `wake` 60: all queues
    /// were empty in window 66, so the next tick is for 126. Its poller finds them empty again; the
    /// next tick would be for 186, so the run ends. Had the queues been empty in window 68, the tick
    /// due in 128 would be sent for 126 instead.
    pub fn next(&self, looks: &QueueChecks, from: Window) -> IdleStep {
        // Ticks are left out only on evidence: a check of every queue, after 45 windows without mail.
        let Some(empty) = looks.empty.filter(|empty| looks.is_still(*empty) && *empty < from)
        else {
            return IdleStep::EveryWindow;
        };
        if self.wake <= 1 {
            return IdleStep::EveryWindow;
        }
        let end = self.first.plus(RUN + self.overlap);
        // Not before this run's first own window: the run before ticks until then.
        let due = empty.plus(self.wake).max(from).max(self.alone);
        // If the tick after the one at `early` would lie behind this run's end, the tick is sent at `early`.
        // The run then ends at once instead of waiting for its tick, which would be billed.
        let early = self.first.plus(self.overlap + 1);
        let due = if early >= from && early.plus(self.wake) >= end { due.min(early) } else { due };
        if due >= end { IdleStep::End } else { IdleStep::Tick(due) }
    }

    /// True if a window belongs to the run itself and not to its overlap with the next run.
    pub fn owns(&self, window: Window) -> bool {
        window < self.first.plus(RUN)
    }
}

#[cfg(test)]
mod tests;
