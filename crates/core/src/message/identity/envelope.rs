//! The envelope: the message attributes that a mail has in every queue.

use super::{EpochMillis, Identity};
use crate::text::InvalidText;

/// Bytes that queues leave for attributes: 1,048,576 − `MaximumMessageSize` of 1,032,192.
pub const MAX_ATTRIBUTE_BYTES: usize = 16_384;

/// `MaximumMessageSize` of campaign and express queues in bytes, attributes included. A message from
/// there must fit into the same queue again after Tidegate has added its attributes.
pub const CAMPAIGN_QUEUE_BYTES: usize = 1_048_576 - MAX_ATTRIBUTE_BYTES;

/// Most bytes of the last error in the envelope.
const MAX_LAST_ERROR_BYTES: usize = 256;

/// Most passes of a mail between two replays by an operator. Higher bits of the pass count replays of
/// parked mail.
const PASSES_BY_ITSELF: u32 = 0xFFFF;

const CAMPAIGN: &str = "campaign";
const IDENTITY: &str = "identity";
const PASS: &str = "pass";
const ATTEMPT: &str = "attempt";
const ENQUEUED_AT: &str = "enqueued_at";
const FIRST_ATTEMPT_AT: &str = "first_attempt_at";
const LAST_ERROR: &str = "last_error";

/// The attribute names to request from `ReceiveMessage`.
pub const ATTRIBUTE_NAMES: [&str; 7] =
    [CAMPAIGN, IDENTITY, PASS, ATTEMPT, ENQUEUED_AT, FIRST_ATTEMPT_AT, LAST_ERROR];

/// The data that goes with a mail from queue to queue. All attributes have the SQS type `String`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The campaign's name, at most [`super::MAX_CAMPAIGN_CHARS`] characters.
    pub campaign: String,
    /// The mail's identity, equal in all of its copies.
    pub identity: Identity,
    /// Number of times that the mail was put back to a campaign queue, for any reason.
    pub pass: u32,
    /// Number of failed sends that count as attempts.
    pub attempt: u32,
    /// Time at which the mail first came to its campaign's queue.
    pub enqueued_at: EpochMillis,
    /// Time of the first failed send; none if none failed.
    pub first_attempt_at: Option<EpochMillis>,
    /// The reason of the last failed send, at most 256 bytes when written.
    pub last_error: Option<String>,
}

/// Error for an attribute of Tidegate's that is missing or malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The message has `identity` but not this attribute, which always goes with it.
    #[error("message attribute {attribute} is missing where identity is present")]
    Missing {
        /// Name of the attribute that is missing.
        attribute: &'static str,
    },
    /// The attribute's value is not a whole number.
    #[error(
        "message attribute {attribute}: {value:?} is not allowed: a number from 0 to 4294967295 is"
    )]
    Number {
        /// Name of the attribute with the malformed number.
        attribute: &'static str,
        /// The first 60 characters of the value.
        value: String,
    },
    /// The attribute's value is not a time.
    #[error("message attribute {attribute} is no time")]
    Time {
        /// Name of the attribute with the malformed time.
        attribute: &'static str,
        /// The value, and the form that is allowed.
        source: InvalidText,
    },
    /// The attribute `identity` is not an identity in Tidegate's form.
    #[error("message attribute identity is no identity")]
    Identity(#[from] InvalidText),
}

impl Envelope {
    /// The envelope of a mail that comes from its producer: pass 0, no attempts.
    pub fn fresh(campaign: &str, identity: Identity, enqueued_at: EpochMillis) -> Self {
        Self {
            campaign: campaign.to_owned(),
            identity,
            pass: 0,
            attempt: 0,
            enqueued_at,
            first_attempt_at: None,
            last_error: None,
        }
    }

    /// Most bytes that its attributes can ever have, as SQS counts them: with the longest counters,
    /// times and error.
    pub fn most_bytes(&self) -> usize {
        const DIGITS: usize = u32::MAX.ilog10() as usize + 1;
        let longest = [
            (CAMPAIGN, self.campaign.len()),
            (IDENTITY, self.identity.as_str().len()),
            (PASS, DIGITS),
            (ATTEMPT, DIGITS),
            (ENQUEUED_AT, EpochMillis::BYTES),
            (FIRST_ATTEMPT_AT, EpochMillis::BYTES),
            (LAST_ERROR, MAX_LAST_ERROR_BYTES),
        ];
        let present = longest.into_iter().filter(|(_, bytes)| *bytes > 0);
        present.map(|(name, bytes)| attribute_bytes(name, bytes)).sum()
    }

