//! The operator's use cases on a running stack, over the ports of [`tidegate_delivery`]. Each
//! returns a report that can be written as JSON for machines and as a [`Page`](page::Page) for
//! people.
//!
//! The command line (`tidegate`) and the tests call the same functions: one with the AWS adapters,
//! the other in memory under simulated time.

pub mod dead;
pub mod deferral;
pub mod doctor;
pub mod exclude;
pub mod format;
pub mod history;
pub mod level;
pub mod page;
pub mod reconcile;
pub mod redact;
pub mod results;
pub mod send;
pub mod status;
pub mod steer;
pub mod suggest;
pub mod suppression;
pub mod text_file;
pub mod top;
pub mod why;
