//! The contents of the ledger: the control record, counters, runs; and of the log: the record of each window.

pub mod audit;
pub mod control;
pub mod counters;
pub mod parts;
pub mod runs;
pub mod waits;
