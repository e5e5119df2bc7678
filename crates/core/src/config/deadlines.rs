//! When the stages of a window's poller end at the latest, so that the slowest one, in which every call
//! takes its whole time limit, ends before Lambda ends it.
//!
//! ```text
//! start      close                    DECIDED     MOVED      SETTLED      REPORTED   time-out
//!   │ ≤ 2.5 s  │ 0.3 s + send time-out   │ move 2 s │ delete 2 s │ report 1.5 s │ 0.5 s │
//!              │               ledger 1 s│
//! ```
//!
//! A message that is received after the start is invisible for 30 s, so until after the time-out.

use std::time::Duration;

use crate::tick::EARLIEST;

/// The poller function's time-out.
pub const POLLER_TIMEOUT: Duration = Duration::from_secs(15);
/// What a call to a queue may take in all, its retries included; a long poll's wait comes on top.
pub const QUEUE_CALL: Duration = Duration::from_secs(2);

/// From a window's close to the time-out of a poller that started as early as a tick may reach it.
const AFTER_CLOSE: Duration =
    POLLER_TIMEOUT.saturating_sub(EARLIEST).saturating_sub(Duration::from_secs(1));
/// How late a send of the last slot starts: half the largest rate margin is 250 ms, and a shared
/// bucket answers within 300 ms.
pub const LAST_START: Duration = Duration::from_millis(300);
/// For what the ledger is asked or told once SES has answered: a hold, a mark, a look at the breaker.
const DECIDING: Duration = Duration::from_secs(1);
const REPORTING: Duration = Duration::from_millis(1_500);
/// For the metrics and the answer to Lambda.
const SPARE: Duration = Duration::from_millis(500);

/// After the window's close: the report is written, and what goes with it.
pub const REPORTED: Duration = AFTER_CLOSE.saturating_sub(SPARE);
/// After the window's close: every message is settled, failed deletes tried again included.
pub const SETTLED: Duration = REPORTED.saturating_sub(REPORTING);
/// After the window's close: what goes to another queue, or is deferred, stands there, and its delete begins.
pub const MOVED: Duration = SETTLED.saturating_sub(QUEUE_CALL);
/// After the window's close: nothing is waited for any more that decides what becomes of a message.
pub const DECIDED: Duration = MOVED.saturating_sub(QUEUE_CALL);
/// The longest send time-out that leaves the other stages their time.
pub(super) const LONGEST_SEND: Duration =
    DECIDED.saturating_sub(DECIDING).saturating_sub(LAST_START);
