//! Current figures, and their course over the last half hour.

mod current;
mod rate_history;

pub use current::{CampaignFigures, ExpressFigures, RecentSlots, SlotFigures, StackFigures};
pub(crate) use current::{precise, seconds, size};
pub use rate_history::RateHistory;

#[cfg(test)]
mod tests;
