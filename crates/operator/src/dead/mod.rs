//! The dead-letter queue: listed without removing anything, and replayed or discarded after a review.
//!
//! SQS has no way to look into a queue. Messages are received, which hides them for the visibility
//! timeout, and are made visible again at the end. Two simultaneous readers each see a part.

mod args;
pub(crate) mod command;
mod edit;
mod letter;
mod list;
mod raw;
mod read;
mod replay;
mod report;
mod review;

pub use args::DeadArgs;
pub use edit::{Corrections, InvalidCorrection};
pub use letter::{Doubt, Letter, LetterContent, LetterFilter};
pub use list::{
    ExportReport, Grouping, LetterDetails, LetterGroup, LetterGroups, LetterList, export, groups,
    list, show,
};
pub use read::{Coverage, LetterProgress, LetterSnapshot, read};
pub use replay::{LetterPorts, ReplayPace, carry_out};
pub use report::{LetterAction, LetterError, LetterReport};
pub use review::{
    DiscardReview, LetterWork, ReplayMail, Review, ReviewGroup, ReviewOptions, ReviewRefusal,
    review,
};
pub(crate) use review::{LetterVerdict, judge, marks_of};

#[cfg(test)]
mod tests;
