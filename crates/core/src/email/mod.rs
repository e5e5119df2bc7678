//! The message: what a producer puts on a campaign queue, checked before anything is sent.
//!
//! Two forms. The short one is the whole of what a producer must know:
//!
//! ```
//! use tidegate_core::email::Email;
//! let email = Email::parse(r#"{"to_address": "ada@example.com", "from_address":
//!     "news@example.org", "subject": "Hello", "body": "Text."}"#).unwrap();
//! assert_eq!((email.recipients(), email.to()[0].addr_spec()), (1, "ada@example.com"));
//! ```
//!
//! The long one has `to`, `cc`, `bcc` and `reply_to` (a string or a list), `from`, `subject`,
//! `text`, `html` or a `template` {`name`, `data`}, `headers`, `attachments`,
//! `configuration_set` and `list_unsubscribe` (an https address, or {`url`, `mailto`}). Both may
//! hold `id`, `priority` and `tags`. A member that is `null` counts as absent. Unknown members
//! are refused, except `metadata` and names that begin with `x_`.

mod address;
mod canonical;
mod content;
mod error;
mod headers;
mod json;
mod literal;
mod members;
mod priority;
mod read;
mod senders;
mod tags;
mod text;

use std::collections::BTreeMap;

pub use address::{Address, AddressError};
pub use content::{Attachment, Content};
pub use error::{EmailError, EmailErrorKind};
pub use headers::{Header, ListUnsubscribe};
pub use literal::TextLiteral;
pub use priority::Priority;
pub use read::addressed_to;
pub use senders::{AllowedSenders, AllowedSendersError};
pub use tags::ses_tag_value;

/// Recipients that SES takes in one mail, over to, cc and bcc.
pub const MAX_RECIPIENTS: usize = 50;

/// Characters that a producer's `id` may have.
pub const MAX_ID_CHARS: usize = 256;

/// A mail that SES can be given: whatever could be checked has been.
#[derive(Debug, Clone, PartialEq, Eq)]
// More than 12 fields: one for each member of a message.
pub struct Email {
    id: Option<String>,
    priority: Priority,
    from: Address,
    to: Vec<Address>,
    cc: Vec<Address>,
    bcc: Vec<Address>,
    reply_to: Vec<Address>,
    content: Content,
    headers: Vec<Header>,
    attachments: Vec<Attachment>,
    configuration_set: Option<String>,
    list_unsubscribe: Option<ListUnsubscribe>,
    tags: BTreeMap<String, String>,
}

impl Email {
    /// Reads a message body in either form.
    ///
    /// # Errors
    /// The first fault found, with its field: see [`EmailError`].
    pub fn parse(body: &str) -> Result<Self, EmailError> {
        read::email(body)
    }

    /// Writes the mail as JSON: the long form, only the members it uses. Reading that gives the
    /// same mail.
    ///
    /// # Errors
    /// None that a parsed mail can cause; the JSON writer's own are passed on.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        canonical::write(self)
    }

    /// How many recipients SES counts, and so slots the mail spends: 1 to 50.
    pub fn recipients(&self) -> u32 {
        // At most 50, so this never saturates.
        u32::try_from(self.to.len() + self.cc.len() + self.bcc.len()).unwrap_or(u32::MAX)
    }

    /// The producer's own id, where given: 1 to 256 characters.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// How urgent it is within its campaign.
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// The sender.
    pub const fn from(&self) -> &Address {
        &self.from
    }

    /// The recipients in `to`.
    pub fn to(&self) -> &[Address] {
        &self.to
    }

    /// The recipients in `cc`.
    pub fn cc(&self) -> &[Address] {
        &self.cc
    }

    /// The recipients in `bcc`.
    pub fn bcc(&self) -> &[Address] {
        &self.bcc
    }

    /// Where answers go, where that is not the sender.
    pub fn reply_to(&self) -> &[Address] {
        &self.reply_to
    }

    /// Subject and body, or a template.
    pub const fn content(&self) -> &Content {
        &self.content
    }

    /// Name and value of every header that SES must be given: the producer's, and those of
    /// [`Email::list_unsubscribe`]. At most 15.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.headers.iter().map(|h| (h.name.as_str(), h.value.as_str()));
        own.chain(self.list_unsubscribe.iter().flat_map(ListUnsubscribe::headers))
    }

    /// The files that go with it.
    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    /// The SES configuration set, where given.
    pub fn configuration_set(&self) -> Option<&str> {
        self.configuration_set.as_deref()
    }

    /// Where a recipient unsubscribes with one click, where given.
    pub const fn list_unsubscribe(&self) -> Option<&ListUnsubscribe> {
        self.list_unsubscribe.as_ref()
    }

    /// The producer's SES tags: at most 48, none of Tidegate's own.
    pub const fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }
}
