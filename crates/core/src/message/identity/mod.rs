//! The identity of a mail, which it keeps for ever, and its envelope: the message attributes that it has in every queue.
//!
//! Pollers and replays put mail back on its campaign's queue, or on the express queue, with its
//! envelope as attributes. Producers write these queues too and can attach any attributes. So an
//! envelope is accepted only if Tidegate can have written it, and only if it concerns the queue's own
//! campaign:
//!
//! - it is complete and names the queue's campaign;
//! - its identity belongs to that campaign: it has the body's `id`, or an SQS message id if the body
//!   has none;
//! - its pass is at least 1 (fresh mail has none) and at most what replays can reach;
//! - it has at most as many attempts as passes.
//!
//! Without such an envelope a mail counts as fresh. The values of an accepted envelope are limited:
//! `enqueued_at` lies within the 379 days before SQS took this copy (365 in the store, 14 on a queue), `first_attempt_at` lies between the
//! two, and if no attempt would be left, attempts count from 0 again.
//!
//! A producer of one campaign can therefore use up passes and attempts of that campaign's mail only.
//! Merge queue and limit queues are written by pollers alone.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

use crate::text::InvalidText;
pub use crate::text::hex;
pub(crate) use crate::text::sha256_hex;
use crate::timestamp::Timestamp;
use crate::trace::{TRACEPARENT, TraceParent};

/// Most characters of a campaign's name for the attributes to fit: SQS's limit for queue names.
pub const MAX_CAMPAIGN_CHARS: usize = 80;

/// Most bytes of an identity that is kept as text. A longer one is kept as its hash; no checked message
/// has one.
const MAX_TEXT_BYTES: usize = 2048;

/// Most bytes of an SQS message id.
const MAX_MESSAGE_ID_BYTES: usize = 100;

const BODY_ID: &str = "id";
const MESSAGE_ID: &str = "msg";
const HASHED: &str = "sha256";

/// The identity of a mail: the campaign and the body's `id`, or the campaign and the first SQS message
/// id if there is no `id`. It never changes.
///
/// It is written as `campaign/id/…` or `campaign/msg/…`. Slash, percent and the characters that SQS
/// refuses are percent-encoded, so two different pairs never give the same text.
///
/// ```
/// use tidegate_core::identity::Identity;
/// let identity = Identity::from_body_id("news", "order 7/2");
/// assert_eq!(identity.as_str(), "news/id/order 7%2F2");
/// assert_eq!(identity.id(), "order 7/2");
/// assert_eq!(Identity::parse(identity.as_str()), Ok(identity));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(String);

impl Identity {
    /// The identity of a mail to which its producer gave an `id`.
    pub fn from_body_id(campaign: &str, id: &str) -> Self {
        Self::new(campaign, BODY_ID, id)
    }

    /// The identity of a mail without an `id`, from its first SQS message id.
    pub fn from_message_id(campaign: &str, message_id: &str) -> Self {
        Self::new(campaign, MESSAGE_ID, message_id)
    }

    /// The identity of a mail in a queue of `campaign`: by its `id`, or by its first SQS message id if it
    /// has none.
    pub fn of(campaign: &str, id: Option<&str>, message_id: &str) -> Self {
        match id {
            Some(id) => Self::from_body_id(campaign, id),
            None => Self::from_message_id(campaign, message_id),
        }
    }

    /// The identity of a report of SES about a mail that it had accepted: a hash, which tells no recipient.
    pub fn of_notice(ses_message_id: &str, kind: &str, recipient: &str) -> Self {
        // A line feed is in no mail's identity, so none gives this hash.
        Self(format!("{HASHED}/{}", sha256_hex(&[ses_message_id, "\n", kind, "\n", recipient])))
    }

    fn new(campaign: &str, kind: &str, id: &str) -> Self {
        let text = format!("{}/{kind}/{}", encode(campaign), encode(id));
        if text.len() > MAX_TEXT_BYTES {
            return Self(format!("{HASHED}/{}", sha256_hex(&[&text])));
        }
        Self(text)
    }