    /// The envelope of a mail that goes back to its campaign queue without a failed send, for example
    /// after a hold or for a replay.
    pub fn put_back(self) -> Self {
        Self { pass: self.pass.saturating_add(1), ..self }
    }

    /// The envelope of a mail that goes to the dead-letter queue because nobody knows whether it was
    /// sent. The pass becomes the largest that a copy can reach before a replay: 3 becomes 65,535. Only
    /// a replay then has a higher pass.
    pub fn parked(self) -> Self {
        Self { pass: self.pass | PASSES_BY_ITSELF, ..self }
    }

    /// The envelope of a mail that goes back to its campaign queue after a send at `at` failed with
    /// `error`.
    pub fn put_back_failed(self, at: EpochMillis, error: &str) -> Self {
        let attempt = self.next_attempt();
        Self { attempt, ..self.put_back_uncounted(at, error) }
    }

    /// As [`Envelope::put_back_failed`], for a send that does not count as an attempt: the breaker did
    /// not allow sending, or the send was its probe.
    pub fn put_back_uncounted(self, at: EpochMillis, error: &str) -> Self {
        Self {
            first_attempt_at: self.first_attempt_at.or(Some(at)),
            last_error: Some(error.to_owned()),
            ..self.put_back()
        }
    }

    /// Names and values as SQS takes them: no empty values, no forbidden characters, together less than
    /// [`MAX_ATTRIBUTE_BYTES`]. `last_error` is cut to 256 bytes.
    pub fn to_attributes(&self) -> Vec<(&'static str, String)> {
        let last_error = self.last_error.as_deref().map(|e| sqs_text(e, MAX_LAST_ERROR_BYTES));
        let all = [
            (CAMPAIGN, Some(self.campaign.clone())),
            (IDENTITY, Some(self.identity.as_str().to_owned())),
            (PASS, Some(self.pass.to_string())),
            (ATTEMPT, Some(self.attempt.to_string())),
            (ENQUEUED_AT, Some(self.enqueued_at.to_string())),
            (FIRST_ATTEMPT_AT, self.first_attempt_at.map(|at| at.to_string())),
            (LAST_ERROR, last_error),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value.filter(|v| !v.is_empty())?)))
            .collect()
    }

    /// Number of the next attempt, or of the one under way; the first is 1.
    pub const fn next_attempt(&self) -> u32 {
        self.attempt.saturating_add(1)
    }

    /// Reads the envelope of a message that only Tidegate can have written: from the merge queue, a
    /// limit queue, the dead-letter queue, or deferred mail. `attribute` returns an attribute's value
    /// by name. For queues that producers write use [`super::CampaignMessage::envelope`], which accepts
    /// less.
    ///
    /// `None` for a message without `identity`.
    ///
    /// # Errors
    /// [`EnvelopeError`] if there is an `identity` and another attribute is missing or malformed.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use tidegate_core::identity::{Envelope, EpochMillis, Identity};
    /// let envelope = Envelope::fresh("news", Identity::from_body_id("news", "7"), EpochMillis::new(0));
    /// let attributes: HashMap<_, _> = envelope.to_attributes().into_iter().collect();
    /// let read = Envelope::from_attributes(|name| attributes.get(name).map(String::as_str));
    /// assert_eq!(read, Ok(Some(envelope)));
    /// ```
    pub fn from_attributes<'a>(
        attribute: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Option<Self>, EnvelopeError> {
        let Some(identity) = attribute(IDENTITY) else { return Ok(None) };
        let needed =
            |name: &'static str| attribute(name).ok_or(EnvelopeError::Missing { attribute: name });
        let number = |name| needed(name).and_then(|value| read_number(name, value));
        Ok(Some(Self {
            campaign: needed(CAMPAIGN)?.to_owned(),
            identity: Identity::parse(identity)?,
            pass: number(PASS)?,
            attempt: number(ATTEMPT)?,
            enqueued_at: needed(ENQUEUED_AT).and_then(|value| read_time(ENQUEUED_AT, value))?,
            first_attempt_at: attribute(FIRST_ATTEMPT_AT)
                .map(|value| read_time(FIRST_ATTEMPT_AT, value))
                .transpose()?,
            last_error: attribute(LAST_ERROR).map(str::to_owned),
        }))
    }
}

