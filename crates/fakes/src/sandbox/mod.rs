//! The fakes of SES and SQS over HTTP: [`ses`] and [`sqs`], by one server.

mod connection;
pub mod listener;
mod mailbox;
pub mod program;
mod server;
pub mod ses;
pub mod sqs;

pub use server::{ListenError, Sandbox};
