//! The control record: what operators, refusals and failures change while it runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::Campaign;
use crate::rate::Rate;

/// Why sending is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// An operator paused it.
    Paused,
    /// The daily quota is used up.
    DailyQuota,
    /// SES paused or suspended the account.
    Account,
    /// SES refuses our credentials or permissions.
    Credentials,
    /// An identity, mail-from domain, template or configuration set is missing or unverified.
    Deployment,
    /// Ten permanent refusals in a row of one code.
    Refusals,
}

/// A hold: nothing is sent until it is lifted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Why.
    pub reason: HoldReason,
    /// What was said: the operator's reason, or SES's code and message.
    pub detail: String,
    /// Since when, RFC 3339.
    pub since: String,
}

/// What stands in the ledger beside the claim and is read with it.
///
/// ```
/// use tidegate_core::control::Control;
/// let control: Control = serde_json::from_str(r#"{"weights": {"big": 80, "small": 20}}"#)?;
/// assert_eq!(control.weight("big", 90), 80);
/// assert_eq!(control.weight("other", 5), 5);
/// assert!(control.hold_of("big").is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Control {
    /// Holds all sending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// Holds single campaigns, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub campaign_holds: BTreeMap<String, Hold>,
    /// Weights that override the configured ones, by campaign; 0 takes a campaign's share away.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
    /// The list of campaigns where `TIDEGATE_CAMPAIGNS` is `ledger`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub campaigns: Vec<Campaign>,
    /// The last quota that `GetAccount` told, for when it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_known_quota: Option<Rate>,
}

impl Control {
    /// The weight in force for `campaign`, whose configured weight is `configured`.
    #[must_use]
    pub fn weight(&self, campaign: &str, configured: u32) -> u32 {
        self.weights.get(campaign).copied().unwrap_or(configured)
    }

    /// The hold on `campaign` alone.
    #[must_use]
    pub fn hold_of(&self, campaign: &str) -> Option<&Hold> {
        self.campaign_holds.get(campaign)
    }
}
