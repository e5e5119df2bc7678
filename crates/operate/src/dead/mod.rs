//! The dead-letter queue: looked into without taking anything off it, and replayed after review.
//!
//! SQS has no way to look into a queue: what is read is received, which hides it for the visibility
//! timeout, and is made visible again at the end. Two readers at the same time each see a part.

mod export;
mod filter;
mod held;
mod letter;
mod read;
mod replay;
mod replayed;
mod report;
mod review;
mod view;

pub use export::{Exported, export};
pub use filter::Filter;
pub use letter::{Content, Doubt, Letter};
pub use read::{Coverage, Progress, Reading, read};
pub use replay::{Done, Pace, Site, replay};
pub use replayed::{ReplayError, Replayed};
pub use report::{By, Group, Groups, List, Row, Whole, groups, list, show};
pub use review::{Options, Order, Refusal, Review, ReviewGroup, review};

#[cfg(test)]
mod tests;
