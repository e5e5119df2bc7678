//! Dead letters: never larger than SQS takes, and the original comes back to the byte.

use tidegate_core::dead_letter::{
    DeadLetter, DeadLetterError, DeadLetterMessage, ENTRY_ATTRIBUTE, LastError, SQS_LIMIT_BYTES,
};
use tidegate_core::identity::{Envelope, MAX_ATTRIBUTE_BYTES, MAX_CAMPAIGN_CHARS};

use crate::attributes::is_sqs_text;
use crate::lines::Lines;

/// The longest body and the most recipients here, for the fuzzer's speed: what fits is a matter of
/// the limit. Core's own tests go up to SQS's.
const LONGEST_BODY: usize = 8_192;
const MAX_TO: usize = 6_000;

/// Reads one, and writes one, as the lines say.
pub(crate) fn dead_letters(lines: &Lines<'_>, envelope: Option<&Envelope>) {
    let attribute = |name: &str| lines.get(name);
    if let Some(body) = lines.get("body") {
        match DeadLetter::from_queue_message(body, attribute) {
            Ok(entry) => write(&sqs(entry), envelope, SQS_LIMIT_BYTES),
            Err(error) => assert!(error.to_string().len() < 200, "{error}"),
        }
    }
    let entry = sqs(described(lines));
    let tight = entry.message.len() + MAX_ATTRIBUTE_BYTES;
    write(&entry, envelope, tight);
    write(&entry, envelope, lines.number("limit", SQS_LIMIT_BYTES).unwrap_or(tight / 2));
}

fn described(lines: &Lines<'_>) -> DeadLetter {
    let text = |name: &str| lines.get(name).unwrap_or_default().to_owned();
    let time = |name: &str| lines.get(name).and_then(|time| time.parse().ok());
    let times = |name: &str, max: usize| lines.number(name, max).unwrap_or(1);
    let body = lines.get("body").unwrap_or("b");
    let to: Vec<String> = lines.all("to").map(|to| to.replace('-', "")).collect();
    let to_times = times("to_times", MAX_TO / to.len().max(1));
    DeadLetter {
        message_id: text("message_id"),
        campaign: text("campaign"),
        to: vec![to; to_times].concat(),
        first_attempt_at: time("first_attempt_at"),
        last_attempt_at: time("enqueued_at"),
        attempts: lines.get("attempt").and_then(|number| number.parse().ok()).unwrap_or_default(),
        last_error: LastError {
            code: lines.get("code").map(str::to_owned),
            http_status: lines.get("http_status").and_then(|status| status.parse().ok()),
            provider_message: text("provider_message"),
        },
        message: body.repeat(times("body_times", LONGEST_BODY / body.len())),
    }
}

/// Without what SQS takes out of every text.
fn sqs(mut entry: DeadLetter) -> DeadLetter {
    let clean = |text: &mut String| text.retain(|c| is_sqs_text(c.encode_utf8(&mut [0; 4])));
    entry.to.iter_mut().chain(entry.last_error.code.iter_mut()).for_each(clean);
    for text in [
        &mut entry.message_id,
        &mut entry.campaign,
        &mut entry.last_error.provider_message,
        &mut entry.message,
    ] {
        clean(text);
    }
    entry
}

fn write(entry: &DeadLetter, envelope: Option<&Envelope>, limit: usize) {
    let original = entry.message.as_str();
    let written = entry.clone().into_queue_message(envelope, limit).unwrap();
    let attributes = &written.attributes;
    let bytes: usize = attributes.iter().map(|(n, v)| n.len() + "String".len() + v.len()).sum();
    let bytes = bytes + written.body.len();
    let bare = written.body == original && attributes.is_empty();
    assert_eq!(bytes, written.bytes());
    assert!(bytes <= limit || bare && original.len() > limit, "{bytes} bytes of {limit}");
    assert!(attributes.len() <= 10 && attributes.iter().all(|(_, value)| !value.is_empty()));
    let room = original.len() + MAX_ATTRIBUTE_BYTES <= limit;
    let checked = |envelope: &Envelope| envelope.campaign.chars().count() <= MAX_CAMPAIGN_CHARS;
    let kept = attributes.iter().any(|(name, _)| *name == "identity");
    assert!(!room || kept || !envelope.is_some_and(checked), "the envelope is lost");
    let read = read(&written);
    if attributes.iter().any(|(name, _)| *name == ENTRY_ATTRIBUTE) {
        assert_eq!(written.body, original);
        shortened(entry, &read.unwrap());
    } else if written.body == original {
        assert!(!room, "the entry is lost, with {} bytes of room", limit - original.len());
    } else if original.is_empty() {
        assert!(matches!(read, Err(DeadLetterError::NoOriginal)));
    } else {
        assert_eq!(&read.unwrap(), entry);
    }
}

fn read(written: &DeadLetterMessage) -> Result<DeadLetter, DeadLetterError> {
    let attributes = &written.attributes;
    let found = |name: &str| attributes.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str());
    DeadLetter::from_queue_message(&written.body, found)
}

/// The entry in its attribute: all members, the texts as far as there was room.
fn shortened(entry: &DeadLetter, read: &DeadLetter) {
    assert_eq!(read.message, entry.message);
    assert_eq!((read.attempts, read.first_attempt_at), (entry.attempts, entry.first_attempt_at));
    assert_eq!(read.last_attempt_at, entry.last_attempt_at);
    assert_eq!(read.last_error.http_status, entry.last_error.http_status);
    let (said, whole) = (&read.last_error.provider_message, &entry.last_error.provider_message);
    assert!(whole.starts_with(said) && entry.message_id.starts_with(&read.message_id));
    let named = entry.campaign.len().min(390);
    assert!(entry.campaign.starts_with(&read.campaign) && read.campaign.len() >= named);
    assert!(read.to.iter().all(|to| entry.to.contains(to)));
}
