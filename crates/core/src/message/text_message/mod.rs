//! The text message: the JSON that a producer sends to a campaign queue of a stack with `TIDEGATE_CHANNEL=sms`.
//!
//! ```
//! use tidegate_core::text_message::TextMessage;
//! let text = TextMessage::parse(r#"{"to_phone": "+12065550100", "text": "Your parcel is here."}"#).unwrap();
//! assert_eq!((text.to.as_str(), text.parts), ("+12065550100", 1));
//! ```
//!
//! Further members: `origination` (a phone number, sender id or pool), `type` (`transactional` or `promotional`),
//! `configuration_set`, `id`, `priority`, `tags` and `not_before`. Unknown members are refused, except `metadata` and names that begin
//! with `x_`, as for a mail.
//!
//! The parts of a text: SMS carries 140 bytes at a time, and AWS counts, limits and bills parts.
//!
//! [3GPP TS 23.038](https://www.3gpp.org/dynareport/23038.htm) defines both alphabets.
//! [AWS](https://docs.aws.amazon.com/sms-voice/latest/userguide/sms-limitations-character.html) takes the first one
//! that has all characters of the text.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use strum::{EnumString, IntoStaticStr};

use crate::email::json::Node;
use crate::email::members::Members;
use crate::email::{
    EmailError, EmailErrorKind, Priority, read_id, read_not_before, read_priority, read_tags,
};
use crate::identity::EpochMillis;
use crate::outcome::{Failure, Outcome, Stage, classify};
use crate::text::{InvalidText, is_word_of};

/// A text message that AWS End User Messaging can be given.
#[derive(Debug, Clone, PartialEq, Eq)]
// Only the parser makes one.
#[non_exhaustive]
pub struct TextMessage {
    /// The producer's id of 1 to 256 characters; none if the message has none.
    pub id: Option<String>,
    /// The text's priority within its campaign.
    pub priority: Priority,
    /// The time before which it may not be sent; none if it may be sent at once.
    pub not_before: Option<EpochMillis>,
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

/// The basic alphabet of GSM-7: one septet each.
const BASIC: &str = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà";
/// The extension table of GSM-7: an escape and a septet each.
const EXTENDED: &str = "\u{c}^{}\\[~]|€";

/// The most septets, and the most units of UTF-16, of a text that AWS takes.
const MOST_SEPTETS: u32 = 1_530;
const MOST_UTF_16: u32 = 630;

/// How a text's characters are written in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
pub enum Alphabet {
    /// Septets: 160 in a single part, 153 in each of several.
    #[strum(serialize = "GSM-7")]
    Gsm7,
    /// UTF-16 units: 70 in a single part, 67 in each of several.
    #[strum(serialize = "UCS-2")]
    Ucs2,
}

/// The length of a text as SMS counts it.
///
/// ```
/// use tidegate_core::text_message::{Alphabet, TextLength};
/// let of = |text: &str| TextLength::of(text).parts;
/// assert_eq!((of(&"a".repeat(160)), of(&"a".repeat(161))), (1, 2));
/// assert_eq!((of(&"ж".repeat(70)), of(&"ж".repeat(71))), (1, 2));
/// assert_eq!(TextLength::of("5 €"), TextLength { alphabet: Alphabet::Gsm7, units: 4, parts: 1 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLength {
    /// The alphabet that AWS chooses for the text.
    pub alphabet: Alphabet,
    /// Septets or UTF-16 units.
    pub units: u32,
    /// Parts, at least 1.
    pub parts: u32,
}

impl Alphabet {
    /// The name that AWS uses.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl TextLength {
    /// Counts a text's units and parts.
    pub fn of(text: &str) -> Self {
        let gsm: Option<Vec<u32>> = text.chars().map(septets).collect();
        match gsm {
            Some(widths) => Self::filled(Alphabet::Gsm7, &widths, 160, 153),
            None => {
                let widths: Vec<u32> =
                    text.chars().map(|c| 1 + u32::from(c > '\u{ffff}')).collect();
                Self::filled(Alphabet::Ucs2, &widths, 70, 67)
            }
        }
    }

