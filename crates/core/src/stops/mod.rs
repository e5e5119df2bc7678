//! Reasons to stop sending or to slow it down, and incidents of which operators are told.

pub mod back_pressure;
pub mod breaker;
pub mod daily;
pub mod incidents;
pub mod refusals;
pub mod reputation;
