//! Nothing to send: when to look into empty queues again, and when a minute needs no tick a second.
//!
//! Two bounds, of a mail that becomes visible where nothing else waits:
//!
//! - Ticked every window, the pollers look into all queues again after 1, 2, 4, … windows, at most
//!   `TIDEGATE_IDLE_WINDOWS`; a look that failed is made good two windows later.
//! - With `TIDEGATE_IDLE_WAKE_SECONDS` above 1 the scheduler leaves ticks out, once nothing was found
//!   for [`STILL`] windows. The next tick comes at most so many seconds after the newest look that
//!   found every queue empty, and one that brings no such look is followed by a tick every window.

use crate::timestamp::Window;

/// Windows without a mail until ticks are left out: longer than a visibility timeout (30 s) and a
/// poller's life (15 s), so that nothing is in flight and every report has come.
pub const STILL: u64 = 45;

/// Windows of one scheduler run: a minute's.
pub const RUN: u64 = 60;

/// When the pollers last found mail, and when they last found none anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueChecks {
    /// The newest window in which a poller received mail, as reported.
    pub found: Option<Window>,
    /// The newest window in which a poller asked every queue by a long poll, and each was empty.
    pub empty: Option<Window>,
}

impl QueueChecks {
    /// Whether nothing was found in the [`STILL`] windows before `at`. Not where it is not known when
    /// something was.
    pub fn is_still(&self, at: Window) -> bool {
        self.found.is_some_and(|found| found.plus(STILL) <= at)
    }

    /// Whether the look of `window` is reported and found nothing, nor any since.
    pub fn confirms(&self, window: Window) -> bool {
        self.empty >= Some(window) && self.found < Some(window)
    }
}

/// Whether the poller of `window` looks into all queues, of which the first is `due` and of which all
/// were empty; `previous` is the claim before.
///
/// It does where windows were left out (ticks are few then, or were lost). Else the poller of the
/// window before may be at it, and has not reported: so every other window does.
pub fn looks(due: Window, previous: Option<Window>, window: Window) -> bool {
    let follows = previous.is_some_and(|previous| previous.plus(1) >= window);
    !follows || (due <= window && window.saturating_since(due).is_multiple_of(2))
}

/// What a scheduler run does next, as long as it leaves ticks out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleStep {
    /// It issues a tick for every window from now on.
    EveryWindow,
    /// It issues the tick of this window, and none before.
    Tick(Window),
    /// It ends: the next tick is the next run's.
    End,
}

/// One scheduler run's sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleRun {
    /// The run's first window.
    first: Window,
    /// The first window that the run before is not sure to serve.
    alone: Window,
    overlap: u64,
    wake: u64,
}

impl IdleRun {
    /// A run from `first` on, that issues `overlap` windows more than a minute's, and one tick in
    /// `wake` seconds while all is empty; `newest` is the newest claim.
    ///
    /// Where that is as new as can be the run before is still at work: its ticks are left to it.
    pub fn new(first: Window, overlap: u64, wake: u64, newest: Option<Window>) -> Self {
        let at_work = newest.is_some_and(|newest| newest.plus(2) >= first);
        let alone = if at_work { first.plus(overlap + 1) } else { first };
        Self { first, alone, overlap, wake }
    }

    /// What to do where `from` is the first window whose tick can still be sent.
    pub fn next(&self, looks: &QueueChecks, from: Window) -> IdleStep {
        let Some(empty) = looks.empty.filter(|empty| looks.is_still(*empty) && *empty < from)
        else {
            return IdleStep::EveryWindow;
        };
        if self.wake <= 1 {
            return IdleStep::EveryWindow;
        }
        let end = self.first.plus(RUN + self.overlap);
        let due = empty.plus(self.wake).max(from).max(self.alone);
        // A tick brought forward to here lets the run end, and not be billed for waiting.
        let early = self.first.plus(self.overlap + 1);
        let due = if early >= from && early.plus(self.wake) >= end { due.min(early) } else { due };
        if due >= end { IdleStep::End } else { IdleStep::Tick(due) }
    }

    /// Whether a window is the run's own, and not of its overlap with the next.
    pub fn owns(&self, window: Window) -> bool {
        window < self.first.plus(RUN)
    }
}

#[cfg(test)]
mod tests;