    /// The identity as text, as in the attribute `identity`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The producer's id or the SQS message id, decoded; the hash of an over-long identity.
    pub fn id(&self) -> Cow<'_, str> {
        let encoded = self.0.rsplit('/').next().unwrap_or_default();
        decode(encoded).map_or(Cow::Borrowed(encoded), Cow::Owned)
    }

    /// The campaign's name, decoded; none if the identity is over-long and kept as a hash.
    ///
    /// ```
    /// use tidegate_core::identity::Identity;
    /// let identity = Identity::from_body_id("news", "7");
    /// assert_eq!(identity.campaign().as_deref(), Some("news"));
    /// ```
    pub fn campaign(&self) -> Option<String> {
        let mut parts = self.0.split('/');
        let campaign = decode(parts.next()?);
        // A hash has only two parts, `sha256/…`.
        parts.nth(1).and(campaign)
    }

    /// True if the identity consists of this campaign and an SQS message id of 1 to 100 bytes.
    pub(crate) fn is_of_message_in(&self, campaign: &str) -> bool {
        let id = self.0.strip_prefix(&format!("{}/{MESSAGE_ID}/", encode(campaign)));
        id.is_some_and(|id| (1..=MAX_MESSAGE_ID_BYTES).contains(&id.len()))
    }

    /// Reads an identity from its text.
    ///
    /// # Errors
    /// [`InvalidText`] if the text is not in the form that Tidegate writes.
    pub fn parse(text: &str) -> Result<Self, InvalidText> {
        const ALLOWED: &str =
            "is not allowed: campaign/id/… or campaign/msg/… is, as Tidegate writes it";
        let parts: Vec<&str> = text.split('/').collect();
        // Only the spelling that `encode` writes is valid, so one identity has one text.
        let canonical = |part: &str| decode(part).is_some_and(|plain| encode(&plain) == part);
        let valid = match parts.as_slice() {
            [campaign, BODY_ID | MESSAGE_ID, id] => {
                text.len() <= MAX_TEXT_BYTES && canonical(campaign) && canonical(id)
            }
            [HASHED, hash] => {
                hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            }
            _ => false,
        };
        if valid { Ok(Self(text.to_owned())) } else { Err(InvalidText::new(text, ALLOWED)) }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The `MessageGroupId` in the merge queue, 64 hex digits. Each mail has its own group, so no message
/// waits for another.
pub fn group_id(identity: &Identity) -> String {
    sha256_hex(&[&identity.0])
}

/// The `MessageDeduplicationId` in the merge queue: SHA-256 of identity and pass, and of the time of the
/// `cancel` of the campaign if there is one; 64 hex digits. The content is not part of it, because two equal
/// bodies may be two mails.
///
/// SQS remembers an id for 5 minutes. With the cancel's time, a corrected mail is not dropped as a copy of the
/// cancelled one with the same identity.
pub fn deduplication_id(identity: &Identity, pass: u32, cancel: Option<EpochMillis>) -> String {
    // An identity contains no line feed, so no other identity, pass and time give this text.
    let cancel = cancel.map_or_else(String::new, |at| format!("\n{at}"));
    sha256_hex(&[&identity.0, "\n", &pass.to_string(), &cancel])
}

/// Percent-encodes the separators and the characters that SQS refuses in attributes.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '%' | '/' | '\u{fffe}' | '\u{ffff}') || c.is_control() {
            encoded.extend(utf8_percent_encode(c.encode_utf8(&mut [0; 4]), NON_ALPHANUMERIC));
        } else {
            encoded.push(c);
        }
    }
    encoded
}

fn decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// A mail's longest life: 365 days in the store, and 14 on a queue (SQS's longest `MessageRetentionPeriod`).
pub const LONGEST_LIFE: Duration = Duration::from_hours((365 + 14) * 24);

