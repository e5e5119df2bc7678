//! The contents of the ledger: the control record, counters, runs.

pub mod control;
pub mod counters;
pub mod parts;
pub mod runs;
pub mod waits;