    /// The first character that GSM-7 does not have, because of which the text is written in UCS-2; `None` if there is
    /// none.
    ///
    /// ```
    /// use tidegate_core::text_message::TextLength;
    /// assert_eq!(TextLength::outside_gsm7("5 € for “you”"), Some('“'));
    /// ```
    pub fn outside_gsm7(text: &str) -> Option<char> {
        text.chars().find(|c| septets(*c).is_none())
    }

    /// Fills parts in order. A character of two units stands in one part: no phone joins the halves of an escape or
    /// of a surrogate pair.
    fn filled(alphabet: Alphabet, widths: &[u32], alone: u32, each: u32) -> Self {
        let units = widths.iter().sum();
        let fill = |(parts, used), width: &u32| match used + width {
            more if more > each => (parts + 1, *width),
            fits => (parts, fits),
        };
        let parts = if units <= alone { 1 } else { widths.iter().fold((1, 0), fill).0 };
        Self { alphabet, units, parts }
    }

    /// True if AWS takes the text: at most 1,530 septets or 630 UTF-16 units.
    pub const fn is_allowed(&self) -> bool {
        let most = match self.alphabet {
            Alphabet::Gsm7 => MOST_SEPTETS,
            Alphabet::Ucs2 => MOST_UTF_16,
        };
        self.units <= most
    }
}

/// Septets of a character; `None` if GSM-7 does not have it.
fn septets(c: char) -> Option<u32> {
    if c.is_ascii_alphanumeric() || BASIC.contains(c) {
        Some(1)
    } else {
        EXTENDED.contains(c).then_some(2)
    }
}

/// The members of a text message; `docs/text.schema.json` describes each.
const MEMBERS: [&str; 9] = [
    "to_phone",
    "text",
    "origination",
    "type",
    "configuration_set",
    "id",
    "priority",
    "tags",
    "not_before",
];
/// Most tags of the producer: the request's `Context` has [five entries], and three are Tidegate's.
///
/// [five entries]: https://docs.aws.amazon.com/pinpoint/latest/apireference_smsvoicev2/API_SendTextMessage.html
const MAX_TAGS: usize = 2;
/// Most characters of an origination identity and of a configuration set's name that AWS takes.
const MAX_NAME: usize = 256;

