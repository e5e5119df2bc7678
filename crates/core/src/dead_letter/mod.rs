//! What stands on the dead-letter queue: the mail as it came, and why it did not go out.

use serde::{Deserialize, Serialize};

use crate::identity::{Envelope, EpochMillis, attribute_bytes, sqs_text};

/// What SQS takes as one message, attributes included.
pub const SQS_LIMIT_BYTES: usize = 1_048_576;

/// The attribute that holds the entry where the body has no room for it.
pub const ENTRY_ATTRIBUTE: &str = "tidegate_entry";

/// Bytes that what was said, in an entry in the attribute, is first cut to.
const SHORT_TEXT_BYTES: usize = 1024;
/// Bytes that message id and campaign, without which the entry says nothing, are cut to.
const SHORT_NAME_BYTES: usize = 400;

/// Why a mail was given up, as SES or Tidegate put it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// The provider's error code, or the kind of fault in the message itself.
    pub code: Option<String>,
    /// The answer's HTTP status; none where nothing was sent.
    pub http_status: Option<u16>,
    /// What was said.
    pub provider_message: String,
}

/// The entry. Every member is always written; what is not known is `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The SQS message id under which it was last received.
    pub message_id: String,
    /// Its campaign.
    pub campaign: String,
    /// To whom it was to go.
    pub to: Vec<String>,
    /// When it was first sent without success; `null` where it never was sent.
    pub first_attempt_at: Option<EpochMillis>,
    /// When it was last sent without success; `null` where it never was sent.
    pub last_attempt_at: Option<EpochMillis>,
    /// How many sends of it failed.
    pub attempts: u32,
    /// Why it was given up.
    pub last_error: LastError,
    /// The original body, untouched. Never empty: SQS takes no empty body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A dead letter as SQS takes it: body, and names and values of attributes of the type `String`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterMessage {
    /// The entry as JSON, or the original body where the entry had no room.
    pub body: String,
    /// The mail's envelope; and the entry where it is not in the body.
    pub attributes: Vec<(&'static str, String)>,
}

impl DeadLetterMessage {
    /// What SQS counts: the body and each attribute's name, type and value.
    pub fn bytes(&self) -> usize {
        let attributes = self.attributes.iter().map(|(n, v)| attribute_bytes(n, v));
        self.body.len() + attributes.sum::<usize>()
    }
}

/// A message that is no dead letter of Tidegate's.
#[derive(Debug, thiserror::Error)]
pub enum DeadLetterError {
    /// The body is no entry, and there is no attribute `tidegate_entry`.
    #[error("the message's body is no dead-letter entry, and it has no attribute tidegate_entry")]
    Body(#[source] serde_json::Error),
    /// The body is an entry, but without the original.
    #[error("the message's body is a dead-letter entry without its member `message`")]
    NoOriginal,
    /// The attribute `tidegate_entry` is no entry.
    #[error("the message's attribute tidegate_entry is no dead-letter entry")]
    Attribute(#[source] serde_json::Error),
}

impl DeadLetter {
    /// As a message of at most `limit_bytes` ([`SQS_LIMIT_BYTES`]), with the mail's envelope
    /// where it has one, so that it keeps its identity when it is replayed.
    ///
    /// Where the entry would exceed the limit the body is the original and the entry stands,
    /// shortened, in [`ENTRY_ATTRIBUTE`]. An original of up to 1,032,192 bytes always leaves room
    /// for both. A longer one (a queue whose `MaximumMessageSize` was raised) loses first the
    /// envelope, then the entry, never a byte of itself.
    ///
    /// # Errors
    /// None that an entry can cause; the JSON writer's own are passed on.
    pub fn into_queue_message(
        self,
        envelope: Option<&Envelope>,
        limit_bytes: usize,
    ) -> Result<DeadLetterMessage, serde_json::Error> {
        let mut entry = self.for_sqs();
        let attributes = envelope.map(Envelope::to_attributes).unwrap_or_default();
        let whole = DeadLetterMessage { body: serde_json::to_string(&entry)?, attributes };
        if whole.bytes() <= limit_bytes {
            return Ok(whole);
        }
        let body = std::mem::take(&mut entry.message);
        let mut message = DeadLetterMessage { body, attributes: whole.attributes };
        loop {
            let room = limit_bytes.saturating_sub(message.bytes());
            if let Some(entry) = entry.fitting(room)? {
                message.attributes.push((ENTRY_ATTRIBUTE, entry));
                return Ok(message);
            }
            if message.attributes.is_empty() {
                return Ok(message);
            }
            message.attributes.clear();
        }
    }

    /// Reads a message of the dead-letter queue back; `attribute` finds attributes by name.
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

    /// Without the characters that SQS refuses. The original came from SQS, so has none.
    fn for_sqs(mut self) -> Self {
        let clean = |text: &mut String| *text = sqs_text(text, usize::MAX);
        self.to.iter_mut().for_each(clean);
        self.last_error.code.iter_mut().for_each(clean);
        for text in
            [&mut self.message_id, &mut self.campaign, &mut self.last_error.provider_message]
        {
            clean(text);
        }
        self
    }

    /// Without the original, as JSON in an attribute of at most `room` bytes: what was said and
    /// the recipients cut as far as that takes; none where not even the rest fits.
    fn fitting(&self, room: usize) -> Result<Option<String>, serde_json::Error> {
        let mut max_text = SHORT_TEXT_BYTES;
        let mut short = self.clone();
        loop {
            short.shorten(max_text);
            let json = serde_json::to_string(&short)?;
            if attribute_bytes(ENTRY_ATTRIBUTE, &json) <= room {
                return Ok(Some(json));
            }
            if max_text == 0 {
                return Ok(None);
            }
            max_text /= 2;
        }
    }

    /// Cuts what was said to `max_text` bytes, and the list of recipients to twice that in all.
    fn shorten(&mut self, max_text: usize) {
        let cut = |text: &mut String, max: usize| *text = sqs_text(text, max);
        cut(&mut self.message_id, SHORT_NAME_BYTES);
        cut(&mut self.campaign, SHORT_NAME_BYTES);
        cut(&mut self.last_error.provider_message, max_text);
        self.last_error.code.iter_mut().for_each(|code| cut(code, max_text));
        let mut kept = 0;
        self.to.retain(|to| {
            // With its quotes and comma: a refused body can name empty texts without end.
            kept += to.len() + 3;
            kept <= 2 * max_text
        });
    }
}

#[cfg(test)]
mod tests;
