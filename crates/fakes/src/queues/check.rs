//! The requests that SQS refuses, with its error codes and messages.

use std::time::Duration;

use tidegate_delivery::ports::{BATCH, BATCH_BYTES, EntryError, FailureKind, Outgoing};

const MAX_ATTRIBUTES: usize = 10;
const MAX_DELAY: Duration = Duration::from_mins(15);
const MAX_WAIT: Duration = Duration::from_secs(20);
const MAX_VISIBILITY: Duration = Duration::from_hours(12);

pub(super) fn entry_error(code: &str, message: impl Into<String>) -> EntryError {
    EntryError { code: code.to_owned(), message: message.into() }
}

fn invalid(name: &str, value: impl std::fmt::Display, reason: &str) -> EntryError {
    let message = format!("Value {value} for parameter {name} is invalid. Reason: {reason}.");
    entry_error("InvalidParameterValue", message)
}

fn refused(code: &str) -> FailureKind {
    FailureKind::Refused(code.to_owned())
}

/// The error of an entry that failed inside SQS; sending it again can succeed.
pub(super) fn internal_error() -> EntryError {
    let text = "The request processing has failed because of an unknown error.";
    entry_error("InternalError", text)
}

/// A batch has 1 to 10 entries, of 1 MiB at most together.
pub(super) fn batch(count: usize, bytes: usize) -> Result<(), FailureKind> {
    match count {
        0 => Err(refused("AWS.SimpleQueueService.EmptyBatchRequest")),
        1..=BATCH if bytes > BATCH_BYTES => {
            Err(refused("AWS.SimpleQueueService.BatchRequestTooLong"))
        }
        1..=BATCH => Ok(()),
        _ => Err(refused("AWS.SimpleQueueService.TooManyEntriesInBatchRequest")),
    }
}

/// A receive asks for 1 to 10 messages and waits whole seconds, 20 at most.
pub(super) fn receive(max: usize, wait: Duration) -> Result<(), FailureKind> {
    let fits = (1..=BATCH).contains(&max) && wait <= MAX_WAIT && wait.subsec_nanos() == 0;
    if fits { Ok(()) } else { Err(refused("InvalidParameterValue")) }
}

/// A visibility timeout is 0 s to 12 h, in whole seconds.
pub(super) fn visibility(after: Duration) -> Result<(), EntryError> {
    if after <= MAX_VISIBILITY && after.subsec_nanos() == 0 {
        return Ok(());
    }
    Err(invalid("VisibilityTimeout", after.as_secs_f64(), "Must be between 0 and 43200"))
}

pub(super) fn message(message: &Outgoing, fifo: bool, max_bytes: usize) -> Result<(), EntryError> {
    if message.body.is_empty() {
        let text = "The request must contain the parameter MessageBody.";
        return Err(entry_error("MissingParameter", text));
    }
    // Most bodies are printable ASCII: bytes are looked at faster than characters, and many at once if all are.
    let printable = message.body.bytes().fold(true, |all, byte| all & matches!(byte, b' '..=b'~'));
    if !printable && !message.body.chars().all(is_allowed) {
        return Err(entry_error("InvalidMessageContents", "Invalid characters found"));
    }
    if message.bytes() > max_bytes {
        let reason = format!("Message must be shorter than {max_bytes} bytes");
        return Err(invalid("MessageBody", message.bytes(), &reason));
    }
    attributes(message)?;
    delay(message.delay, fifo)?;
    group(message, fifo)
}

fn is_allowed(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

fn attributes(message: &Outgoing) -> Result<(), EntryError> {
    let count = message.attributes.len();
    if count > MAX_ATTRIBUTES {
        let reason = "Number of message attributes exceeds the allowed maximum 10";
        return Err(invalid("MessageAttributes", count, reason));
    }
    for (position, (name, value)) in message.attributes.iter().enumerate() {
        let legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if name.is_empty() || name.len() > 256 || !name.chars().all(legal) {
            return Err(invalid("MessageAttribute.Name", name, "Not a legal attribute name"));
        }
        if message.attributes[..position].iter().any(|(earlier, _)| earlier == name) {
            return Err(invalid("MessageAttribute.Name", name, "The name is there twice"));
        }
        if value.is_empty() {
            let text = format!(
                "Message (user) attribute '{name}' must contain a non-empty value of type 'String'."
            );
            return Err(entry_error("InvalidParameterValue", text));
        }
    }
    Ok(())
}

fn delay(delay: Duration, fifo: bool) -> Result<(), EntryError> {
    let seconds = delay.as_secs_f64();
    if fifo && !delay.is_zero() {
        let reason = "The request include parameter that is not valid for this queue type";
        return Err(invalid("DelaySeconds", seconds, reason));
    }
    if delay > MAX_DELAY || delay.subsec_nanos() != 0 {
        let reason = "DelaySeconds must be >= 0 and <= 900";
        return Err(invalid("DelaySeconds", seconds, reason));
    }
    Ok(())
}

fn group(message: &Outgoing, fifo: bool) -> Result<(), EntryError> {
    match (&message.fifo, fifo) {
        (None, false) => Ok(()),
        (Some(ids), true) => {
            id("MessageGroupId", &ids.group)?;
            id("MessageDeduplicationId", &ids.deduplication)
        }
        (None, true) => Err(entry_error(
            "MissingParameter",
            "The request must contain the parameter MessageGroupId.",
        )),
        (Some(ids), false) => {
            let reason = "The request include parameter that is not valid for this queue type";
            Err(invalid("MessageDeduplicationId", &ids.deduplication, reason))
        }
    }
}

/// Checks a group or deduplication id: 1 to 128 letters, digits and punctuation characters.
fn id(name: &str, value: &str) -> Result<(), EntryError> {
    let legal = (1..=128).contains(&value.len()) && value.chars().all(|c| c.is_ascii_graphic());
    if legal {
        return Ok(());
    }
    let reason = "Can only include alphanumeric and punctuation characters. 1 to 128 in length";
    Err(invalid(name, value, reason))
}