/// Largest accepted pass. Each replay of a parked mail adds 65,536, so 32,767 replays are possible. The
/// numbers above are left for the next passes, so that the next pass always differs.
const MOST_PASSES: u32 = u32::MAX / 2;

/// A message from a campaign queue or the express queue, with the values that its envelope is checked
/// against.
#[derive(Clone, Copy, Debug)]
pub struct CampaignMessage<'a> {
    /// The campaign of the queue, or `express`.
    pub campaign: &'a str,
    /// The `id` in the message's body; none if it has none.
    pub id: Option<&'a str>,
    /// Time at which SQS took the message into this queue (`SentTimestamp`).
    pub sent_at: EpochMillis,
    /// Number of attempts after which a mail is given up (`TIDEGATE_MAX_ATTEMPTS`).
    pub max_attempts: u32,
}

impl CampaignMessage<'_> {
    /// The accepted envelope of the message; none if the mail counts as fresh. `attribute` returns an
    /// attribute's value by name.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use tidegate_core::identity::{CampaignMessage, Envelope, EpochMillis, Identity};
    /// let at = EpochMillis::new(1_795_206_967_042);
    /// let message = CampaignMessage { campaign: "news", id: Some("7"), sent_at: at, max_attempts: 5 };
    /// let read = |envelope: &Envelope| {
    ///     let attributes: HashMap<_, _> = envelope.to_attributes().into_iter().collect();
    ///     message.envelope(|name| attributes.get(name).map(String::as_str))
    /// };
    /// let ours = Envelope::fresh("news", Identity::from_body_id("news", "7"), at).put_back();
    /// assert_eq!(read(&ours), Some(ours.clone()));
    /// let foreign = Envelope { identity: Identity::from_body_id("small", "7"), ..ours };
    /// assert_eq!(read(&foreign), None);
    /// ```
    pub fn envelope<'a>(&self, attribute: impl Fn(&str) -> Option<&'a str>) -> Option<Envelope> {
        let found = Envelope::from_attributes(attribute).ok()??;
        let ours = found.campaign == self.campaign
            && self.owns(&found.identity)
            && (1..=MOST_PASSES).contains(&found.pass)
            && found.attempt <= found.pass;
        ours.then(|| self.bounded(found))
    }

    fn owns(&self, identity: &Identity) -> bool {
        match self.id {
            Some(id) => *identity == Identity::from_body_id(self.campaign, id),
            None => identity.is_of_message_in(self.campaign),
        }
    }

    fn bounded(&self, found: Envelope) -> Envelope {
        let retention = u64::try_from(LONGEST_LIFE.as_millis()).unwrap_or(u64::MAX);
        let oldest = EpochMillis::new(self.sent_at.as_millis().saturating_sub(retention));
        let enqueued_at = found.enqueued_at.clamp(oldest, self.sent_at);
        let first_attempt_at = found.first_attempt_at.map(|at| at.clamp(enqueued_at, self.sent_at));
        // The limit may have been lowered since the envelope was written.
        let attempt = if found.attempt < self.max_attempts { found.attempt } else { 0 };
        Envelope { attempt, enqueued_at, first_attempt_at, ..found }
    }
}

