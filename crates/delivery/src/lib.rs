//! Tidegate's two use cases over narrow ports: [`schedule`] issues a tick a window, [`poll`] serves
//! one window (feed, drain, settle). Beside its ticks a scheduler reads what SES reports and judges the
//! [`back_pressure`]: [`scheduler_run`]. [`replay`] brings deferred mail back.
//!
//! Each use case is one future without spawned tasks: dropping it anywhere is a crash there, which
//! is how a simulation proves that nothing is lost.

// Other crates call these: the rest of the workspace needs no docs by rule.
#![warn(missing_docs)]

mod account;
pub mod back_pressure;
pub mod bucketed;
mod campaigns;
pub mod control;
pub mod environment;
pub mod feedback;
pub mod poll;
pub mod ports;
pub mod quota;
pub mod replay;
pub mod schedule;
mod schedule_report;
pub mod scheduler_run;
mod ticks;
mod ticks_first;
