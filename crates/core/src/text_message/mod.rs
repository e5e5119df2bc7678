//! The text message: the JSON that a producer sends to a campaign queue of a stack with `TIDEGATE_CHANNEL=sms`.
//!
//! ```
//! use tidegate_core::text_message::TextMessage;
//! let text = TextMessage::parse(r#"{"to_phone": "+12065550100", "text": "Your parcel is here."}"#).unwrap();
//! assert_eq!((text.to(), text.parts()), ("+12065550100", 1));
//! ```
//!
//! Further members: `origination` (a phone number, sender id or pool), `type` (`transactional` or `promotional`),
//! `configuration_set`, `id`, `priority` and `tags`. Unknown members are refused, except `metadata` and names that begin
//! with `x_`, as for a mail.

mod allowed;
mod outcome;
mod parts;
mod read;
mod receipt;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use allowed::{AllowedTexts, AllowedTextsError, Countries, Origins};
pub(crate) use allowed::{calling_code, is_calling_code};
pub use outcome::classify_text;
pub use parts::{Alphabet, TextLength};
pub use read::check_phone_number;
pub use receipt::RECEIPTS;
pub(crate) use receipt::Receipt;
pub use schema::text_schema;

use crate::email::{EmailError, Priority};

/// A text message that AWS End User Messaging can be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextMessage {
    id: Option<String>,
    priority: Priority,
    to: String,
    text: String,
    parts: u32,
    origination: Option<String>,
    message_type: Option<MessageType>,
    configuration_set: Option<String>,
    tags: BTreeMap<String, String>,
}

/// The kind of a text: in some countries promotional ones are held at night.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageType {
    /// Time-sensitive, such as a code for a login.
    Transactional,
    /// Marketing.
    Promotional,
}

impl MessageType {
    /// Both types.
    pub const ALL: [Self; 2] = [Self::Transactional, Self::Promotional];

    /// The type's name in a message; AWS's is the same in upper case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transactional => "transactional",
            Self::Promotional => "promotional",
        }
    }
}

impl TextMessage {
    /// Reads a message body.
    ///
    /// # Errors
    /// [`EmailError`] for the first fault, with the field.
    pub fn parse(body: &str) -> Result<Self, EmailError> {
        read::text_message(body)
    }

    /// The producer's id of 1 to 256 characters; none if the message has none.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The text's priority within its campaign.
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// The recipient's phone number in E.164.
    pub fn to(&self) -> &str {
        &self.to
    }

    /// The text itself: 1 to 1,530 characters.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Parts of the text, which AWS counts, and which is the number of its slots: 1 to 11.
    pub const fn parts(&self) -> u32 {
        self.parts
    }

    /// The phone number, sender id or pool it is sent from; none if AWS chooses.
    pub fn origination(&self) -> Option<&str> {
        self.origination.as_deref()
    }

    /// Transactional or promotional; none if the message does not say.
    pub const fn message_type(&self) -> Option<MessageType> {
        self.message_type
    }

    /// The configuration set; none if the message names none.
    pub fn configuration_set(&self) -> Option<&str> {
        self.configuration_set.as_deref()
    }

    /// The producer's tags by name, at most 2.
    pub const fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }
}