const WRITTEN: &[BorrowedFormatItem<'static>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// A time in whole milliseconds since the epoch, from 1970 to the end of the year 9999. It is written
/// as RFC 3339 in UTC with three decimals; further decimals are cut off when read.
///
/// ```
/// use tidegate_core::identity::EpochMillis;
/// let time = EpochMillis::new(1_795_206_967_042);
/// assert_eq!(time.to_string(), "2026-11-20T20:36:07.042Z");
/// assert_eq!("2026-11-20T21:36:07.0429+01:00".parse(), Ok(time));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EpochMillis(u64);

impl EpochMillis {
    /// 9999-12-31T23:59:59.999Z, the last time that RFC 3339 can write.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// The time `millis` milliseconds after the epoch; [`EpochMillis::MAX`] if that would be later.
    pub const fn new(millis: u64) -> Self {
        if millis > Self::MAX.0 { Self::MAX } else { Self(millis) }
    }

    /// Milliseconds since the epoch, at most [`EpochMillis::MAX`].
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl From<Timestamp> for EpochMillis {
    fn from(at: Timestamp) -> Self {
        Self::new(at.as_millis())
    }
}

impl From<EpochMillis> for Timestamp {
    fn from(at: EpochMillis) -> Self {
        Self::from_millis(at.0)
    }
}

impl fmt::Display for EpochMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .map_err(|_| fmt::Error)?;
        f.write_str(&time.format(WRITTEN).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for EpochMillis {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        const ALLOWED: &str =
            "is not allowed: an RFC 3339 time from 1970 on, like 2026-11-20T20:36:07.042Z, is";
        let millis = OffsetDateTime::parse(text, &Rfc3339)
            .ok()
            .and_then(|time| u64::try_from(time.unix_timestamp_nanos().div_euclid(1_000_000)).ok());
        millis.map(Self::new).ok_or_else(|| InvalidText::new(text, ALLOWED))
    }
}

serialized_as_text!(EpochMillis);

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

/// The names of the attributes that Tidegate writes.
pub const ATTRIBUTE_NAMES: [&str; 8] =
    [CAMPAIGN, IDENTITY, PASS, ATTEMPT, ENQUEUED_AT, FIRST_ATTEMPT_AT, LAST_ERROR, TRACEPARENT];

/// The data that goes with a mail from queue to queue. All attributes have the SQS type `String`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The campaign's name, at most [`MAX_CAMPAIGN_CHARS`] characters.
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
    /// The trace of its producer; none without one.
    pub trace: Option<TraceParent>,
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
    /// The attribute's value is malformed.
    #[error("message attribute {attribute} is no {kind}")]
    Malformed {
        /// Name of the attribute.
        attribute: &'static str,
        /// The thing that the value ought to be.
        kind: &'static str,
        /// The value, and the form that is allowed.
        source: InvalidText,
    },
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
            trace: None,
        }
    }

    /// Most bytes that its attributes can ever have, as SQS counts them: with the longest counters,
    /// times and error.
    pub fn most_bytes(&self) -> usize {
        const DIGITS: usize = u32::MAX.ilog10() as usize + 1;
        const TIME: usize = "2026-11-20T20:36:07.042Z".len();
        let longest = [
            (CAMPAIGN, self.campaign.len()),
            (IDENTITY, self.identity.as_str().len()),
            (PASS, DIGITS),
            (ATTEMPT, DIGITS),
            (ENQUEUED_AT, TIME),
            (FIRST_ATTEMPT_AT, TIME),
            (LAST_ERROR, MAX_LAST_ERROR_BYTES),
            (TRACEPARENT, self.trace.as_ref().map_or(0, |trace| trace.as_str().len())),
        ];
        let present = longest.into_iter().filter(|(_, bytes)| *bytes > 0);
        present.map(|(name, bytes)| attribute_bytes(name, bytes)).sum()
    }

    /// Most bytes of the body of the mail `id` of a campaign, so that the attributes fit beside it on every queue.
    pub fn most_body_bytes(campaign: &str, id: &str) -> usize {
        let identity = Identity::from_body_id(campaign, id);
        let envelope = Self::fresh(campaign, identity, EpochMillis::MAX);
        CAMPAIGN_QUEUE_BYTES.saturating_sub(envelope.most_bytes())
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
        let first_attempt_at = self.first_attempt_at.or(Some(at));
        Self { first_attempt_at, last_error: Some(error.to_owned()), ..self.put_back() }
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
            (TRACEPARENT, self.trace.as_ref().map(ToString::to_string)),
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
    /// by name. For queues that producers write use [`CampaignMessage::envelope`], which accepts
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
        let malformed =
            |attribute, kind| move |source| EnvelopeError::Malformed { attribute, kind, source };
        let number = |name| {
            let value = needed(name)?;
            let allowed = "is not allowed: a number from 0 to 4294967295 is";
            value.parse().map_err(|_| malformed(name, "number")(InvalidText::new(value, allowed)))
        };
        let time = |name, value: &str| value.parse().map_err(malformed(name, "time"));
        Ok(Some(Self {
            campaign: needed(CAMPAIGN)?.to_owned(),
            identity: Identity::parse(identity).map_err(malformed(IDENTITY, "identity"))?,
            pass: number(PASS)?,
            attempt: number(ATTEMPT)?,
            enqueued_at: time(ENQUEUED_AT, needed(ENQUEUED_AT)?)?,
            first_attempt_at: attribute(FIRST_ATTEMPT_AT)
                .map(|value| time(FIRST_ATTEMPT_AT, value))
                .transpose()?,
            last_error: attribute(LAST_ERROR).map(str::to_owned),
            trace: TraceParent::of_attributes(attribute),
        }))
    }
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_of_the_producer_and_the_same_message_id_are_two_identities() {
        assert_ne!(Identity::from_body_id("c", "x"), Identity::from_message_id("c", "x"));
    }

    #[test]
    fn texts_that_tidegate_did_not_write_are_refused_with_what_is_allowed() {
        for text in [
            "",
            "a",
            "a/b",
            "a/id",
            "a/id/b/c",
            "a/ID/b",
            "a/id/%2f",
            "a/id/%41",
            "a/id/%",
            "a/id/%zz",
            "a/id/%+1",
            "a/id/\n",
            "sha256/ABC",
            "a/msg/%FF",
        ] {
            let error = Identity::parse(text).unwrap_err().to_string();
            assert!(error.contains("campaign/id/"), "{text}: {error}");
        }
    }

    #[test]
    fn group_and_deduplication_ids_are_what_a_fifo_queue_allows() {
        let identity = Identity::from_body_id("news", "7");
        // Expected values: `printf 'news/id/7' | sha256sum` and `printf 'news/id/7\n3' | sha256sum`.
        assert_eq!(
            group_id(&identity),
            "b61e93ee2b18b90c8cfe75f2eb1e500b3901b617b7bdf733f34ad37e1bef4d89"
        );
        assert_eq!(
            deduplication_id(&identity, 3, None),
            "1cbe11997ecc03963c3f77ae457b34a5794734717517307a80b224b1c27573db"
        );
        assert_ne!(group_id(&identity), deduplication_id(&identity, 0, None));
        assert_ne!(deduplication_id(&identity, 1, None), deduplication_id(&identity, 11, None));
        let after = Some(EpochMillis::new(7));
        assert_ne!(deduplication_id(&identity, 1, None), deduplication_id(&identity, 1, after));
    }

    #[test]
    fn an_over_long_identity_is_kept_as_its_hash() {
        let long = "x".repeat(4000);
        let identity = Identity::from_body_id("news", &long);
        assert_eq!(identity.as_str().len(), "sha256/".len() + 64);
        assert_eq!(Identity::parse(identity.as_str()), Ok(identity.clone()));
        assert_ne!(identity, Identity::from_body_id("news", &(long + "x")));
    }

    proptest! {
        #[test]
        fn two_different_pairs_never_share_an_identity(
            (a, b, c, d) in (".{0,6}", ".{0,6}", ".{0,6}", ".{0,6}"),
        ) {
            let same = (&a, &b) == (&c, &d);
            prop_assert_eq!(Identity::from_body_id(&a, &b) == Identity::from_body_id(&c, &d), same);
            prop_assert_ne!(Identity::from_body_id(&a, &b), Identity::from_message_id(&c, &d));
        }

        #[test]
        fn separators_moved_between_campaign_and_id_make_another_identity(
            text in "[/%a2F5]{2,8}", at in 0_usize..8, other in 0_usize..8,
        ) {
            let (at, other) = (at.min(text.len()), other.min(text.len()));
            let first = Identity::from_body_id(&text[..at], &text[at..]);
            let second = Identity::from_body_id(&text[..other], &text[other..]);
            prop_assert_eq!(first == second, at == other);
        }

        #[test]
        fn an_identity_reads_back_with_any_characters(
            campaign in any::<String>(), id in any::<String>(),
        ) {
            let identity = Identity::from_body_id(&campaign, &id);
            prop_assert_eq!(Identity::parse(identity.as_str()), Ok(identity.clone()));
            prop_assert!(!identity.as_str().chars().any(char::is_control));
            prop_assert_eq!(identity.id(), id);
        }
    }
}

