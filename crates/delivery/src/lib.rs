//! Tidegate's two use cases over narrow ports: [`schedule`] issues one tick per window, [`poll`] serves one
//! window (feed, drain, settle).
//!
//! During its minute a scheduler also counts SES's bounces and complaints ([`feedback`]) and judges the
//! back-pressure level ([`back_pressure`]); [`schedule::minute`] combines them, and fills the queues
//! from the store ([`schedule::refill`]).
//!
//! Each use case is one future that spawns no tasks. Dropping the future at any await point therefore acts
//! like a crash at that point. The simulation uses this to show that no crash loses mail.

// Other crates call these items; the lint is off in most of the workspace.
#![warn(missing_docs)]

pub mod back_pressure;
pub mod bucketed;
mod campaigns;
pub mod control;
pub mod feedback;
pub mod incidents;
pub mod poll;
pub mod ports;
pub mod quota;
pub mod schedule;
mod waiting;
