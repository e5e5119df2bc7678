//! The dead-letter queue: listed without removing anything, and replayed or discarded after a review.
//!
//! SQS has no way to look into a queue. Messages are received, which hides them for the visibility
//! timeout, and are made visible again at the end. Two simultaneous readers each see a part.

mod discard;
mod edit;
mod export;
mod filter;
mod hidden;
mod letter;
mod letter_report;
mod read;
mod replay;
mod report;
mod review;
mod view;

pub use discard::{DiscardReview, discard};
pub use edit::{Corrections, InvalidCorrection};
pub use export::{ExportReport, export};
pub use filter::LetterFilter;
pub use letter::{Doubt, Letter, LetterContent};
pub use letter_report::{LetterAction, LetterError, LetterReport};
pub use read::{Coverage, LetterSnapshot, ReadProgress, read};
pub use replay::{LetterPorts, LetterProgress, ReplayPace, replay};
pub use report::{
    Grouping, LetterDetails, LetterGroup, LetterGroups, LetterList, LetterSummary, groups, list,
    show,
};
pub(crate) use review::{LetterVerdict, judge};
pub use review::{ReplayMail, Review, ReviewGroup, ReviewOptions, ReviewRefusal, review};

#[cfg(test)]
mod tests;
