//! The text message: the JSON that a producer sends to a campaign queue of a stack with `TIDEGATE_CHANNEL=sms`.
//!
//! ```
//! use tidegate_core::text_message::TextMessage;
//! let text = TextMessage::parse(r#"{"to_phone": "+12065550100", "text": "Your parcel is here."}"#).unwrap();
//! assert_eq!((text.to.as_str(), text.parts), ("+12065550100", 1));
//! ```
//!
//! Further members: `origination` (a phone number, sender id or pool), `type` (`transactional` or `promotional`),
//! `configuration_set`, `id`, `priority` and `tags`. Unknown members are refused, except `metadata` and names that begin
//! with `x_`, as for a mail.

mod allowed;
mod outcome;
mod parts;
mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use strum::{EnumString, IntoStaticStr};

pub use allowed::{AllowedTexts, Countries, Origins};
pub(crate) use allowed::{calling_code, is_calling_code};
pub(crate) use outcome::Receipt;
pub use outcome::{RECEIPTS, classify_text};
pub use parts::{Alphabet, TextLength};
pub use read::check_phone_number;

use crate::email::{EmailError, Priority};

/// A text message that AWS End User Messaging can be given.
#[derive(Debug, Clone, PartialEq, Eq)]
// Only the parser makes one.
#[non_exhaustive]
pub struct TextMessage {
    /// The producer's id of 1 to 256 characters; none if the message has none.
    pub id: Option<String>,
    /// The text's priority within its campaign.
    pub priority: Priority,
    /// The recipient's phone number in E.164.
    pub to: String,
    /// The text itself: 1 to 1,530 characters.
    pub text: String,
    /// Parts of the text, which AWS counts, and which is the number of its slots: 1 to 11.
    pub parts: u32,
    /// The phone number, sender id or pool it is sent from; none if AWS chooses.
    pub origination: Option<String>,
    /// Transactional or promotional; none if the message does not say.
    pub message_type: Option<MessageType>,
    /// The configuration set; none if the message names none.
    pub configuration_set: Option<String>,
    /// The producer's tags by name, at most 2.
    pub tags: BTreeMap<String, String>,
}

/// The kind of a text: in some countries promotional ones are held at night.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum MessageType {
    /// Time-sensitive, such as a code for a login.
    Transactional,
    /// Marketing.
    Promotional,
}

impl MessageType {
    /// The type's name in a message; AWS's is the same in upper case.
    pub fn as_str(self) -> &'static str {
        self.into()
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
}
