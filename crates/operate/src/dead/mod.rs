//! The dead-letter queue: listed without removing anything, and replayed after a review.
//!
//! SQS has no way to look into a queue. Messages are received, which hides them for the visibility
//! timeout, and are made visible again at the end. Two simultaneous readers each see a part.

mod export;
mod filter;
mod hidden;
mod letter;
mod read;
mod replay;
mod replay_report;
mod report;
mod review;
mod view;

pub use export::{ExportReport, export};
pub use filter::LetterFilter;
pub use letter::{Doubt, Letter, LetterContent};
pub use read::{Coverage, LetterSnapshot, ReadProgress, read};
pub use replay::{ReplayPace, ReplayPorts, ReplayProgress, replay};
pub use replay_report::{ReplayError, ReplayReport};
pub use report::{
    Grouping, LetterDetails, LetterGroup, LetterGroups, LetterList, LetterSummary, groups, list,
    show,
};
pub use review::{ReplayMail, Review, ReviewGroup, ReviewOptions, ReviewRefusal, review};

#[cfg(test)]
mod tests;