impl TextMessage {
    /// Reads a message body.
    ///
    /// # Errors
    /// [`EmailError`] for the first fault, with the field.
    pub fn parse(body: &str) -> Result<Self, EmailError> {
        let node = Node::read(body)?;
        node.refuse_duplicates("")?;
        let mut members = Members::known("", node, &MEMBERS)?;
        let id = read_id(&mut members)?;
        let priority = read_priority(&mut members)?;
        let not_before = read_not_before(&mut members)?;
        let tags = read_tags(&mut members)?;
        if tags.len() > MAX_TAGS {
            let problem = "must be at most 2 (AWS takes 5, Tidegate adds three)";
            return Err(EmailError::invalid("tags", problem).with_found(tags.len().to_string()));
        }
        let to = members
            .take_allowed("to_phone", is_e164, E164)?
            .ok_or_else(|| EmailError::missing("to_phone", E164))?;
        let text = read_text(&mut members)?;
        Ok(Self {
            parts: TextLength::of(&text).parts,
            id,
            priority,
            not_before,
            to,
            text,
            origination: members.take_allowed("origination", is_origin, ORIGIN)?,
            message_type: members.take_parsed("type", "must be transactional or promotional")?,
            configuration_set: members.take_allowed(
                "configuration_set",
                |text| is_word_of(text, MAX_NAME, "_-:/"),
                SET,
            )?,
            tags,
        })
    }
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
pub(crate) fn is_e164(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or_default();
    (7..=15).contains(&digits.len())
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && !digits.starts_with('0')
}

fn is_origin(text: &str) -> bool {
    is_word_of(text, MAX_NAME, "+_-:/")
}

/// A recipient who takes no texts. It says nothing about the campaign's other texts.
const OPTED_OUT: &str = "DESTINATION_PHONE_NUMBER_OPTED_OUT";

/// A recipient whom the sandbox of an account does not take.
const NOT_VERIFIED: &str = "DESTINATION_PHONE_NUMBER_NOT_VERIFIED";

/// Origins, configuration sets and account settings that an operator puts right.
const NOT_READY: [&str; 11] = [
    "ResourceNotFoundException",
    "EVENT_DESTINATION_MISMATCH",
    "KEYWORD_MISMATCH",
    "MESSAGE_TYPE_MISMATCH",
    "NO_ORIGINATION_IDENTITIES_FOUND",
    "NUMBER_CAPABILITIES_MISMATCH",
    "RESOURCE_NOT_ACCESSIBLE",
    "RESOURCE_NOT_ACTIVE",
    "SENDER_ID_NOT_REGISTERED",
    "SENDER_ID_REQUIRES_REGISTRATION",
    "OPT_OUT_LIST_MISMATCH",
];

/// The account may not send; an operator writes to AWS. `DescribeSpendLimits` does not tell when it may again: the
/// scheduler lifts the hold each minute, and the next text tries.
const ACCOUNT: [&str; 2] = ["ACCOUNT_DISABLED", "INSUFFICIENT_ACCOUNT_REPUTATION"];

const SPEND_LIMIT: &str = "MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT";

/// Classifies the failure of a text message.
///
/// The failure's code is the `Reason` of [AWS's exception], or its name if it has no reason. Countries that are blocked,
/// numbers that are none and prices above the limit concern the one text, so they are permanent, as every other refusal.
///
/// [AWS's exception]: https://docs.aws.amazon.com/pinpoint/latest/apireference_smsvoicev2/API_SendTextMessage.html
///
/// ```
/// use tidegate_core::outcome::{Failure, Outcome, Stage};
/// use tidegate_core::text_message::classify_text;
/// let failure = |code: &str| Failure {
///     http_status: Some(400),
///     code: Some(code.to_owned()),
///     message: String::new(),
///     stage: Stage::Answered,
/// };
/// assert_eq!(classify_text(&failure("ThrottlingException")), Outcome::RateExceeded);
/// assert_eq!(classify_text(&failure("MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT")), Outcome::SpendLimit);
/// ```
pub fn classify_text(failure: &Failure) -> Outcome {
    let code = failure.code.as_deref().unwrap_or_default();
    match failure.stage {
        Stage::Answered if code == SPEND_LIMIT => Outcome::SpendLimit,
        Stage::Answered if code == OPTED_OUT => Outcome::OptedOut,
        Stage::Answered if code == NOT_VERIFIED => Outcome::Permanent,
        Stage::Answered if NOT_READY.contains(&code) => Outcome::NotReady,
        Stage::Answered if ACCOUNT.contains(&code) => Outcome::AccountPaused,
        _ => classify(failure),
    }
}

/// The [types of events] that count, each with the notice that it is: a bounce if there is no such phone or it takes no
/// texts, a complaint if the carrier takes the text for spam, a deferral for a fault of the carrier that may pass.
///
/// [types of events]: https://docs.aws.amazon.com/sms-voice/latest/userguide/configuration-sets-event-types.html
pub const RECEIPTS: [(&str, &str); 6] = [
    ("TEXT_INVALID", "bounce"),
    ("TEXT_UNREACHABLE", "bounce"),
    ("TEXT_BLOCKED", "bounce"),
    ("TEXT_SPAM", "complaint"),
    ("TEXT_CARRIER_BLOCKED", "complaint"),
    ("TEXT_CARRIER_UNREACHABLE", "deferral"),
];

/// The members of an event that count. It also has the recipient's phone number, which is not read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Receipt {
    event_type: String,
    pub(crate) message_id: String,
    message_request_timestamp: Option<u64>,
    #[serde(default, rename = "totalMessageParts")]
    pub(crate) parts: u64,
    /// The request's `Context`: Tidegate's tags and the producer's.
    #[serde(default)]
    pub(crate) context: BTreeMap<String, String>,
}

