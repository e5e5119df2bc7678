//! The message: the JSON that a producer sends to a campaign queue. It is checked before anything is
//! sent.
//!
//! There are three forms. The short form is enough for a text to one recipient:
//!
//! ```
//! use tidegate_core::email::Email;
//! let email = Email::parse(r#"{"to_address": "ada@example.com", "from_address":
//!     "news@example.org", "subject": "Hello", "body": "Text."}"#).unwrap();
//! assert_eq!((email.recipients(), email.to[0].addr_spec()), (1, "ada@example.com"));
//! ```
//!
//! The long form has `to`, `cc`, `bcc` and `reply_to` (a string or a list), `from`, `subject`, `text`,
//! `html` or a `template` {`name`, `data`}, `headers`, `attachments`, `configuration_set` and
//! `list_unsubscribe` (an https address, or {`url`, `mailto`}). The raw form has a MIME message in base64 as `raw`, with
//! `from` and all recipients in `to` as its envelope. The content of the long and the raw form may be an object of the store, to
//! which the member `stored` {`name`, `bytes`} points. All forms may contain `id`, `priority`, `tags` and `not_before`. A member that is `null` counts as absent. Unknown members are refused, except `metadata`
//! and names that begin with `x_`.

mod address;
mod content;
mod error;
mod headers;
pub(crate) mod json;
pub(crate) mod members;
mod raw;
mod read;
mod senders;
mod stored;
mod tags;
pub(crate) mod wrapped;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::identity::EpochMillis;

pub(crate) use address::is_host_name;
pub use address::{Address, AddressError, plain_address};
pub use content::{Attachment, Content, file_name_fault};
pub use error::{EmailError, EmailErrorKind};
pub use headers::{Header, ListUnsubscribe};
pub use json::TextLiteral;
pub use raw::{HeaderField, RawMail, header_fields, without_fields};
pub use read::{addressed_to, id_of};
pub(crate) use read::{read_id, read_not_before, read_priority, read_tags};
pub use senders::AllowedSenders;
pub use stored::{
    LARGE_FOLDER, LargeObject, MAX_MAIL_BYTES, MAX_STORED_BYTES, SizedBody, StoredContent,
    TooLarge, split,
};
pub use tags::ses_tag_value;

/// Most recipients in `to`, `cc` and `bcc` together that SES takes in one mail.
pub const MAX_RECIPIENTS: usize = 50;

/// Most characters of a producer's `id`.
pub const MAX_ID_CHARS: usize = 256;

/// A mail that SES can be given. Everything that can be checked without SES has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive] // Only the parser makes one.
// More than 12 fields: one for each member of a message.
pub struct Email {
    /// The producer's id of 1 to 256 characters; none if the message has none.
    pub id: Option<String>,
    /// The mail's priority within its campaign.
    pub priority: Priority,
    /// The time before which it may not be sent; none if it may be sent at once.
    pub not_before: Option<EpochMillis>,
    /// The sender's address, with its display name if it has one; of a raw mail the envelope's.
    pub from: Address,
    /// The recipients in `to`, in the message's order; of a raw mail all.
    pub to: Vec<Address>,
    /// The recipients in `cc`, in the message's order.
    pub cc: Vec<Address>,
    /// The recipients in `bcc`, in the message's order.
    pub bcc: Vec<Address>,
    /// The addresses for replies; empty if replies go to the sender.
    pub reply_to: Vec<Address>,
    /// Subject and bodies, a template with its data, or a MIME message.
    pub content: Content,
    /// The headers that the producer sets.
    pub own_headers: Vec<Header>,
    /// The attached files, in the message's order.
    pub attachments: Vec<Attachment>,
    /// The SES configuration set; none if the message names none.
    pub configuration_set: Option<String>,
    /// The addresses for one-click unsubscription; none if the message has none.
    pub list_unsubscribe: Option<ListUnsubscribe>,
    /// The producer's SES tags by name: at most 48, without Tidegate's own two.
    pub tags: BTreeMap<String, String>,
}

impl Email {
    /// Number of recipients that SES counts, which is the number of slots for the mail: 1 to 50.
    pub fn recipients(&self) -> u32 {
        // At most 50, so the conversion never fails.
        u32::try_from(self.to.len() + self.cc.len() + self.bcc.len()).unwrap_or(u32::MAX)
    }

    /// The MIME message; none of a mail in another form.
    pub const fn raw(&self) -> Option<&RawMail> {
        match &self.content {
            Content::Raw(raw) => Some(raw),
            _ => None,
        }
    }

    /// Where the content is, if it was not read yet.
    pub const fn stored(&self) -> Option<&StoredContent> {
        match &self.content {
            Content::Stored(stored) => Some(stored),
            _ => None,
        }
    }

    /// The bytes of its texts and files, as they stand in a request.
    pub fn content_bytes(&self) -> usize {
        let literal =
            |text: &Option<TextLiteral>| text.as_ref().map_or(0, |text| text.literal().len());
        let content = match &self.content {
            Content::Simple { text, html, .. } => literal(text) + literal(html),
            Content::Template { data, .. } => data.len(),
            Content::Raw(raw) => raw.base64().len(),
            Content::Stored(_) => 0,
        };
        content
            + self.attachments.iter().map(|file| file.content.len().div_ceil(3) * 4).sum::<usize>()
    }

    /// Names and values of all headers for SES: the producer's, and those of `list_unsubscribe`. At most 15.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.own_headers.iter().map(|h| (h.name.as_str(), h.value.as_str()));
        own.chain(self.list_unsubscribe.iter().flat_map(ListUnsubscribe::headers))
    }
}

/// Orders the mails of one campaign that a poller has received for its window: the mail with the
/// greater priority is sent first. Mail in the queue is not reordered: a critical mail behind a backlog
/// waits until it is received, unless it is in a priority queue.
///
/// ```
/// use tidegate_core::email::Priority;
/// assert!(Priority::Critical > Priority::High);
/// assert_eq!(Priority::default(), Priority::Normal);
/// ```
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Priority {
    /// Sent after all mail of other priorities.
    Low,
    /// The priority of a mail that names none.
    #[default]
    Normal,
    /// Sent before normal and low mail.
    High,
    /// Sent before all mail of other priorities.
    Critical,
}

impl Priority {
    /// All priorities in descending order, from critical to low.
    pub const ALL: [Self; 4] = [Self::Critical, Self::High, Self::Normal, Self::Low];

    /// The priority's name in a message.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
