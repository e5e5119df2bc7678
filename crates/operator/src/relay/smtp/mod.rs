//! SMTP submission: a dialogue without IO, and the server around it.

mod dialogue;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use server::{Encryption, SmtpServer, SmtpSettings, serve};
