//! The dead-letter queue: looked into without taking anything off it, and replayed after review.
//!
//! SQS has no way to look into a queue: what is read is received, which hides it for the visibility
//! timeout, and is made visible again at the end. Two readers at the same time each see a part.

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
