//! A live view of a running stack: what was read each second, and what the operator types.
//!
//! All of it is pure: a terminal draws a [`Dashboard`] and hands its keys to it.

mod dashboard;
mod prompt;

pub use dashboard::{CampaignRow, Dashboard};
pub use prompt::{Key, KeyRequest, Prompt};

#[cfg(test)]
mod tests;
