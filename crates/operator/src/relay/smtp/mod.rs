//! SMTP submission: a dialogue without IO, and the server around it.

mod dialogue;
mod login;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use login::SmtpUsers;
pub(super) use login::network;
pub(crate) use server::{Encryption, SmtpServer, SmtpSettings, serve};
