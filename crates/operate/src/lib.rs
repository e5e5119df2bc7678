//! What an operator does with a running stack: use cases over the ports of [`tidegate_delivery`],
//! each giving a report that is written as JSON for machines and as a [`Page`](page::Page) for people.
//!
//! The command line (`tidegate`) and the tests run the same functions: the one on AWS, the others in
//! memory under simulated time.

pub mod bucket;
pub mod dead;
pub mod deferral;
pub mod doctor;
pub mod format;
pub mod level;
pub mod page;
pub mod reconcile;
pub mod redact;
pub mod send;
pub mod status;
pub mod steer;
pub mod top;
pub mod why;
