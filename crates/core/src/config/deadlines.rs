//! The latest times at which the stages of a poller may end, such that even the slowest poller, in
//! which each call takes its whole time limit, ends before Lambda's timeout.
//!
//! ```text
//! start      close                    DECIDED     MOVED      SETTLED      REPORTED   time-out
//!   │ ≤ 2.5 s  │ 0.3 s + send time-out   │ move 2 s │ delete 2 s │ report 1.5 s │ 0.5 s │
//!              │               ledger 1 s│
//! ```
//!
//! Seconds after the window's close: decided 6.5, moved 8.5, settled 10.5, reported 12.0, timeout 12.5.
//!
//! A message received after the start is invisible for 30 s, which is longer than the poller can run
//! (15 s).

use std::time::Duration;

use crate::tick::EARLIEST;

/// The timeout of the poller's Lambda function: 15 s.
pub const POLLER_TIMEOUT: Duration = Duration::from_secs(15);
/// The time limit of one call to a queue with all its retries: 2 s. The wait of a long poll is added to
/// it.
pub const QUEUE_CALL: Duration = Duration::from_secs(2);

/// From the window's close to the timeout of a poller that started as early as a tick may arrive: 15 s
/// − 1.5 s − 1 s = 12.5 s.
const AFTER_CLOSE: Duration =
    POLLER_TIMEOUT.saturating_sub(EARLIEST).saturating_sub(Duration::from_secs(1));
/// The latest start of a send after its slot: 300 ms. Half the largest rate margin is 250 ms, and a
/// shared bucket answers within 300 ms.
pub const LAST_START: Duration = Duration::from_millis(300);
/// Time for the ledger once SES has answered: a hold, a mark, a read of the breaker's state.
const DECIDING: Duration = Duration::from_secs(1);
const REPORTING: Duration = Duration::from_millis(1_500);
/// Time for the metrics and for the answer to Lambda.
const SPARE: Duration = Duration::from_millis(500);

/// 12.0 s after the window's close: the window report is written, with everything that goes with it.
pub const REPORTED: Duration = AFTER_CLOSE.saturating_sub(SPARE);
/// 10.5 s after the window's close: every message is settled, and failed deletes are retried.
pub const SETTLED: Duration = REPORTED.saturating_sub(REPORTING);
/// 8.5 s after the window's close: a message that moves to another queue or is deferred has arrived
/// there, and its delete begins.
pub const MOVED: Duration = SETTLED.saturating_sub(QUEUE_CALL);
/// 6.5 s after the window's close: the outcome of every message is known, or no longer waited for.
pub const DECIDED: Duration = MOVED.saturating_sub(QUEUE_CALL);
/// The longest allowed send timeout, 5.2 s, which leaves the other stages their time.
pub(super) const LONGEST_SEND: Duration =
    DECIDED.saturating_sub(DECIDING).saturating_sub(LAST_START);
