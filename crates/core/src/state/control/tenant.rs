//! Holds for SES's tenants: when they are lifted.

use std::collections::{BTreeMap, BTreeSet};

use super::{Control, Hold, HoldReason};
use crate::identity::EpochMillis;

/// SES's answers about one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantStatus {
    /// `SendingStatus` is not `DISABLED`.
    pub sends: bool,
    /// The ARNs of the identities, configuration sets and templates that are associated with it.
    pub resources: BTreeSet<String>,
}

impl TenantStatus {
    /// Whether the cause of a hold is gone: the tenant may send, and has every resource whose ARN SES's refusal
    /// names. The hold's detail may have cut off the last one.
    fn ends(&self, hold: &Hold) -> bool {
        let mut named =
            hold.detail.split(['[', ']', ',', ' ']).filter(|part| part.starts_with("arn:"));
        let has = |arn: &str| self.resources.iter().any(|other| other.starts_with(arn));
        self.sends && named.all(has)
    }
}

impl Control {
    /// The tenants for which campaigns are held.
    pub fn held_tenants(&self) -> BTreeSet<&str> {
        let holds = self.campaign_holds.values().filter_map(|holds| holds.get(HoldReason::Tenant));
        holds.filter_map(|hold| hold.tenant.as_deref()).collect()
    }

    /// Lifts the holds whose cause is gone by SES's answers, asked for at `asked`. A hold set later stays,
    /// because the answer may be older than its cause.
    pub fn lift_tenants(&mut self, found: &BTreeMap<String, TenantStatus>, asked: EpochMillis) {
        self.campaign_holds.retain(|_, holds| {
            let gone = holds.get(HoldReason::Tenant).is_some_and(|hold| {
                let status = hold.tenant.as_ref().and_then(|tenant| found.get(tenant));
                hold.since < asked && status.is_some_and(|status| status.ends(hold))
            });
            if gone {
                holds.lift(HoldReason::Tenant);
            }
            !holds.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "arn:aws:ses:eu-west-1:1:configuration-set/news";
    const IDENTITY: &str = "arn:aws:ses:eu-west-1:1:identity/acme.example";

    fn held(detail: &str) -> Control {
        let mut control = Control::default();
        let hold = Hold::new(detail, EpochMillis::new(1_000));
        let hold = Hold { tenant: Some("acme".to_owned()), ..hold };
        control.hold(Some("spring"), HoldReason::Tenant, hold.clone());
        control.hold(Some("fall"), HoldReason::Tenant, hold);
        control.hold(Some("fall"), HoldReason::Paused, Hold::new("", EpochMillis::new(0)));
        control
    }

    /// The campaigns that are still held for their tenant after SES's answer at `asked`.
    fn after(detail: &str, sends: bool, resources: &[&str], asked: u64) -> usize {
        let mut control = held(detail);
        assert_eq!(control.held_tenants().into_iter().collect::<Vec<_>>(), ["acme"]);
        let resources = resources.iter().map(|arn| (*arn).to_owned()).collect();
        let found = [("acme".to_owned(), TenantStatus { sends, resources })].into();
        control.lift_tenants(&found, EpochMillis::new(asked));
        assert!(control.holds_campaign("fall"), "the operator's pause stays");
        let holds = control.campaign_holds.values();
        holds.filter(|holds| holds.get(HoldReason::Tenant).is_some()).count()
    }

    #[test]
    fn a_paused_tenant_is_held_until_ses_lets_it_send() {
        assert_eq!(after("Sending paused.", false, &[], 2_000), 2);
        assert_eq!(after("Sending paused.", true, &[], 2_000), 0);
        assert_eq!(after("Sending paused.", true, &[], 1_000), 2, "asked before the refusal");
    }

    #[test]
    fn a_tenant_that_lacks_associations_is_held_until_it_has_all_of_them() {
        let detail = format!("Tenant not associated with resources [{IDENTITY}, {SET}].");
        assert_eq!(after(&detail, true, &[], 2_000), 2);
        assert_eq!(after(&detail, true, &[SET], 2_000), 2);
        assert_eq!(after(&detail, true, &[SET, IDENTITY], 2_000), 0);
        assert_eq!(after(&detail, false, &[SET, IDENTITY], 2_000), 2);
        let cut = detail.split_at(detail.len() - 4).0;
        assert_eq!(after(cut, true, &[SET], 2_000), 2);
        assert_eq!(after(cut, true, &[SET, IDENTITY], 2_000), 0, "the detail may be cut off");
    }

    #[test]
    fn another_tenants_answer_lifts_nothing() {
        let mut control = held("Sending paused.");
        let status = TenantStatus { sends: true, ..TenantStatus::default() };
        control.lift_tenants(&[("other".to_owned(), status)].into(), EpochMillis::new(2_000));
        assert_eq!(control, held("Sending paused."));
    }
}
