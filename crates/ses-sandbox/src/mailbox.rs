//! The mailbox: every accepted mail's metadata, and the last mails whole.

mod mail;
mod store;

pub(crate) use mail::{Draft, address_of, rfc3339};
pub use mail::{Mail, MailKind, MailStatus};
pub(crate) use store::{Keep, MailStore};
