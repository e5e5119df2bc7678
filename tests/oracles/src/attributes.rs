//! Oracle for identity and envelope: the attributes that travel with a mail, and the part of them
//! that a dead letter contains.

use std::collections::BTreeSet;

use tidegate_core::identity::{
    ATTRIBUTE_NAMES, CampaignMessage, Envelope, EpochMillis, Identity, deduplication_id, group_id,
};

use crate::dead_letter::dead_letters;
use crate::lines::Lines;

/// Bytes that an error may have: 60 characters, escaped, and what is allowed.
const MAX_ERROR: usize = 800;
/// Bytes up to which an identity is kept as text.
const MAX_IDENTITY: usize = 2048;

/// Lines `name=value`: message attributes under their names; `body`, `id`, `message_id`, `to`,
/// `code`, `http_status` and `provider_message` of a dead letter; how often `body` and `to` stand
/// in it as `body_times` and `to_times`; and the `limit` that it must keep.
pub fn attributes(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines = Lines::read(text);
    lines.all("identity").for_each(identity);
    made(lines.get("campaign").unwrap_or_default(), lines.get("id").unwrap_or_default());
    for campaign in ["news", lines.get("campaign").unwrap_or_default()] {
        on_a_campaigns_queue(campaign, &lines);
    }
    let envelope = envelope(&lines);
    dead_letters(&lines, envelope.as_ref());
}

/// An identity that parses is written again as the same text.
fn identity(text: &str) {
    let identity = match Identity::parse(text) {
        Ok(identity) => identity,
        Err(error) => return assert!(error.to_string().len() <= MAX_ERROR, "{error}"),
    };
    assert_eq!(identity.as_str(), text);
    let parts: Vec<&str> = text.split('/').collect();
    if let [campaign, kind, _] = parts.as_slice() {
        let campaign = Identity::parse(&format!("c/id/{campaign}")).unwrap();
        let make = if *kind == "id" { Identity::from_body_id } else { Identity::from_message_id };
        assert_eq!(make(&campaign.id(), &identity.id()), identity, "not as it is written");
    }
    fifo(&identity);
}

/// An identity that is made from any two texts parses again, and differs from that of any other two
/// texts.
fn made(campaign: &str, id: &str) {
    let identity = Identity::from_body_id(campaign, id);
    assert_eq!(Identity::parse(identity.as_str()).as_ref(), Ok(&identity));
    assert!(identity.as_str().len() <= MAX_IDENTITY && is_sqs_text(identity.as_str()));
    assert!(!identity.as_str().contains(char::is_control));
    let kept = identity.as_str().split('/').count() == 3;
    assert!(!kept || identity.id() == id, "{identity}");
    assert_ne!(identity, Identity::from_message_id(campaign, id));
    assert_ne!(identity, Identity::from_body_id(&format!("{campaign}/"), id));
    assert_ne!(identity, Identity::from_body_id(campaign, &format!("{id}%")));
    fifo(&identity);
}

fn fifo(identity: &Identity) {
    let passes = [0, 1, 11, u32::MAX].map(|pass| deduplication_id(identity, pass, None));
    let ids: BTreeSet<_> = passes.into_iter().chain([group_id(identity)]).collect();
    let is_hex = |id: &String| id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(ids.len() == 5 && ids.iter().all(is_hex), "{ids:?}");
}

/// An envelope that parses is written in text that SQS accepts, and parses again.
fn envelope(lines: &Lines<'_>) -> Option<Envelope> {
    let read = Envelope::from_attributes(|name| lines.get(name));
    if lines.get("identity").is_none() {
        assert_eq!(read, Ok(None));
    }
    let envelope = match read {
        Ok(envelope) => envelope?,
        Err(error) => {
            let text = error.to_string();
            assert!(ATTRIBUTE_NAMES.iter().any(|name| text.contains(name)), "{text}");
            assert!(text.len() <= MAX_ERROR, "{text}");
            return None;
        }
    };
    let again = written(&envelope);
    let unchanged =
        lines.get("last_error").is_none_or(|error| error.len() <= 256 && is_sqs_text(error));
    assert!(!unchanged || again == envelope, "{again:?}");
    assert_eq!(written(&again), again);
    assert_eq!(
        Envelope { last_error: None, ..again },
        Envelope { last_error: None, ..envelope.clone() }
    );
    let back = envelope.clone().put_back();
    assert_eq!((back.pass, back.attempt), (envelope.pass.saturating_add(1), envelope.attempt));
    Some(envelope)
}

/// Whatever is attached to mail of a campaign's queue: it is fresh, or has an envelope of that campaign,
/// from which it can be put back as another pass.
fn on_a_campaigns_queue(campaign: &str, lines: &Lines<'_>) {
    let (id, sent_at) = (lines.get("id"), EpochMillis::new(1_795_206_967_042));
    let message = CampaignMessage { campaign, id, sent_at, max_attempts: 5 };
    let Some(envelope) = message.envelope(|name| lines.get(name)) else { return };
    let own = match id {
        Some(id) => Identity::from_body_id(campaign, id),
        None => Identity::from_message_id(campaign, &envelope.identity.id()),
    };
    assert_eq!((envelope.campaign.as_str(), &envelope.identity), (campaign, &own));
    assert!(envelope.pass >= 1 && envelope.attempt < 5, "{envelope:?}");
    let age = sent_at.as_millis().checked_sub(envelope.enqueued_at.as_millis());
    assert!(age.is_some_and(|age| age <= 379 * 86_400_000), "{envelope:?}");
    assert!(envelope.clone().parked().put_back().pass > envelope.pass, "{envelope:?}");
}

fn written(envelope: &Envelope) -> Envelope {
    let attributes = envelope.to_attributes();
    for (name, value) in &attributes {
        assert!(ATTRIBUTE_NAMES.contains(name) && !value.is_empty(), "{name}: {value:?}");
        let given = ["campaign", "identity"].contains(name);
        assert!(given || is_sqs_text(value), "{name}: {value:?}");
    }
    let found = |name: &str| attributes.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str());
    Envelope::from_attributes(found).unwrap().unwrap()
}

/// Whether SQS accepts the text: `#x9`, `#xA`, `#xD`, `#x20` to `#xD7FF`, `#xE000` to `#xFFFD`,
/// `#x10000` to `#x10FFFF`.
pub(crate) fn is_sqs_text(text: &str) -> bool {
    text.chars().all(|c| {
        matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
            || c >= '\u{10000}'
    })
}
