//! The identity of a mail, which it keeps for ever, and the attributes that go with it.

mod campaign_queue;
mod envelope;
mod epoch_millis;

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

pub use campaign_queue::CampaignMessage;
pub use envelope::{
    ATTRIBUTE_NAMES, CAMPAIGN_QUEUE_BYTES, Envelope, EnvelopeError, MAX_ATTRIBUTE_BYTES,
};
pub(crate) use envelope::{attribute_bytes, sqs_text};
pub use epoch_millis::EpochMillis;

use crate::text::InvalidText;

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

/// SHA-256 of the concatenated parts, as 64 hex digits.
pub(crate) fn sha256_hex(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
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
