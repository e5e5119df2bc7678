//! The [records] of End User Messaging's API, with the members that are looked at.
//!
//! [records]: https://docs.aws.amazon.com/pinpoint/latest/apireference_smsvoicev2/API_Types.html

use std::collections::BTreeMap;

use serde::Deserialize;

/// An attribute of the account; `ACCOUNT_TIER` is `SANDBOX` or `PRODUCTION`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AccountAttribute {
    pub name: String,
    pub value: String,
}

/// A monthly limit in US dollars. Texts, media and voice have one each.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SpendLimit {
    pub name: String,
    /// The limit in force: the account's own, or AWS's.
    pub enforced_limit: u64,
    /// The limit that the account may set without asking AWS.
    pub max_limit: u64,
}

/// All that texts of the account may come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identities {
    pub numbers: Vec<PhoneNumber>,
    pub pools: Vec<Pool>,
    pub sender_ids: Vec<SenderId>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PhoneNumber {
    /// In E.164; some short codes have no `+`.
    pub phone_number: String,
    pub phone_number_arn: String,
    pub phone_number_id: Option<String>,
    /// `ACTIVE`, `PENDING`, …
    pub status: String,
    /// `SHORT_CODE`, `TOLL_FREE`, …; `SIMULATOR` reaches no phone.
    pub number_type: String,
    /// `SMS`, `VOICE`, `MMS`, `RCS`.
    pub number_capabilities: Vec<String>,
    pub opt_out_list_name: String,
    /// Whether AWS leaves replies such as STOP to the account.
    pub self_managed_opt_outs_enabled: bool,
    pub pool_id: Option<String>,
    #[serde(default)]
    pub messaging_limits: MessagingLimits,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct MessagingLimits {
    /// Messages per second by capability.
    #[serde(default)]
    pub rate_limits: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Pool {
    pub pool_id: String,
    pub pool_arn: String,
    /// `ACTIVE`, `CREATING`, `DELETING`.
    pub status: String,
    pub opt_out_list_name: String,
    pub self_managed_opt_outs_enabled: bool,
}

/// A sender id in one country.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SenderId {
    pub sender_id: String,
    pub sender_id_arn: String,
    pub iso_country_code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ConfigurationSet {
    pub configuration_set_name: String,
    pub event_destinations: Vec<EventDestination>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct EventDestination {
    pub enabled: bool,
    pub matching_event_types: Vec<String>,
    pub sns_destination: Option<SnsDestination>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SnsDestination {
    pub topic_arn: String,
}

impl EventDestination {
    /// Whether a topic is told of events of this type.
    pub(super) fn tells(&self, event: &str) -> bool {
        let matches = |known: &String| ["ALL", "TEXT_ALL", event].contains(&known.as_str());
        self.enabled
            && self.sns_destination.is_some()
            && self.matching_event_types.iter().any(matches)
    }
}

impl PhoneNumber {
    /// Parts per second; `None` if AWS does not say.
    pub(super) fn rate(&self) -> Option<f64> {
        self.messaging_limits.rate_limits.get("SMS").copied()
    }
}
