//! The part of each campaign: its slots, the mail received for it, and its weight.

pub mod allocation;
pub mod cycle;
pub mod feed;
pub mod memory;
pub mod tagged;
pub mod turns;
