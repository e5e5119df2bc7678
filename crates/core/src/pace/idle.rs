//! Idle operation: when pollers check empty queues again, and how the scheduler watches them without
//! pollers.
//!
//! Suppose that a mail becomes visible while nothing else waits. Two bounds hold for the time until it
//! is found:
//!
//! - With a tick for every window, pollers check all queues again after 1, 2, 4, … windows, at most
//!   `TIDEGATE_IDLE_WINDOWS`. If a check fails, another follows two windows later.
//! - With `TIDEGATE_IDLE_WAKE_SECONDS` above 1, the stack sleeps once nothing was found for [`STILL`]
//!   windows: there are no ticks, and the scheduler counts the messages of all queues once in this many
//!   seconds. SQS's counts may lag behind, so every [`EXACT`] windows one poller checks by long polls.
//!
//! Example with 60 s: no mail was found since window 50, and the poller of window 100 found every queue
//! empty. The run that begins in window 120 counts the messages; there are none, so it ends. So do the
//! runs of 180, 240 and 300. The run of 360 issues one tick: its poller checks by long polls.

use serde_json::Value;

use crate::grid::SlotGrid;
use crate::timestamp::Window;

/// Windows without mail before the stack sleeps. 45 s cover a visibility timeout (30 s) and a poller's
/// life (15 s), so nothing is in flight any more and every report has arrived.
pub const STILL: u64 = 45;

/// Windows after which a count is not believed any more. The next check is then a poller's, by long
/// polls, which see every message. With runs a minute apart such checks are at most five minutes apart.
pub const EXACT: u64 = 240;

/// Windows within which a delayed message is found once its delay is over.
const BECOMES_VISIBLE: u64 = 5;

/// Windows of one scheduler run, which EventBridge starts once a minute.
pub const RUN: u64 = 60;

/// The latest results of the pollers' checks of the queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueChecks {
    /// The newest window in which a poller received mail, from the reports; none if that is not known.
    pub found: Option<Window>,
    /// The newest window in which a long poll of every queue returned nothing; none if there was none.
    pub empty: Option<Window>,
    /// The last window for which timed mail stands on a queue, with SQS's delay; none if there never was any.
    pub due: Option<Window>,
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

    /// The check that lets the stack sleep in `from`: it is older, it found every queue empty, and there
    /// was no mail in the [`STILL`] windows before it. None while timed mail is due.
    pub fn rest(&self, from: Window) -> Option<Window> {
        let awake = self.awaits(from);
        self.empty.filter(|empty| !awake && self.is_still(*empty) && *empty < from)
    }

    /// True if timed mail may become visible in `window` or later, or just did.
    pub fn awaits(&self, window: Window) -> bool {
        self.due.is_some_and(|due| due.plus(BECOMES_VISIBLE) >= window)
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

/// The windows before `window` that no poller claimed although `grid` has slots in them. `previous` is the window of the
/// last claim. While a stack sleeps none is missed, nor before its first claim.
pub fn missed(
    grid: SlotGrid,
    previous: Option<Window>,
    window: Window,
    checks: &QueueChecks,
) -> u64 {
    let Some(previous) = previous.filter(|_| checks.rest(window).is_none()) else { return 0 };
    let next = previous.plus(1);
    // Below one slot a second a window may have none, and has no claim then.
    let slots = grid.first_from(window.opens()).saturating_sub(grid.first_from(next.opens()));
    window.saturating_since(next).min(slots)
}

/// True if somebody other than EventBridge invoked the scheduler, to have mail sent at once. EventBridge's
/// events say where they come from: a rule's from `aws.events`, a schedule's (of EventBridge Scheduler, without an input
/// of its own) from `aws.scheduler`.
///
/// ```
/// use serde_json::json;
/// use tidegate_core::idle::is_wake;
/// assert!(is_wake(&json!({})));
/// assert!(!is_wake(&json!({"source": "aws.events", "detail-type": "Scheduled Event"})));
/// assert!(!is_wake(&json!({"source": "aws.scheduler", "detail-type": "Scheduled Event"})));
/// ```
pub fn is_wake(event: &Value) -> bool {
    let source = event.get("source").and_then(Value::as_str);
    !matches!(source, Some("aws.events" | "aws.scheduler"))
}

/// The next step of a scheduler run that finds the stack asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleStep {
    /// Issue a tick for every window from now on.
    EveryWindow,
    /// Count the messages of all queues before the tick of this window would be due.
    Count(Window),
    /// Issue the tick of this window, whose poller checks all queues, and of none before it.
    Tick(Window),
    /// End the run: the next check belongs to the next run.
    End,
}

/// The plan of one scheduler run while all queues are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleRun {
    /// The run's first window, in which it checks all queues.
    pub first: Window,
    /// Seconds after which it checks them again.
    pub wake: u64,
}

impl IdleRun {
    /// The next step, if `from` is the first window whose tick can still be sent in time. `checked` is
    /// the window of this run's last check; `None` if it made none.
    pub fn next(&self, checks: &QueueChecks, checked: Option<Window>, from: Window) -> IdleStep {
        // The stack sleeps only on evidence: a check of every queue, after 45 windows without mail.
        let Some(empty) = checks.rest(from).filter(|_| self.wake > 1) else {
            return IdleStep::EveryWindow;
        };
        let due = checked.map_or(self.first, |checked| checked.plus(self.wake)).max(from);
        if due >= self.first.plus(RUN) {
            IdleStep::End
        } else if empty.plus(EXACT) <= due {
            IdleStep::Tick(due)
        } else {
            IdleStep::Count(due)
        }
    }

    /// Ticks that this run has left out of its own minute before `until`, if it has issued `ticked`.
    pub fn left_out(&self, until: Window, ticked: u64) -> u64 {
        until.saturating_since(self.first).min(RUN).saturating_sub(ticked)
    }
}

#[cfg(test)]
mod tests;
