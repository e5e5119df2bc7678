//! The meaning of the answers of AWS End User Messaging.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::identity::EpochMillis;
use crate::outcome::{Failure, Outcome, Stage, classify};

/// A recipient who takes no texts. It says nothing about the campaign's other texts.
const OPTED_OUT: [&str; 1] = ["DESTINATION_PHONE_NUMBER_OPTED_OUT"];

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
        Stage::Answered if OPTED_OUT.contains(&code) => Outcome::OptedOut,
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