fn read_number(attribute: &'static str, value: &str) -> Result<u32, EnvelopeError> {
    value
        .parse()
        .map_err(|_| EnvelopeError::Number { attribute, value: value.chars().take(60).collect() })
}

fn read_time(attribute: &'static str, value: &str) -> Result<EpochMillis, EnvelopeError> {
    value.parse().map_err(|source| EnvelopeError::Time { attribute, source })
}

/// Bytes that SQS counts for one attribute of type `String`: name, type and value.
pub(crate) fn attribute_bytes(name: &str, value_bytes: usize) -> usize {
    name.len() + "String".len() + value_bytes
}

/// The text without the characters that SQS refuses, cut to `max_bytes` between two characters.
pub(crate) fn sqs_text(text: &str, max_bytes: usize) -> String {
    let allowed = |c: char| {
        matches!(c, '\t' | '\n' | '\r') || !(c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}'))
    };
    let mut kept = String::new();
    for c in text.chars().filter(|&c| allowed(c)) {
        if kept.len() + c.len_utf8() > max_bytes {
            break;
        }
        kept.push(c);
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::MAX_CAMPAIGN_CHARS;
    use super::*;

    fn read(attributes: &[(&str, &str)]) -> Result<Option<Envelope>, EnvelopeError> {
        let attributes: BTreeMap<_, _> = attributes.iter().copied().collect();
        Envelope::from_attributes(|name| attributes.get(name).copied())
    }

    const WHOLE: [(&str, &str); 7] = [
        ("campaign", "news"),
        ("identity", "news/id/7"),
        ("pass", "2"),
        ("attempt", "1"),
        ("enqueued_at", "2026-11-20T20:36:07.000Z"),
        ("first_attempt_at", "2026-11-20T20:36:08.000Z"),
        ("last_error", "503"),
    ];

    fn with(name: &str, value: Option<&'static str>) -> Vec<(&'static str, &'static str)> {
        let kept = WHOLE.into_iter().filter(|(n, _)| *n != name);
        let name = WHOLE.iter().find(|(n, _)| *n == name).map(|(n, _)| *n);
        kept.chain(name.zip(value)).collect()
    }

    #[test]
    fn a_message_without_identity_is_fresh_whatever_its_producer_attached() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("campaign", "mine"), ("pass", "x"), ("colour", "red")]), Ok(None));
    }

    #[test]
    fn a_parked_mail_is_beyond_every_copy_and_behind_its_replay() {
        let fresh =
            Envelope::fresh("news", Identity::from_body_id("news", "7"), EpochMillis::new(0));
        let copy = (0..1_000).fold(fresh.clone(), |copy, _| copy.put_back());
        let parked = fresh.parked();
        assert!(parked.pass > copy.pass && copy.parked().pass == parked.pass);
        let replay = parked.clone().put_back();
        assert!(replay.pass > parked.pass && replay.clone().parked().pass > replay.pass);
    }

    #[test]
    fn a_malformed_attribute_is_named_with_what_is_allowed() {
        for (name, value, expected) in [
            ("pass", Some("-1"), "pass: \"-1\" is not allowed: a number"),
            ("attempt", Some("4294967296"), "attempt: \"4294967296\""),
            ("enqueued_at", Some("now"), "enqueued_at is no time"),
            ("first_attempt_at", Some(""), "first_attempt_at is no time"),
            ("identity", Some("news"), "identity is no identity"),
            ("campaign", None, "campaign is missing"),
            ("pass", None, "pass is missing"),
            ("attempt", None, "attempt is missing"),
            ("enqueued_at", None, "enqueued_at is missing"),
        ] {
            let error = read(&with(name, value)).unwrap_err();
            assert!(error.to_string().contains(expected), "{name}: {error}");
        }
        assert!(read(&with("last_error", None)).unwrap().unwrap().last_error.is_none());
    }

    #[test]
    fn pass_rises_whenever_it_is_put_back_and_attempt_only_when_a_send_failed() {
        let identity = Identity::from_body_id("news", "7");
        let fresh = Envelope::fresh("news", identity.clone(), EpochMillis::new(1));
        let paused = fresh.put_back();
        assert_eq!((paused.pass, paused.attempt, paused.first_attempt_at), (1, 0, None));
        let failed = paused.put_back_failed(EpochMillis::new(5), "503");
        assert_eq!((failed.pass, failed.attempt), (2, 1));
        let again = failed.put_back_failed(EpochMillis::new(9), "reset");
        assert_eq!((again.pass, again.attempt), (3, 2));
        assert_eq!(again.first_attempt_at, Some(EpochMillis::new(5)));
        assert_eq!(again.last_error.as_deref(), Some("reset"));
        assert_eq!((again.identity, again.enqueued_at), (identity, EpochMillis::new(1)));
    }

    prop_compose! {
        fn envelopes()(
            campaign in "\\PC{1,80}",
            id in any::<String>(),
            (pass, attempt) in any::<(u32, u32)>(),
            (enqueued_at, first) in any::<(u64, Option<u64>)>(),
            last_error in proptest::option::of("(.|\\s){0,400}"),
        ) -> Envelope {
            Envelope {
                identity: Identity::from_body_id(&campaign, &id),
                campaign,
                pass,
                attempt,
                enqueued_at: EpochMillis::new(enqueued_at),
                first_attempt_at: first.map(EpochMillis::new),
                last_error,
            }
        }
    }

    fn bytes(envelope: &Envelope) -> usize {
        envelope.to_attributes().iter().map(|(n, v)| attribute_bytes(n, v.len())).sum()
    }

    proptest! {
        #[test]
        fn the_most_bytes_are_those_of_the_longest_counters_times_and_error(envelope in envelopes()) {
            let most = envelope.most_bytes();
            prop_assert!(bytes(&envelope) <= most);
            let longest = Envelope {
                pass: u32::MAX,
                attempt: u32::MAX,
                enqueued_at: EpochMillis::MAX,
                first_attempt_at: Some(EpochMillis::MAX),
                last_error: Some("x".repeat(MAX_LAST_ERROR_BYTES)),
                ..envelope
            };
            prop_assert_eq!(bytes(&longest), most);
        }

        #[test]
        fn attributes_are_what_sqs_takes_and_leave_the_body_its_room(envelope in envelopes()) {
            let attributes = envelope.to_attributes();
            let bytes = bytes(&envelope);
            prop_assert!(bytes <= MAX_ATTRIBUTE_BYTES / 4, "{} bytes", bytes);
            for (name, value) in &attributes {
                prop_assert!(!value.is_empty(), "{} is empty", name);
                let refused = value.contains(['\u{0}', '\u{1b}', '\u{fffe}', '\u{ffff}']);
                prop_assert!(!refused, "{}", value);
                prop_assert!(ATTRIBUTE_NAMES.contains(name));
            }
        }

        #[test]
        fn an_envelope_reads_back_but_for_what_is_cut_from_the_last_error(envelope in envelopes()) {
            let attributes: BTreeMap<_, _> = envelope.to_attributes().into_iter().collect();
            let read = Envelope::from_attributes(|n| attributes.get(n).map(String::as_str));
            let cut = envelope.last_error.as_deref().map(|e| sqs_text(e, 256));
            let expected = Envelope { last_error: cut.filter(|e| !e.is_empty()), ..envelope };
            prop_assert_eq!(read, Ok(Some(expected)));
        }

        #[test]
        fn a_last_error_is_cut_between_characters(text in any::<String>(), max in 0_usize..40) {
            let cut = sqs_text(&text, max);
            prop_assert!(cut.len() <= max);
            prop_assert!(sqs_text(&text, usize::MAX).starts_with(&cut));
        }
    }

    #[test]
    fn a_last_error_of_which_nothing_remains_is_left_out() {
        let identity = Identity::from_body_id("news", "7");
        let envelope = Envelope::fresh("news", identity, EpochMillis::new(0));
        for error in ["", "\u{0}\u{1b}\u{ffff}"] {
            let failed = envelope.clone().put_back_failed(EpochMillis::new(1), error);
            let attributes = failed.to_attributes();
            assert!(attributes.iter().all(|(name, _)| *name != "last_error"), "{attributes:?}");
        }
    }

    #[test]
    fn the_longest_campaign_and_id_leave_three_quarters_of_the_room() {
        let campaign = "\u{10ffff}".repeat(MAX_CAMPAIGN_CHARS);
        let envelope = Envelope {
            identity: Identity::from_body_id(&campaign, &"\u{10ffff}".repeat(256)),
            last_error: Some("é".repeat(400)),
            first_attempt_at: Some(EpochMillis::MAX),
            ..Envelope::fresh(&campaign, Identity::from_body_id("", ""), EpochMillis::MAX)
        };
        let bytes = bytes(&envelope.put_back());
        assert!(bytes <= MAX_ATTRIBUTE_BYTES / 4, "{bytes}");
    }
}
