//! The message: the JSON that a producer sends to a campaign queue. It is checked before anything is
//! sent.
//!
//! There are two forms. The short form is enough for a text to one recipient:
//!
//! ```
//! use tidegate_core::email::Email;
//! let email = Email::parse(r#"{"to_address": "ada@example.com", "from_address":
//!     "news@example.org", "subject": "Hello", "body": "Text."}"#).unwrap();
//! assert_eq!((email.recipients(), email.to()[0].addr_spec()), (1, "ada@example.com"));
//! ```
//!
//! The long form has `to`, `cc`, `bcc` and `reply_to` (a string or a list), `from`, `subject`, `text`,
//! `html` or a `template` {`name`, `data`}, `headers`, `attachments`, `configuration_set` and
//! `list_unsubscribe` (an https address, or {`url`, `mailto`}). Both forms may contain `id`, `priority`
//! and `tags`. A member that is `null` counts as absent. Unknown members are refused, except `metadata`
//! and names that begin with `x_`.

mod address;
mod canonical;
mod content;
mod error;
mod headers;
pub(crate) mod json;
pub(crate) mod listed;
mod literal;
pub(crate) mod members;
mod priority;
mod read;
pub(crate) mod schema;
mod senders;
mod tags;
mod text;
pub(crate) mod wrapped;

use std::collections::BTreeMap;

pub use address::{Address, AddressError, plain_address};
pub use content::{Attachment, Content};
pub use error::{EmailError, EmailErrorKind};
pub use headers::{Header, ListUnsubscribe};
pub use literal::TextLiteral;
pub use priority::Priority;
pub use read::{addressed_to, id_of};
pub(crate) use read::{read_id, read_priority, read_tags};
pub use schema::{MESSAGE_VERSION, message_schema};
pub use senders::{AllowedSenders, AllowedSendersError};
pub use tags::ses_tag_value;

/// Most recipients in `to`, `cc` and `bcc` together that SES takes in one mail.
pub const MAX_RECIPIENTS: usize = 50;

/// Most characters of a producer's `id`.
pub const MAX_ID_CHARS: usize = 256;

/// A mail that SES can be given. Everything that can be checked without SES has been checked.
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
    /// [`EmailError`] for the first fault, with the field.
    pub fn parse(body: &str) -> Result<Self, EmailError> {
        read::email(body)
    }

    /// Writes the mail as JSON in the long form, without unused members. Reading the result gives the
    /// same mail.
    ///
    /// # Errors
    /// An error of the JSON writer; no parsed mail causes one.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        canonical::write(self)
    }

    /// Number of recipients that SES counts, which is the number of slots for the mail: 1 to 50.
    pub fn recipients(&self) -> u32 {
        // At most 50, so the conversion never fails.
        u32::try_from(self.to.len() + self.cc.len() + self.bcc.len()).unwrap_or(u32::MAX)
    }

    /// The producer's id of 1 to 256 characters; none if the message has none.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The mail's priority within its campaign.
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// The sender's address, with its display name if it has one.
    pub const fn from(&self) -> &Address {
        &self.from
    }

    /// The recipients in `to`, in the message's order.
    pub fn to(&self) -> &[Address] {
        &self.to
    }

    /// The recipients in `cc`, in the message's order.
    pub fn cc(&self) -> &[Address] {
        &self.cc
    }

    /// The recipients in `bcc`, in the message's order.
    pub fn bcc(&self) -> &[Address] {
        &self.bcc
    }

    /// The addresses for replies; empty if replies go to the sender.
    pub fn reply_to(&self) -> &[Address] {
        &self.reply_to
    }

    /// Subject and bodies, or a template with its data.
    pub const fn content(&self) -> &Content {
        &self.content
    }

    /// Names and values of all headers for SES: the producer's, and those of
    /// [`Email::list_unsubscribe`]. At most 15.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.headers.iter().map(|h| (h.name.as_str(), h.value.as_str()));
        own.chain(self.list_unsubscribe.iter().flat_map(ListUnsubscribe::headers))
    }

    /// The attached files, in the message's order.
    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    /// The SES configuration set; none if the message names none.
    pub fn configuration_set(&self) -> Option<&str> {
        self.configuration_set.as_deref()
    }

    /// The addresses for one-click unsubscription; none if the message has none.
    pub const fn list_unsubscribe(&self) -> Option<&ListUnsubscribe> {
        self.list_unsubscribe.as_ref()
    }

    /// The producer's SES tags by name: at most 48, without Tidegate's own two.
    pub const fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }
}
