use serde::{Deserialize, Serialize};
use tidegate_core::identity::EpochMillis;
use tidegate_operator::status::{HoldStatus, QuotaStatus};

/// The parts of a hold whose change is published. Campaign (none for all sending) and reason say which one it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct HoldSnapshot {
    pub(super) campaign: Option<String>,
    pub(super) reason: String,
    pub(super) what: String,
    pub(super) detail: String,
    pub(super) since: EpochMillis,
    pub(super) until: Option<EpochMillis>,
}

impl HoldSnapshot {
    pub(super) fn of(hold: &HoldStatus) -> Self {
        let HoldStatus { campaign, reason, what, detail, since, until, .. } = hold.clone();
        Self { campaign, reason, what, detail, since, until }
    }

    /// The same hold among `holds`, however its other parts are.
    pub(super) fn among<'a>(&self, holds: &'a [Self]) -> Option<&'a Self> {
        holds.iter().find(|hold| hold.campaign == self.campaign && hold.reason == self.reason)
    }

    /// The held campaign, or "All sending".
    pub(super) fn held(&self) -> &str {
        self.campaign.as_deref().unwrap_or("All sending")
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