impl Receipt {
    /// The kind of notice that the receipt is; empty for one that says nothing of the campaign's list, such as a delivery.
    pub(crate) fn kind(&self) -> &'static str {
        let known = RECEIPTS.into_iter().find(|(event, _)| *event == self.event_type);
        known.map_or("", |(_, kind)| kind)
    }

    pub(crate) fn sent_at(&self) -> Option<EpochMillis> {
        self.message_request_timestamp.map(EpochMillis::new)
    }
}

#[cfg(test)]
mod parts_tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(text: &str) -> u32 {
        TextLength::of(text).parts
    }

    #[test]
    fn the_tables_are_those_of_the_standard() {
        // 128 codes, of which one is the escape; ten are defined behind it.
        assert_eq!((BASIC.chars().count(), EXTENDED.chars().count()), (127, 10));
        assert_eq!(TextLength::of(BASIC).units, 127);
        assert_eq!(TextLength::of(EXTENDED).units, 20);
        for missing in ["ç", "`", "“", "–", "á", "🌊", "\t"] {
            assert_eq!(TextLength::of(missing).alphabet, Alphabet::Ucs2, "{missing}");
        }
    }

    #[test]
    fn parts_have_the_lengths_of_the_standard() {
        let of = |unit: &str, counts: [usize; 6]| counts.map(|count| parts(&unit.repeat(count)));
        assert_eq!(of("a", [1, 160, 161, 306, 307, 459]), [1, 1, 2, 2, 3, 3]);
        assert_eq!(of("ж", [1, 70, 71, 134, 135, 201]), [1, 1, 2, 2, 3, 3]);
        // Two units each: 76 escapes fit beside one another in 153 septets, 33 pairs in 67 units.
        assert_eq!(of("€", [1, 80, 81, 152, 153, 228]), [1, 1, 2, 2, 3, 3]);
        assert_eq!(of("🌊", [1, 35, 36, 66, 67, 99]), [1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn a_character_of_two_units_never_lies_in_two_parts() {
        assert_eq!(parts(&format!("{}€{}", "a".repeat(152), "a".repeat(152))), 3);
        assert_eq!(parts(&format!("{}€{}", "a".repeat(151), "a".repeat(153))), 2);
        assert_eq!(parts(&format!("{}🌊{}", "ж".repeat(66), "ж".repeat(66))), 3);
        assert_eq!(parts(&format!("{}🌊{}", "ж".repeat(65), "ж".repeat(67))), 2);
    }

    #[test]
    fn aws_takes_1530_septets_or_630_units() {
        let allowed = |text: String| TextLength::of(&text).is_allowed();
        assert!(allowed("a".repeat(1_530)) && !allowed("a".repeat(1_531)));
        assert!(allowed("ж".repeat(630)) && !allowed("ж".repeat(631)));
    }

    /// The parts of a text, cut as a phone would see them: the longest beginning that fits, again and again.
    fn cut(text: &str) -> Vec<String> {
        let gsm = text.chars().all(|c| BASIC.contains(c) || EXTENDED.contains(c));
        let extended = |part: &str| part.chars().filter(|c| EXTENDED.contains(*c)).count();
        let width = |part: &str| {
            if gsm { part.chars().count() + extended(part) } else { part.encode_utf16().count() }
        };
        let (alone, each) = if gsm { (160, 153) } else { (70, 67) };
        if width(text) <= alone {
            return vec![text.to_owned()];
        }
        let mut parts = vec![String::new()];
        for c in text.chars() {
            let last = parts.last_mut().unwrap();
            last.push(c);
            if width(last) > each {
                last.pop();
                parts.push(c.to_string());
            }
        }
        parts
    }

    proptest! {
        #[test]
        fn a_text_has_as_many_parts_as_a_phone_receives(
            text in prop_oneof!["[a-z €{}\\[\\]~^]{0,700}", "[a-zж🌊€]{0,400}", any::<String>()]
        ) {
            let cut = cut(&text);
            prop_assert_eq!(parts(&text) as usize, cut.len());
            prop_assert_eq!(cut.concat(), text);
        }

        #[test]
        fn a_longer_text_has_no_fewer_parts(text in "[a-zж🌊€]{1,300}", at in 0_usize..300) {
            let beginning: String = text.chars().take(at).collect();
            prop_assert!(parts(&beginning) <= parts(&text) || TextLength::of(&beginning).alphabet == Alphabet::Ucs2);
        }
    }
}

/// The origination identities that texts may name: phone numbers, sender ids and pools. The first one is that of texts
/// that name none; without a list AWS chooses one, and texts may name any.
///
/// ```
/// use tidegate_core::text_message::Origins;
/// let origins: Origins = "+12065550100, NEWS".parse().unwrap();
/// assert_eq!(origins.0[0], "+12065550100");
/// assert!("two words".parse::<Origins>().is_err());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(pub Vec<String>);

/// The countries that texts may go to, as the beginnings of their phone numbers: `+49` is Germany, `+1340` the US Virgin
/// Islands. Without a list every country is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Countries(pub Vec<String>);

/// The texts that a stack may send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedTexts {
    /// `TIDEGATE_ORIGINS`.
    pub origins: Origins,
    /// `TIDEGATE_ALLOWED_COUNTRIES`.
    pub countries: Countries,
}

impl AllowedTexts {
    /// Checks a text's origin and country, and gives it the first origin if it names none.
    ///
    /// # Errors
    /// [`EmailErrorKind::SenderNotAllowed`] on `origination`, or [`EmailErrorKind::CountryNotAllowed`] on `to_phone`.
    pub fn admit(&self, mut text: TextMessage) -> Result<TextMessage, EmailError> {
        let Self { origins, countries } = self;
        let origination = text.origination.take();
        text.origination = origination.or_else(|| origins.0.first().cloned());
        if let Some(origin) = text.origination.as_deref().filter(|_| !origins.0.is_empty())
            && !origins.0.iter().any(|allowed| allowed == origin)
        {
            let problem = "must be an origin that TIDEGATE_ORIGINS names";
            let error = EmailError::new(EmailErrorKind::SenderNotAllowed, "origination", problem);
            return Err(error.with_value(origin));
        }
        let allowed = countries.0.iter().any(|code| text.to.starts_with(code));
        if !allowed && !countries.0.is_empty() {
            let problem = "must be in a country that TIDEGATE_ALLOWED_COUNTRIES names";
            let error = EmailError::new(EmailErrorKind::CountryNotAllowed, "to_phone", problem);
            return Err(error.with_value(&text.to));
        }
        Ok(text)
    }
}

fn listed(
    list: &str,
    allows: fn(&str) -> bool,
    allowed: &'static str,
) -> Result<Vec<String>, InvalidText> {
    if list.trim() == "*" {
        return Ok(Vec::new());
    }
    let entries = list.split(',').map(|entry| match entry.trim() {
        entry if allows(entry) => Ok(entry.to_owned()),
        entry => Err(InvalidText::new(entry, allowed)),
    });
    entries.collect()
}

impl FromStr for Origins {
    type Err = InvalidText;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        const ALLOWED: &str = "is not allowed: a comma list of phone numbers (+12065550100), sender ids (NEWS), pools (pool-…) and their \
                               ARNs or * for any is";
        listed(list, is_origin, ALLOWED).map(Self)
    }
}

