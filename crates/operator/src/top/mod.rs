//! A live view of a running stack, with changes that the operator types.
//!
//! It does no IO: the terminal draws a [`Dashboard`] and passes keys to it.

mod dashboard;
mod prompt;
pub mod screen;

pub use dashboard::{CampaignRow, Dashboard, ExpressPace};
pub use prompt::{Key, KeyRequest, Prompt};

#[cfg(test)]
mod tests;
