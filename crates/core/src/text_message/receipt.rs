//! Delivery receipts of texts: the events of an [event destination].
//!
//! [event destination]: https://docs.aws.amazon.com/sms-voice/latest/userguide/configuration-sets-event-format.html

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::identity::EpochMillis;

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
