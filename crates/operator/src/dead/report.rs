//! The result of a replay or a discard.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use strum::IntoStaticStr;
use thiserror::Error;
use tidegate_core::format::{count, span};
use tidegate_delivery::ports::PortError;

use crate::page::{Page, Tone, View};
use crate::send::RunError;
use crate::steer::InvalidReason;

/// Whether dead letters are sent again or deleted for good.
#[derive(Clone, Copy, Debug, Default, Eq, IntoStaticStr, PartialEq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum LetterAction {
    #[default]
    Replay,
    Discard,
}

/// The result of a replay or a discard. Mails that were not sent are still on the dead-letter queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
// More than 12 fields: one for each line of the report.
pub struct LetterReport {
    pub action: LetterAction,
    pub filter: String,
    pub by: String,
    pub reason: String,
    /// Mails that were to be sent, or letters that were to be discarded.
    pub of: u64,
    /// Mails that their campaigns' queues acknowledged.
    pub sent: u64,
    /// Letters that were deleted because their mails had been sent, or because they were discarded.
    pub dropped: u64,
    /// Mails that were sent, or began to be sent, between the review and the replay.
    pub sent_meanwhile: u64,
    pub refused: u64,
    /// Mails whose send got no answer from SQS.
    pub uncertain: u64,
    /// Letters of mails that were sent, and that could not be deleted.
    pub not_deleted: u64,
    /// Letters that were not found any more.
    pub not_found: u64,
    /// Messages that could not be made visible again.
    pub still_hidden: u64,
    pub interrupted: bool,
    /// Whether the end of the replay was recorded in the history.
    pub recorded: bool,
    pub took_s: u64,
}

impl LetterReport {
    /// Mails that were sent, or letters that were discarded.
    pub const fn done(&self) -> u64 {
        match self.action {
            LetterAction::Replay => self.sent,
            LetterAction::Discard => self.dropped,
        }
    }

    /// Whether everything that was reviewed was done.
    pub const fn is_whole(&self) -> bool {
        self.done() == self.of
            && self.not_deleted == 0
            && self.not_found == 0
            && self.uncertain == 0
            && !self.interrupted
    }
}

/// Why a replay did not begin, or broke off.
#[derive(Debug, Error)]
pub enum LetterError {
    /// Nothing was done.
    #[error(transparent)]
    Reason(#[from] InvalidReason),
    /// The rate is not a positive number; nothing was done.
    #[error("the rate is {0}; allowed is a number above 0")]
    Rate(f64),
    /// The replay could not be recorded in the history; nothing was done.
    #[error("nothing was done: it cannot be recorded who did it")]
    NotRecorded(#[source] PortError),
    /// The ledger could not be told whose mail was taken back; nothing was done.
    #[error("nothing was done: the ledger cannot be told whose mail was taken back")]
    NotReturned(#[source] RunError),
    /// A service failed on the way.
    #[error("{} of {} were {}ed; run it again to go on", report.done(), report.of, report.action.into_str())]
    Broken { report: Box<LetterReport>, source: PortError },
}

impl View for LetterReport {
    fn view(&self, page: &mut Page) {
        let tone = if self.is_whole() { Tone::Good } else { Tone::Warning };
        let (done, of, action) = (count(self.done()), count(self.of), self.action.into_str());
        let took = span(Duration::from_secs(self.took_s));
        page.line(tone, format!("{done} of {of} {action}ed, in {took}"));
        page.line(Tone::Faint, format!("by {}: {}", self.by, self.reason));
        let mut say = |number: u64, text: &str| {
            if number > 0 {
                page.line(Tone::Warning, format!("{} {text}", count(number)));
            }
        };
        if self.action == LetterAction::Replay {
            say(self.dropped, "had been sent, and were deleted");
        }
        say(self.sent_meanwhile, "were sent meanwhile, and stand on the dead-letter queue");
        say(self.refused, "were refused by SQS, and stand on the dead-letter queue");
        say(self.not_found, "were not found: another process deleted them, or hides them");
        say(
            self.not_deleted,
            match self.action {
                LetterAction::Discard => "could not be deleted: run it again",
                LetterAction::Replay => {
                    "were sent, and could not be deleted from the dead-letter queue: replayed within 5 minutes or with deduplication on they are sent once"
                }
            },
        );
        say(
            self.uncertain,
            "may have been sent (SQS did not answer), and stand on the dead-letter queue: replayed within 5 minutes or with deduplication on they are sent once",
        );
        say(self.still_hidden, "messages of the dead-letter queue stay hidden for up to 30 s");
        if self.interrupted {
            page.line(Tone::Warning, "interrupted: run it again to go on");
        }
        if !self.recorded {
            let said = "the history has the beginning, not the end: the ledger did not answer";
            page.line(Tone::Warning, said);
        }
    }
}