#[cfg(test)]
mod campaign_queue_tests {
    use std::collections::BTreeMap;

    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const SENT_AT: EpochMillis = EpochMillis::new(1_795_206_967_042);
    const MAX_ATTEMPTS: u32 = 5;

    fn message(id: Option<&str>) -> CampaignMessage<'_> {
        CampaignMessage { campaign: "news", id, sent_at: SENT_AT, max_attempts: MAX_ATTEMPTS }
    }

    fn read(id: Option<&str>, attributes: &BTreeMap<&str, String>) -> Option<Envelope> {
        message(id).envelope(|name| attributes.get(name).map(String::as_str))
    }

    /// Attributes of a mail that was put back twice, once after a failed send.
    fn ours() -> BTreeMap<&'static str, String> {
        let fresh = Envelope::fresh("news", Identity::from_body_id("news", "7"), SENT_AT);
        fresh.put_back().put_back_failed(SENT_AT, "503").to_attributes().into_iter().collect()
    }

    #[test]
    fn a_mail_that_was_put_back_keeps_its_envelope() {
        let read = read(Some("7"), &ours()).unwrap();
        assert_eq!((read.pass, read.attempt, read.enqueued_at), (2, 1, SENT_AT));
        assert_eq!(read.last_error.as_deref(), Some("503"));
    }

    #[test]
    fn a_mail_without_an_id_keeps_its_first_message_id() {
        let of = |identity: Identity| {
            let envelope = Envelope::fresh("news", identity, SENT_AT).put_back();
            let attributes = envelope.to_attributes().into_iter().collect();
            read(None, &attributes).is_some()
        };
        assert!(of(Identity::from_message_id("news", "b3f6a5c2-8f0e-4d6c-9a57-1d0f4f6f2f11")));
        assert!(!of(Identity::from_message_id("small", "b3f6a5c2")));
        assert!(!of(Identity::from_message_id("news", "")));
        assert!(!of(Identity::from_message_id("news", &"x".repeat(101))), "SQS has none so long");
        assert!(!of(Identity::from_message_id("news", &"x".repeat(4_000))), "a hash");
        assert!(!of(Identity::from_body_id("news", "7")));
    }

    #[test]
    fn what_cannot_be_ours_is_fresh_mail() {
        for (name, value) in [
            ("campaign", "small"),
            ("identity", "small/id/7"),
            ("identity", "news/id/8"),
            ("identity", "news/msg/7"),
            ("identity", "order 7"),
            ("pass", "0"),
            ("pass", "4294967295"),
            ("pass", "often"),
            ("attempt", "3"),
            ("attempt", "4294967295"),
            ("enqueued_at", "long ago"),
            ("first_attempt_at", "never"),
        ] {
            let mut attributes = ours();
            attributes.insert(name, value.to_owned());
            assert_eq!(read(Some("7"), &attributes), None, "{name}={value}");
        }
        for name in ["campaign", "identity", "pass", "attempt", "enqueued_at"] {
            let mut attributes = ours();
            attributes.remove(name);
            assert_eq!(read(Some("7"), &attributes), None, "without {name}");
        }
    }

    #[test]
    fn a_parked_mail_and_each_of_its_replays_keep_their_envelopes() {
        let fresh = Envelope::fresh("news", Identity::from_body_id("news", "7"), SENT_AT);
        let mut replayed = fresh;
        for replays in 1..1_000 {
            replayed = replayed.parked().put_back();
            let attributes = replayed.to_attributes().into_iter().collect();
            assert_eq!(read(Some("7"), &attributes).as_ref(), Some(&replayed), "{replays}");
        }
    }

    #[test]
    fn where_fewer_attempts_are_allowed_meanwhile_it_has_all_of_them_again() {
        let attempts = |attempt: u32| {
            let mut attributes = ours();
            attributes.extend([("pass", "9".to_owned()), ("attempt", attempt.to_string())]);
            read(Some("7"), &attributes).unwrap().attempt
        };
        assert_eq!([attempts(4), attempts(5), attempts(9)], [4, 0, 0]);
    }

    #[test]
    fn its_times_lie_within_what_sqs_keeps_a_message() {
        let read = |enqueued_at: &str, first_attempt_at: &str| {
            let mut attributes = ours();
            attributes.insert("enqueued_at", enqueued_at.to_owned());
            attributes.insert("first_attempt_at", first_attempt_at.to_owned());
            let read = read(Some("7"), &attributes).unwrap();
            (read.enqueued_at, read.first_attempt_at.unwrap())
        };
        let (long_ago, far_off) = ("1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z");
        let oldest = EpochMillis::new(SENT_AT.as_millis() - 379 * 24 * 3_600_000);
        assert_eq!(read(long_ago, long_ago), (oldest, oldest));
        assert_eq!(read(far_off, far_off), (SENT_AT, SENT_AT));
        assert_eq!(read(long_ago, far_off), (oldest, SENT_AT));
    }

    fn mostly<T: std::fmt::Debug>(
        usual: impl Strategy<Value = T> + 'static,
        other: impl Strategy<Value = T> + 'static,
    ) -> impl Strategy<Value = T> {
        prop_oneof![4 => usual, 1 => other]
    }

    fn number() -> impl Strategy<Value = String> {
        let any_number = any::<u32>().prop_map(|number| number.to_string());
        mostly((0_u32..8).prop_map(|number| number.to_string()), prop_oneof![any_number, ".{0,6}"])
    }

    fn time() -> impl Strategy<Value = String> {
        mostly(any::<u64>().prop_map(|millis| EpochMillis::new(millis).to_string()), ".{0,12}")
    }

    fn attached(
        value: impl Strategy<Value = String> + 'static,
    ) -> impl Strategy<Value = Option<String>> {
        option::weighted(0.9, value)
    }

    prop_compose! {
        /// Attributes that producers might attach, often close enough to Tidegate's to be accepted.
        fn attributes()(
            campaign in attached(mostly(Just("news".to_owned()), ".{0,6}")),
            identity in attached(mostly(
                select(vec!["news/id/7", "news/msg/7", "small/id/7", "small/msg/7", "news/id/8"])
                    .prop_map(str::to_owned),
                "(news|small|sha256|.{0,3})(/(id|msg))?/.{0,6}",
            )),
            pass in attached(number()),
            attempt in attached(number()),
            enqueued_at in attached(time()),
            first_attempt_at in option::of(time()),
            last_error in option::of("(.|\\s){0,300}"),
        ) -> BTreeMap<&'static str, String> {
            let all = [
                ("campaign", campaign),
                ("identity", identity),
                ("pass", pass),
                ("attempt", attempt),
                ("enqueued_at", enqueued_at),
                ("first_attempt_at", first_attempt_at),
                ("last_error", last_error),
            ];
            all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_attached_a_mail_is_fresh_or_has_an_envelope_of_its_own_campaign(
            attributes in attributes(), id in option::of(select(vec!["7", "8", "small/id/7"])),
        ) {
            let Some(envelope) = read(id, &attributes) else { return Ok(()) };
            prop_assert_eq!(&envelope.campaign, "news");
            prop_assert_eq!(envelope.identity.campaign(), Some("news".to_owned()));
            if let Some(id) = id {
                prop_assert_eq!(&envelope.identity, &Identity::from_body_id("news", id));
            }
            prop_assert!(envelope.pass >= 1 && envelope.attempt < MAX_ATTEMPTS);
            prop_assert!(envelope.enqueued_at <= SENT_AT);
            let waited = SENT_AT.as_millis() - envelope.enqueued_at.as_millis();
            prop_assert!(waited <= 379 * 24 * 3_600_000);
            // The pass of the next copy differs, so the merge queue does not drop it as a duplicate.
            let again = envelope.clone().put_back_failed(SENT_AT, "503");
            prop_assert!(again.pass > envelope.pass && again.attempt == envelope.attempt + 1);
            prop_assert!(envelope.clone().parked().put_back().pass > envelope.pass);
        }

        #[test]
        fn whatever_befalls_our_mail_it_keeps_its_identity_and_pass(
            id in option::of("\\PC{1,9}"),
            steps in proptest::collection::vec(0_u8..4, 1..12),
        ) {
            let identity = match &id {
                Some(id) => Identity::from_body_id("news", id),
                None => Identity::from_message_id("news", "b3f6a5c2"),
            };
            let fresh = Envelope::fresh("news", identity, SENT_AT);
            let ours = steps.into_iter().fold(fresh, |mail, step| match step {
                0 => mail.put_back(),
                1 => mail.put_back_failed(SENT_AT, "503"),
                2 => mail.put_back_uncounted(SENT_AT, "503"),
                _ => Envelope { attempt: 0, ..mail.parked() }.put_back(),
            });
            let attributes = ours.to_attributes().into_iter().collect();
            let read = read(id.as_deref(), &attributes).unwrap();
            let attempt = if ours.attempt < MAX_ATTEMPTS { ours.attempt } else { 0 };
            prop_assert_eq!(read, Envelope { attempt, ..ours });
        }
    }
}

