//! Delivery receipts of texts: the events of an [event destination].
//!
//! [event destination]: https://docs.aws.amazon.com/sms-voice/latest/userguide/configuration-sets-event-format.html

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::identity::EpochMillis;

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
    ///
    /// | [event] | counts as |
    /// |---|---|
    /// | `TEXT_INVALID`, `TEXT_UNREACHABLE`, `TEXT_BLOCKED` | bounce: no such phone, or it takes no texts |
    /// | `TEXT_SPAM`, `TEXT_CARRIER_BLOCKED` | complaint: the carrier takes it for spam |
    /// | `TEXT_CARRIER_UNREACHABLE` | deferral: a fault of the carrier that may pass |
    ///
    /// [event]: https://docs.aws.amazon.com/sms-voice/latest/userguide/configuration-sets-event-types.html
    pub(crate) fn kind(&self) -> &'static str {
        match &*self.event_type {
            "TEXT_INVALID" | "TEXT_UNREACHABLE" | "TEXT_BLOCKED" => "bounce",
            "TEXT_SPAM" | "TEXT_CARRIER_BLOCKED" => "complaint",
            "TEXT_CARRIER_UNREACHABLE" => "deferral",
            _ => "",
        }
    }

    pub(crate) fn sent_at(&self) -> Option<EpochMillis> {
        self.message_request_timestamp.map(EpochMillis::new)
    }
}
