//! The fakes of SES and SQS over HTTP: [`ses`] and [`sqs`], by one server.

pub mod listener;
mod mailbox;
pub mod server;
pub mod ses;
pub mod sqs;

pub use listener::ListenError;
pub use server::Sandbox;
