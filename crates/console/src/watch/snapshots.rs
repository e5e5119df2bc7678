use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_core::identity::EpochMillis;
use tidegate_operator::status::{HoldStatus, QuotaStatus};

/// Identifies a hold: campaign (none for all sending) and reason. Campaign names contain no slash,
/// so `campaign/reason` is unambiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HoldKey {
    pub(super) campaign: Option<String>,
    pub(super) reason: String,
}

impl HoldKey {
    pub(super) fn of(hold: &HoldStatus) -> Self {
        Self { campaign: hold.campaign.clone(), reason: hold.reason.clone() }
    }

    pub(super) fn parse(text: &str) -> Self {
        let (campaign, reason) = text.split_once('/').unwrap_or(("", text));
        let campaign = Some(campaign.to_owned()).filter(|campaign| !campaign.is_empty());
        Self { campaign, reason: reason.to_owned() }
    }

    /// The held campaign, or "All sending".
    pub(super) fn what(&self) -> &str {
        self.campaign.as_deref().unwrap_or("All sending")
    }
}

impl fmt::Display for HoldKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.campaign.as_deref().unwrap_or_default(), self.reason)
    }
}

/// The parts of a hold whose change is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HoldSnapshot {
    pub(super) what: String,
    pub(super) detail: String,
    pub(super) since: EpochMillis,
    pub(super) until: Option<EpochMillis>,
}

impl From<&HoldStatus> for HoldSnapshot {
    fn from(hold: &HoldStatus) -> Self {
        let HoldStatus { what, detail, since, until, .. } = hold.clone();
        Self { what, detail, since, until }
    }
}

/// The parts of the quota whose change is published. Of the rate factor only whether it is below 1:
/// it moves every few seconds while SES throttles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct QuotaSnapshot {
    pub(super) account: Option<f64>,
    pub(super) configured_cap: Option<f64>,
    pub(super) operator_cap: Option<f64>,
    pub(super) is_lowered: bool,
}

impl QuotaSnapshot {
    pub(super) fn of(quota: &QuotaStatus) -> Self {
        Self {
            account: quota.account_per_second,
            configured_cap: quota.configured_cap,
            operator_cap: quota.operator_cap,
            is_lowered: quota.factor < 1.0,
        }
    }
}
