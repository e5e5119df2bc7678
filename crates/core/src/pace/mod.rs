//! When a send may start: the rate and its slots, who takes the slot that is due, and which second is served.

pub mod bucket;
pub mod factor;
pub mod grid;
pub mod idle;
pub mod limiter;
pub mod prefetch;
pub mod rate;
#[cfg(test)]
pub(crate) mod tests;
pub mod tick;
