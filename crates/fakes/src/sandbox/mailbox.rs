//! The mailbox: every accepted mail's metadata, and the last mails whole.

mod mail;
mod stats;
mod store;

pub(crate) use mail::{MailFields, MailKind, address_of, rfc3339};
pub use mail::{MailRecord, MailStatus};
pub(crate) use stats::ArrivalCounts;
pub use stats::{MailCount, Second, SesStats};
pub(crate) use store::{MailStore, MailboxLimits};
