//! Current figures, and their course over the last half hour, six hours and two days.

mod current;
mod rate_history;

pub use current::{CampaignFigures, ExpressFigures, MonitorFigures, StackFigures};
pub(crate) use current::{precise, seconds, size};
pub use rate_history::{Curves, LongHistory, LongSpan, RateHistory};

#[cfg(test)]
mod tests;