#[cfg(test)]
mod epoch_millis_tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_time_is_refused_with_what_is_allowed() {
        for text in ["", "yesterday", "1969-12-31T23:59:59.999Z", "2026-11-20", "1795206967042"] {
            let error = text.parse::<EpochMillis>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("RFC 3339"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_time_reads_back_to_the_millisecond(millis in any::<u64>()) {
            let time = EpochMillis::new(millis);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
            prop_assert_eq!(time.as_millis(), millis.min(EpochMillis::MAX.as_millis()));
        }
    }
}

#[cfg(test)]
mod envelope_tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

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
            ("pass", Some("-1"), "pass is no number: \"-1\" is not allowed: a number"),
            ("attempt", Some("4294967296"), "attempt is no number: \"4294967296\""),
            ("enqueued_at", Some("now"), "enqueued_at is no time"),
            ("first_attempt_at", Some(""), "first_attempt_at is no time"),
            ("identity", Some("news"), "identity is no identity"),
            ("campaign", None, "campaign is missing"),
            ("pass", None, "pass is missing"),
            ("attempt", None, "attempt is missing"),
            ("enqueued_at", None, "enqueued_at is missing"),
        ] {
            let error = read(&with(name, value)).unwrap_err();
            assert!(crate::in_full(&error).contains(expected), "{name}: {error}");
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
            traced in any::<bool>(),
        ) -> Envelope {
            Envelope {
                identity: Identity::from_body_id(&campaign, &id),
                campaign,
                pass,
                attempt,
                enqueued_at: EpochMillis::new(enqueued_at),
                first_attempt_at: first.map(EpochMillis::new),
                last_error,
                trace: traced.then(trace),
            }
        }
    }

    fn trace() -> TraceParent {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        TraceParent::of_attributes(|name| (name == TRACEPARENT).then_some(text)).unwrap()
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
