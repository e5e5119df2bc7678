use serde::Serialize;
use thiserror::Error;
use tidegate_delivery::ports::PortError;

use crate::steer::MAX_REASON_CHARS;

/// What a replay came to. Whatever was not sent stands on the dead-letter queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
    pub filter: String,
    pub by: String,
    pub reason: String,
    /// Mails that were to be sent.
    pub of: u64,
    /// Mails that stand on their campaigns' queues, acknowledged.
    pub sent: u64,
    /// Letters of mails that had been sent, deleted.
    pub dropped: u64,
    /// Mails that were found sent, or perhaps just being sent, after the review.
    pub sent_meanwhile: u64,
    pub refused: u64,
    /// Mails of which SQS did not say whether it took them.
    pub uncertain: u64,
    /// Letters of mails that were sent, and that could not be deleted.
    pub not_deleted: u64,
    /// Letters that were not found any more.
    pub not_found: u64,
    /// Messages that could not be made visible again.
    pub still_hidden: u64,
    pub interrupted: bool,
    /// Whether the history has its end.
    pub recorded: bool,
    pub took_s: u64,
}

impl ReplayReport {
    /// Whether all was done that was to be done.
    pub const fn is_whole(&self) -> bool {
        self.sent == self.of
            && self.not_deleted == 0
            && self.not_found == 0
            && self.uncertain == 0
            && !self.interrupted
    }
}

/// Why a replay did not begin, or broke off.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The reason is empty or too long; nothing was done.
    #[error("the reason has {0} characters; allowed are 1 to {MAX_REASON_CHARS}")]
    Reason(usize),
    /// The rate is none; nothing was done.
    #[error("the rate is {0}; allowed is a number above 0")]
    Rate(f64),
    /// It could not be recorded who replays what; nothing was done.
    #[error("nothing was replayed: it cannot be recorded who did it")]
    NotRecorded(#[source] PortError),
    /// A service failed on the way.
    #[error("{} of {} were replayed; run it again to go on", report.sent, report.of)]
    Broken { report: Box<ReplayReport>, source: PortError },
}
