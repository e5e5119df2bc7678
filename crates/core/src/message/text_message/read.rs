//! Reads a text message from a message body, member by member.

use super::{MessageType, TextLength, TextMessage};
use crate::email::json::Node;
use crate::email::members::Members;
use crate::email::{EmailError, Priority, read_id, read_priority, read_tags};
use crate::text::is_word_of;

/// The members of a text message; `docs/text.schema.json` describes each.
const MEMBERS: [&str; 8] =
    ["to_phone", "text", "origination", "type", "configuration_set", "id", "priority", "tags"];
/// Most tags of the producer: the request's `Context` has [five entries], and three are Tidegate's.
///
/// [five entries]: https://docs.aws.amazon.com/pinpoint/latest/apireference_smsvoicev2/API_SendTextMessage.html
const MAX_TAGS: usize = 2;
/// Most characters of an origination identity and of a configuration set's name that AWS takes.
const MAX_NAME: usize = 256;

pub(super) fn text_message(body: &str) -> Result<TextMessage, EmailError> {
    let node = Node::read(body)?;
    node.refuse_duplicates("")?;
    let mut members = Members::known("", node, &MEMBERS)?;
    let id = read_id(&mut members)?;
    let priority: Priority = read_priority(&mut members)?;
    let tags = read_tags(&mut members)?;
    if tags.len() > MAX_TAGS {
        let problem = "must be at most 2 (AWS takes 5, Tidegate adds three)";
        return Err(EmailError::invalid("tags", problem).with_found(tags.len().to_string()));
    }
    let to = members
        .take_allowed("to_phone", is_e164, E164)?
        .ok_or_else(|| EmailError::missing("to_phone", E164))?;
    let text = read_text(&mut members)?;
    Ok(TextMessage {
        parts: TextLength::of(&text).parts,
        id,
        priority,
        to,
        text,
        origination: members.take_allowed("origination", is_origin, ORIGIN)?,
        message_type: read_type(&mut members)?,
        configuration_set: members.take_allowed("configuration_set", is_set, SET)?,
        tags,
    })
}

const E164: &str = "must be one phone number in E.164: + and 7 to 15 digits with the country code, like +12065550100";
const ORIGIN: &str =
    "must be a phone number, sender id, pool or its ARN: 1 to 256 letters, digits, + _ - : and /";
const SET: &str = "must be 1 to 256 letters, digits, _ - : and /";

fn read_text(members: &mut Members) -> Result<String, EmailError> {
    let text = members.take_text("text")?.filter(|text| !text.trim().is_empty());
    let text =
        text.ok_or_else(|| EmailError::missing("text", "must be a text that is not blank"))?;
    let length = TextLength::of(&text);
    if length.is_allowed() {
        return Ok(text);
    }
    let problem = "must be at most 1530 characters of GSM-7 (those of its extension table count twice), or 630 units of \
                   UTF-16 if it has others";
    Err(EmailError::invalid("text", problem).with_found(length.units.to_string()))
}

fn read_type(members: &mut Members) -> Result<Option<MessageType>, EmailError> {
    let Some(name) = members.take_text("type")? else { return Ok(None) };
    let problem = "must be transactional or promotional";
    name.parse().map(Some).map_err(|_| EmailError::invalid("type", problem).with_value(&name))
}

/// Checks that a text is a phone number in E.164, such as `+12065550100`.
///
/// # Errors
/// [`EmailError`] on `to_phone`.
pub fn check_phone_number(text: &str) -> Result<(), EmailError> {
    if is_e164(text) {
        return Ok(());
    }
    Err(EmailError::invalid("to_phone", E164).with_value(text))
}

/// E.164 allows 15 digits, of which the country code is the beginning; none begins with 0.
pub(super) fn is_e164(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or_default();
    (7..=15).contains(&digits.len())
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && !digits.starts_with('0')
}

pub(super) fn is_origin(text: &str) -> bool {
    is_word_of(text, MAX_NAME, "+_-:/")
}

fn is_set(text: &str) -> bool {
    is_word_of(text, MAX_NAME, "_-:/")
}