impl FromStr for Countries {
    type Err = InvalidText;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        const ALLOWED: &str = "is not allowed: a comma list of country codes such as +49, or longer beginnings of numbers such as +1340, \
                               or * for all countries is";
        let is_code = |entry: &str| entry.strip_prefix('+').is_some_and(is_calling_code);
        listed(list, is_code, ALLOWED).map(Self)
    }
}

/// Whether `digits` begin phone numbers: 1 to 7 of them, the first not 0.
pub(crate) fn is_calling_code(digits: &str) -> bool {
    (1..=7).contains(&digits.len())
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && !digits.starts_with('0')
}

/// The country code of a number in E.164, without `+`: [ITU's list] has one digit for zones 1 and 7, two for the codes
/// below, and three for all others.
///
/// [ITU's list]: https://www.itu.int/pub/T-SP-E.164D
pub(crate) fn calling_code(phone: &str) -> &str {
    const OF_TWO_DIGITS: [&str; 44] = [
        "20", "27", "30", "31", "32", "33", "34", "36", "39", "40", "41", "43", "44", "45", "46",
        "47", "48", "49", "51", "52", "53", "54", "55", "56", "57", "58", "60", "61", "62", "63",
        "64", "65", "66", "81", "82", "84", "86", "90", "91", "92", "93", "94", "95", "98",
    ];
    let digits = phone.strip_prefix('+').unwrap_or(phone);
    let length = match digits.get(..2) {
        Some(first) if first.starts_with(['1', '7']) => 1,
        Some(first) if OF_TWO_DIGITS.contains(&first) => 2,
        _ => 3,
    };
    digits.get(..length).unwrap_or(digits)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod allowed_tests {
    use super::*;

    fn admit(origins: &str, countries: &str, body: &str) -> Result<TextMessage, EmailError> {
        let (origins, countries) = (origins.parse().unwrap(), countries.parse().unwrap());
        AllowedTexts { origins, countries }.admit(TextMessage::parse(body).unwrap())
    }

    const TEXT: &str = r#"{"to_phone": "+4917012345678", "text": "Hello"}"#;
    const FROM_NEWS: &str =
        r#"{"to_phone": "+4917012345678", "text": "Hello", "origination": "NEWS"}"#;

    #[test]
    fn a_text_comes_from_the_first_origin_unless_it_names_another_one_of_the_list() {
        let origin = |origins, body| admit(origins, "*", body).map(|text| text.origination);
        assert_eq!(origin("*", TEXT), Ok(None));
        assert_eq!(origin("*", FROM_NEWS), Ok(Some("NEWS".to_owned())));
        assert_eq!(origin("+12065550100,NEWS", TEXT), Ok(Some("+12065550100".to_owned())));
        assert_eq!(origin("+12065550100,NEWS", FROM_NEWS), Ok(Some("NEWS".to_owned())));
        let refused = origin("+12065550100", FROM_NEWS).unwrap_err();
        assert_eq!(refused.kind, EmailErrorKind::SenderNotAllowed);
        let said = "origination: must be an origin that TIDEGATE_ORIGINS names, not \"NEWS\"";
        assert_eq!(refused.to_string(), said);
    }

    #[test]
    fn a_text_goes_to_the_allowed_countries_alone() {
        assert!(admit("*", "+1, +49", TEXT).is_ok());
        assert!(admit("*", "+49170", TEXT).is_ok());
        let refused = admit("*", "+1,+44", TEXT).unwrap_err();
        assert_eq!(refused.kind, EmailErrorKind::CountryNotAllowed);
        assert!(!refused.redacted().contains("170"), "{}", refused.redacted());
    }

    #[test]
    fn the_country_code_of_a_number_has_one_to_three_digits() {
        for (phone, code) in [
            ("+12065550100", "1"),
            ("+79161234567", "7"),
            ("+4917012345678", "49"),
            ("+420601123456", "420"),
            ("+3581234567", "358"),
            ("+9812345678", "98"),
            ("+971501234567", "971"),
        ] {
            assert_eq!(calling_code(phone), code);
        }
    }

    #[test]
    fn entries_of_another_form_are_refused() {
        for wrong in ["", "+49,", "49", "DE", "+049", "+4917012345"] {
            assert!(wrong.parse::<Countries>().is_err(), "{wrong}");
        }
        for wrong in ["", "NEWS,", "two words", "a@b"] {
            assert!(wrong.parse::<Origins>().is_err(), "{wrong}");
        }
    }
}
