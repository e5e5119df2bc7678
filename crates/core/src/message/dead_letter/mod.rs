//! The dead-letter entry: the original mail and the reason why it was given up.

use serde::{Deserialize, Serialize};

use crate::identity::{Envelope, EpochMillis, attribute_bytes, sqs_text};

/// Largest SQS message in bytes, attributes included (1 MiB).
pub const SQS_LIMIT_BYTES: usize = 1_048_576;

/// Name of the attribute that holds the entry if body and entry together exceed SQS's limit.
pub const ENTRY_ATTRIBUTE: &str = "tidegate_entry";

/// Bytes to which an error text is first cut if the entry is written to the attribute.
const SHORT_TEXT_BYTES: usize = 1024;
/// Bytes to which message id and campaign are cut; without them an entry is of no use.
const SHORT_NAME_BYTES: usize = 400;

/// The reason why a mail was given up, from SES or from Tidegate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// The provider's error code, or the kind of fault in the message body, such as `NotJson`.
    pub code: Option<String>,
    /// HTTP status of SES's answer; none if nothing was sent or no answer came.
    pub http_status: Option<u16>,
    /// SES's error message, or Tidegate's description of the fault.
    pub provider_message: String,
}

/// A dead-letter entry. Every member is always written; an unknown value is `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// SQS message id of the last delivery.
    pub message_id: String,
    /// Name of the mail's campaign, or `express`.
    pub campaign: String,
    /// Recipients, as the body names them.
    pub to: Vec<String>,
    /// Time of the first failed send; `null` if it was never sent.
    pub first_attempt_at: Option<EpochMillis>,
    /// Time of the last failed send; `null` if it was never sent.
    pub last_attempt_at: Option<EpochMillis>,
    /// Number of failed sends that count as attempts.
    pub attempts: u32,
    /// The last error, which is the reason for giving up.
    pub last_error: LastError,
    /// The original body, unchanged. Never empty, because SQS takes no empty body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A dead letter as an SQS message. All attributes have the type `String`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterMessage {
    /// The entry as JSON, or the original body if the entry is in the attribute.
    pub body: String,
    /// Names and values: the mail's envelope, and the entry if it is not in the body.
    pub attributes: Vec<(&'static str, String)>,
}

impl DeadLetterMessage {
    /// Bytes as SQS counts them: the body, and name, type and value of each attribute.
    pub fn bytes(&self) -> usize {
        let attributes = self.attributes.iter().map(|(n, v)| attribute_bytes(n, v.len()));
        self.body.len() + attributes.sum::<usize>()
    }
}

/// Error for a message that is not a dead letter of Tidegate.
#[derive(Debug, thiserror::Error)]
pub enum DeadLetterError {
    /// The body is not an entry, and there is no attribute `tidegate_entry`.
    #[error("the message's body is no dead-letter entry, and it has no attribute tidegate_entry")]
    Body(#[source] serde_json::Error),
    /// The body is an entry, but its member `message` is missing.
    #[error("the message's body is a dead-letter entry without its member `message`")]
    NoOriginal,
    /// The attribute `tidegate_entry` is not an entry.
    #[error("the message's attribute tidegate_entry is no dead-letter entry")]
    Attribute(#[source] serde_json::Error),
}

impl DeadLetter {
    /// Turns the entry into an SQS message of at most `limit_bytes` ([`SQS_LIMIT_BYTES`]). The mail's
    /// envelope is added, so that the mail keeps its identity when it is replayed.
    ///
    /// If the entry does not fit, the body is the original, and a shortened entry is in
    /// [`ENTRY_ATTRIBUTE`]. An original of up to 1,032,192 bytes leaves room for entry and envelope. A
    /// longer original (from a queue whose `MaximumMessageSize` was raised) is kept in full; the
    /// message loses first the envelope, then the entry.
    ///
    /// # Errors
    /// An error of the JSON writer; no entry causes one.
    pub fn into_queue_message(
        mut self,
        envelope: Option<&Envelope>,
        limit_bytes: usize,
    ) -> Result<DeadLetterMessage, serde_json::Error> {
        self.cut(usize::MAX, usize::MAX);
        let attributes = envelope.map(Envelope::to_attributes).unwrap_or_default();
        let whole = DeadLetterMessage { body: serde_json::to_string(&self)?, attributes };
        if whole.bytes() <= limit_bytes {
            return Ok(whole);
        }
        let body = std::mem::take(&mut self.message);
        let mut message = DeadLetterMessage { body, attributes: whole.attributes };
        // At most twice: with the envelope, and without it if that leaves no room for the entry.
        loop {
            let room = limit_bytes.saturating_sub(message.bytes());
            if let Some(entry) = self.fitting(room)? {
                message.attributes.push((ENTRY_ATTRIBUTE, entry));
                return Ok(message);
            }
            if message.attributes.is_empty() {
                return Ok(message);
            }
            message.attributes.clear();
        }
    }

    /// Reads a message of the dead-letter queue. `attribute` returns an attribute's value by name.
    ///
    /// # Errors
    /// The message was not written by [`DeadLetter::into_queue_message`].
    pub fn from_queue_message<'a>(
        body: &str,
        attribute: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Self, DeadLetterError> {
        let Some(entry) = attribute(ENTRY_ATTRIBUTE) else {
            let entry: Self = serde_json::from_str(body).map_err(DeadLetterError::Body)?;
            let whole = !entry.message.is_empty();
            return whole.then_some(entry).ok_or(DeadLetterError::NoOriginal);
        };
        let entry: Self = serde_json::from_str(entry).map_err(DeadLetterError::Attribute)?;
        Ok(Self { message: body.to_owned(), ..entry })
    }

    /// The entry without the original, as JSON for an attribute of at most `room` bytes. Error texts
    /// and recipients are cut to 1,024, 512, 256, … 0 bytes until it fits; none if it does not fit even
    /// then.
    fn fitting(&self, room: usize) -> Result<Option<String>, serde_json::Error> {
        let mut max_text = SHORT_TEXT_BYTES;
        let mut short = self.clone();
        loop {
            short.cut(SHORT_NAME_BYTES, max_text);
            let json = serde_json::to_string(&short)?;
            if attribute_bytes(ENTRY_ATTRIBUTE, json.len()) <= room {
                return Ok(Some(json));
            }
            if max_text == 0 {
                return Ok(None);
            }
            max_text /= 2;
        }
    }

    /// Removes the characters that SQS refuses, and cuts names and error texts to so many bytes each, and the list
    /// of recipients to twice those of a text in total. The original came from SQS, so it needs nothing.
    fn cut(&mut self, max_name: usize, max_text: usize) {
        let cut = |text: &mut String, max: usize| *text = sqs_text(text, max);
        cut(&mut self.message_id, max_name);
        cut(&mut self.campaign, max_name);
        cut(&mut self.last_error.provider_message, max_text);
        self.last_error.code.iter_mut().for_each(|code| cut(code, max_text));
        let mut kept = 0;
        self.to.retain_mut(|to| {
            cut(to, usize::MAX);
            // Counts two quotes and a comma too: a refused body can contain very many empty recipients.
            kept += to.len() + 3;
            kept <= max_text.saturating_mul(2)
        });
    }
}

#[cfg(test)]
mod tests;
