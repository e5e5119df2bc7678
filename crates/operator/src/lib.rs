//! The operator's commands on a running stack. Each has arguments, a use case over the ports of [`tidegate_delivery`] that
//! returns a report, and the report's [`Page`](page::Page) for people; machines get it as JSON.
//!
//! Commands and tests call the same use cases: one with the AWS adapters, the other in memory under
//! simulated time.

pub mod audit;
mod campaign;
mod cancel;
pub mod commands;
pub mod connections;
pub mod dead;
pub mod doctor;
pub mod exclude;
pub mod history;
mod last_answer;
pub mod level;
mod limit;
mod mcp;
pub mod page;
pub mod plan;
pub use tidegate_core::redact;
pub mod relay;
pub mod results;
pub mod runs;
pub mod send;
pub mod shell;
pub mod stack;
pub mod status;
pub mod steer;
pub mod store;
pub mod suggest;
pub mod suppression;
pub mod text_file;
pub mod top;
pub mod why;
