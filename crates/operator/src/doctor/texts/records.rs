//! The [records] of End User Messaging's API, with the members that are looked at.
//!
//! [records]: https://docs.aws.amazon.com/pinpoint/latest/apireference_smsvoicev2/API_Types.html

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// An attribute of the account; `ACCOUNT_TIER` is `SANDBOX` or `PRODUCTION`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct AccountAttribute {
    pub(super) name: String,
    pub(super) value: String,
}

/// A monthly limit in US dollars. Texts, media and voice have one each.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SpendLimit {
    pub(super) name: String,
    /// The limit in force: the account's own, or AWS's.
    pub(super) enforced_limit: u64,
    /// The limit that the account may set without asking AWS.
    pub(super) max_limit: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(clippy::struct_field_names, reason = "the names of the API")]
pub(super) struct PhoneNumber {
    /// In E.164; some short codes have no `+`.
    pub(super) phone_number: String,
    pub(super) phone_number_arn: String,
    pub(super) phone_number_id: Option<String>,
    /// `ACTIVE`, `PENDING`, …
    pub(super) status: String,
    /// `SHORT_CODE`, `TOLL_FREE`, …; `SIMULATOR` reaches no phone.
    pub(super) number_type: String,
    /// `SMS`, `VOICE`, `MMS`, `RCS`.
    pub(super) number_capabilities: Vec<String>,
    pub(super) opt_out_list_name: String,
    /// Whether AWS leaves replies such as STOP to the account.
    pub(super) self_managed_opt_outs_enabled: bool,
    pub(super) pool_id: Option<String>,
    #[serde(default)]
    pub(super) messaging_limits: MessagingLimits,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MessagingLimits {
    /// Messages per second by capability.
    #[serde(default)]
    pub(super) rate_limits: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(clippy::struct_field_names, reason = "the names of the API")]
pub(super) struct Pool {
    pub(super) pool_id: String,
    pub(super) pool_arn: String,
    /// `ACTIVE`, `CREATING`, `DELETING`.
    pub(super) status: String,
    pub(super) opt_out_list_name: String,
    pub(super) self_managed_opt_outs_enabled: bool,
}

/// A sender id in one country.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[expect(clippy::struct_field_names, reason = "the names of the API")]
pub(super) struct SenderId {
    pub(super) sender_id: String,
    pub(super) sender_id_arn: String,
    pub(super) iso_country_code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ConfigurationSet {
    pub(super) configuration_set_name: String,
    pub(super) event_destinations: Vec<EventDestination>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct EventDestination {
    pub(super) enabled: bool,
    pub(super) matching_event_types: Vec<String>,
    pub(super) sns_destination: Option<Value>,
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
