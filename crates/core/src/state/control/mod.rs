//! The control record: the part of the ledger that operators and pollers change while Tidegate runs.

mod apart;
mod holds;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::back_pressure::{BackPressureLevel, Reading};
use crate::breaker::Breaker;
use crate::config::{Campaign, Campaigns};
use crate::daily::DailyReading;
use crate::exclusions::ExclusionState;
use crate::identity::EpochMillis;
use crate::limits::{AdaptedLimits, InitialLimits, LimitChanges, LimitTable, digest};
use crate::rate::Rate;
use crate::refusals::Streak;
use crate::reputation::Reputation;
use crate::stored::is_default;

pub use apart::{ControlError, LONGEST, NOT_FOR_POLLERS, Reference, StoredControl, pages};
pub(crate) use holds::MAX_DETAIL;
pub use holds::{CANCELLED, Cancel, Hold, HoldReason, Holds};

/// The control record. The ledger stores it beside the claim, and a poller reads both together.
///
/// ```
/// use tidegate_core::control::{Control, HoldReason};
/// let control: Control = serde_json::from_str(r#"{
///     "weights": {"big": 80},
///     "holds": {"paused": {"detail": "by Ada", "since": "2026-11-20T20:36:07Z"}}
/// }"#)?;
/// assert_eq!(control.weight("big", 90), 80);
/// assert_eq!(control.weight("other", 5), 5);
/// assert_eq!(control.holds.get(HoldReason::Paused).map(|hold| &*hold.detail), Some("by Ada"));
/// assert!(!control.holds_campaign("big"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
// More than 12 fields: one for each member of the record.
pub struct Control {
    /// Holds on all sending, express mail included unless the reason spares it.
    pub holds: Holds,
    /// Holds on single campaigns, by campaign name. Holds on express mail have the name `express`.
    pub campaign_holds: BTreeMap<String, Holds>,
    /// The last cancel of each campaign, by its name; that of express mail has the name `express`.
    pub cancels: BTreeMap<String, Cancel>,
    /// The exclusion list's version and size; none until an address was excluded.
    pub exclusions: Option<ExclusionState>,
    /// Weights that replace the configured ones, by campaign name. A campaign of weight 0 has no share.
    pub weights: BTreeMap<String, u32>,
    /// Limits that operators set, by key; `null` for an initial limit that was removed.
    pub limits: LimitChanges,
    /// The adaptive limits that deferrals have lowered.
    pub adapted: AdaptedLimits,
    /// The campaigns, if `TIDEGATE_CAMPAIGNS` is `ledger`; otherwise empty.
    pub campaigns: Vec<Campaign>,
    /// SES's tenants of the campaigns on that list, by campaign name. A member of its own, because an older
    /// version refuses a campaign with a member that it does not know, and keeps a member of the record.
    pub tenants: BTreeMap<String, String>,
    /// State of the circuit breaker; not written while it allows and watches nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub breaker: Breaker,
    /// Refusals in a row, by campaign name.
    pub refusals: BTreeMap<String, Streak>,
    /// The last `MaxSendRate` of `GetAccount`, used while `GetAccount` does not answer.
    pub last_known_quota: Option<Rate>,
    /// The last known limit of `DescribeSpendLimits`, in US dollars a month; none for e-mail.
    pub spend_limit: Option<u64>,
    /// The last reading of the daily quota; none if the account has no such limit.
    pub daily: Option<DailyReading>,
    /// Counts of bounces and complaints; none if they are not counted.
    pub reputation: Option<Reputation>,
    /// The last judgement of the back-pressure level; none before the first.
    #[serde(rename = "level")]
    pub back_pressure: Option<Reading>,
    /// Incidents that operators were told of and that are not over, with the time at which they were told.
    pub incidents: BTreeMap<String, EpochMillis>,
    /// Members that this version does not know. They are kept for a newer version that wrote them and
    /// was rolled back.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, serde_json::Value>,
}

impl Campaigns {
    /// The campaigns in force: the configured ones, or those of the control record.
    pub fn in_force(&self, control: &Control) -> Vec<Campaign> {
        match self {
            Self::Listed(list) => list.clone(),
            Self::Ledger => control.listed(),
        }
    }

    /// SES's tenants of the campaigns in force, by campaign name.
    pub fn tenants(&self, control: &Control) -> BTreeMap<String, String> {
        match self {
            Self::Listed(list) => tenants_of(list),
            Self::Ledger => control.tenants.clone(),
        }
    }
}

fn tenants_of(list: &[Campaign]) -> BTreeMap<String, String> {
    list.iter().filter_map(|c| Some((c.name.clone(), c.tenant.clone()?))).collect()
}

impl Control {
    /// The weight of `campaign` in force; `configured` if the record does not replace it.
    pub fn weight(&self, campaign: &str, configured: u32) -> u32 {
        self.weights.get(campaign).copied().unwrap_or(configured)
    }

    /// The campaigns on the record's list, with their tenants.
    pub fn listed(&self) -> Vec<Campaign> {
        let mut list = self.campaigns.clone();
        for campaign in &mut list {
            campaign.tenant = self.tenants.get(&campaign.name).cloned();
        }
        list
    }

    /// Replaces the record's list. A campaign with another tenant than before is no longer held for that one.
    pub fn list(&mut self, mut campaigns: Vec<Campaign>) {
        let before = std::mem::replace(&mut self.tenants, tenants_of(&campaigns));
        for campaign in &mut campaigns {
            campaign.tenant = None;
        }
        self.campaigns = campaigns;
        for (name, tenant) in before {
            if self.tenants.get(&name) != Some(&tenant) {
                self.lift(Some(&name), HoldReason::Tenant);
            }
        }
    }

    /// True if `campaign` itself is held. Holds on all sending do not count.
    pub fn holds_campaign(&self, campaign: &str) -> bool {
        self.campaign_holds.get(campaign).is_some_and(|holds| !holds.is_empty())
    }

    /// The hold on `campaign` that its own mail may lift, if no other one stands beside it.
    pub fn probed_hold(&self, campaign: &str) -> Option<&Hold> {
        let holds = self.campaign_holds.get(campaign)?;
        holds.get(HoldReason::Refusals).filter(|_| holds.len() == 1)
    }

    /// The back-pressure level in force at `now`; clear if it was not judged lately.
    pub fn level(&self, now: EpochMillis) -> BackPressureLevel {
        self.back_pressure.map_or(BackPressureLevel::Clear, |reading| reading.level_at(now))
    }

    /// The limits in force, for these `initial` ones.
    pub fn limit_table(&self, initial: &InitialLimits) -> LimitTable {
        LimitTable::of(initial, &self.limits).adapted(&self.adapted)
    }

    /// A number that differs for different limits of the record; 0 if there are none.
    pub fn limits_digest(&self) -> u64 {
        digest(&self.limits, &self.adapted)
    }

    /// Number of holds on all sending and on campaigns together.
    pub fn standing_holds(&self) -> usize {
        self.holds.len() + self.campaign_holds.values().map(Holds::len).sum::<usize>()
    }

    /// All holds: on what (a campaign's name; none for all sending), for which reason. Those on all
    /// sending come first, then the campaigns by name.
    pub fn named_holds(&self) -> impl Iterator<Item = (Option<&str>, &str, &Hold)> {
        let all = self.holds.named().map(|(reason, hold)| (None, reason, hold));
        let single = self.campaign_holds.iter().flat_map(|(campaign, holds)| {
            holds.named().map(move |(reason, hold)| (Some(campaign.as_str()), reason, hold))
        });
        all.chain(single)
    }

    /// Removes the holds that end at `now` or earlier, and cancels that are 379 days old.
    pub fn expire(&mut self, now: EpochMillis) {
        self.holds.expire(now);
        self.campaign_holds.values_mut().for_each(|holds| holds.expire(now));
        self.campaign_holds.retain(|_, holds| !holds.is_empty());
        self.cancels.retain(|_, cancel| !cancel.is_over(now));
    }

    /// Cancels the mail of a campaign, and holds it until pollers have taken that mail off its queue.
    pub fn cancel(&mut self, campaign: &str, cancel: Cancel, detail: &str) {
        self.cancels.insert(campaign.to_owned(), cancel);
        self.lift(Some(campaign), HoldReason::Cancelled);
        self.hold(Some(campaign), HoldReason::Cancelled, Hold::new(detail, cancel.at));
    }

    /// The cancels whose mail pollers still take off the campaigns' queues, by campaign.
    pub fn open_cancels(&self) -> impl Iterator<Item = (&str, Cancel)> {
        let is_open = |name: &str| {
            let holds = self.campaign_holds.get(name);
            holds.is_some_and(|holds| holds.get(HoldReason::Cancelled).is_some())
        };
        let all = self.cancels.iter().map(|(name, cancel)| (name.as_str(), *cancel));
        all.filter(move |(name, _)| is_open(name))
    }

    /// The holds on a campaign; those on all sending if `campaign` is none.
    pub fn holds_on(&self, campaign: Option<&str>) -> Option<&Holds> {
        match campaign {
            Some(name) => self.campaign_holds.get(name),
            None => Some(&self.holds),
        }
    }

    /// Lifts the hold whose reason has this name from a campaign, or from all sending if `campaign` is
    /// none. False if there is no such hold.
    pub fn lift_named(&mut self, campaign: Option<&str>, reason: &str) -> bool {
        let Some(name) = campaign else { return self.holds.lift_named(reason) };
        let Some(holds) = self.campaign_holds.get_mut(name) else { return false };
        let lifted = holds.lift_named(reason);
        if holds.is_empty() {
            self.campaign_holds.remove(name);
        }
        lifted
    }

    /// Adds a hold on a campaign, or on all sending if `campaign` is none. False if there is already
    /// one for this reason.
    pub fn hold(&mut self, campaign: Option<&str>, reason: HoldReason, hold: Hold) -> bool {
        match campaign {
            Some(name) => self.campaign_holds.entry(name.to_owned()).or_default().add(reason, hold),
            None => self.holds.add(reason, hold),
        }
    }

    /// Lifts the hold for this reason from a campaign, or from all sending if `campaign` is none. False
    /// if there is none.
    pub fn lift(&mut self, campaign: Option<&str>, reason: HoldReason) -> bool {
        self.lift_named(campaign, reason.as_str())
    }
}

/// A change that an operator made. The ledger keeps these beside the control record.
///
/// ```
/// use tidegate_core::control::ChangeRecord;
/// use tidegate_core::identity::EpochMillis;
/// let record = ChangeRecord {
///     at: EpochMillis::new(1_795_206_967_042),
///     by: "ada".into(),
///     action: "pause".into(),
///     campaign: Some("big".into()),
///     detail: "until resumed".into(),
///     reason: "typo in the subject".into(),
/// };
/// let text = serde_json::to_string(&record)?;
/// assert_eq!(serde_json::from_str::<ChangeRecord>(&text)?, record);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct ChangeRecord {
    /// Time of the change by the operator's clock.
    pub at: EpochMillis,
    /// Name of the operator, from the environment of the command or from its argument.
    pub by: String,
    /// The action: `pause`, `resume`, `cancel`, `lift`, `weights`, `rate`, `limit`, `exclude`, `include`, `replay` or `discard`.
    pub action: String,
    /// The campaign that was changed; none if the change concerns all sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// The change in words, with the values before and after it.
    pub detail: String,
    /// The operator's reason; may be empty.
    #[serde(default)]
    pub reason: String,
}

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

    fn hold(detail: &str) -> Hold {
        Hold::new(detail, EpochMillis::new(0))
    }

    #[test]
    fn a_campaign_held_for_two_reasons_stays_held_until_both_are_lifted() {
        let mut control = Control::default();
        assert!(control.hold(Some("big"), HoldReason::Tenant, hold("no such template")));
        assert!(control.hold(Some("big"), HoldReason::Paused, hold("by Ada")));
        assert!(!control.hold(Some("big"), HoldReason::Paused, hold("by Grace")));
        assert_eq!(control.campaign_holds["big"].get(HoldReason::Paused), Some(&hold("by Ada")));
        assert!(control.hold(None, HoldReason::Paused, hold("by Ada")));
        assert_eq!(control.standing_holds(), 3);
        assert!(control.lift(Some("big"), HoldReason::Paused));
        assert!(control.holds_campaign("big"));
        assert!(control.lift(Some("big"), HoldReason::Tenant));
        assert!(!control.holds_campaign("big") && control.campaign_holds.is_empty());
        assert!(!control.lift(Some("big"), HoldReason::Tenant));
    }

    #[test]
    fn holds_are_those_of_the_campaign_or_of_all_sending() {
        let mut control = Control::default();
        control.hold(Some("big"), HoldReason::Paused, hold("by Ada"));
        let paused = |campaign| control.holds_on(campaign)?.get(HoldReason::Paused).cloned();
        assert_eq!(paused(Some("big")), Some(hold("by Ada")));
        assert_eq!((paused(Some("small")), paused(None)), (None, None));
        control.hold(None, HoldReason::Paused, hold("by Grace"));
        let all = control.holds_on(None).unwrap();
        assert_eq!(all.get(HoldReason::Paused), Some(&hold("by Grace")));
    }

    #[test]
    fn a_hold_keeps_the_beginning_of_what_was_said() {
        let page = format!("403: {}", "é".repeat(5_000));
        let hold = Hold::new(&page, EpochMillis::new(7));
        assert!(hold.detail.starts_with("403: é") && hold.detail.chars().count() == 640);
    }

    #[test]
    fn a_hold_with_an_end_lets_go_then_and_not_before() {
        let at = EpochMillis::new;
        let mut control = Control::default();
        control.hold(Some("big"), HoldReason::Paused, hold("lunch").until(Some(at(60_000))));
        control.hold(Some("big"), HoldReason::Refusals, hold("ten"));
        control.hold(None, HoldReason::Paused, hold("lunch").until(Some(at(60_000))));
        let text = serde_json::to_string(&control).unwrap();
        assert!(text.contains(r#""until":"1970-01-01T00:01:00.000Z""#), "{text}");
        control.expire(at(59_999));
        assert_eq!(control.standing_holds(), 3);
        control.expire(at(60_000));
        assert_eq!(control.standing_holds(), 1);
        assert!(control.lift_named(Some("big"), "refusals"));
        assert!(control.campaign_holds.is_empty() && !control.lift_named(Some("big"), "refusals"));
    }

    #[test]
    fn a_cancel_holds_its_campaign_until_its_mail_is_taken_off_and_stands_as_long_as_mail_may_live()
    {
        let at = EpochMillis::new;
        let mut control = Control::default();
        control.cancel("big", Cancel { at: at(1_000), keep: true }, "by Ada");
        control.cancel("big", Cancel { at: at(2_000), keep: false }, "by Grace");
        let open: Vec<_> = control.open_cancels().collect();
        assert_eq!(open, [("big", Cancel { at: at(2_000), keep: false })]);
        assert_eq!(
            control.campaign_holds["big"].get(HoldReason::Cancelled),
            Some(&Hold::new("by Grace", at(2_000)))
        );
        assert!(control.lift_named(Some("big"), "cancelled"));
        assert!(control.open_cancels().next().is_none() && control.cancels.len() == 1);
        let days = 379 * 24 * 3_600_000;
        control.expire(at(2_000 + days));
        assert_eq!(control.cancels.len(), 1);
        control.expire(at(2_001 + days));
        assert_eq!(control, Control::default());
    }

    #[test]
    fn only_the_daily_budget_spares_express_mail() {
        let mut holds = Holds::default();
        holds.add(HoldReason::DailyBudget, hold(""));
        assert!(!holds.is_empty() && !holds.stop_express());
        holds.add(HoldReason::DailyQuota, hold(""));
        assert!(holds.stop_express());
    }

    #[test]
    fn a_listed_tenant_is_a_member_that_older_versions_keep_and_another_one_ends_its_hold() {
        let campaign = |name: &str, tenant: Option<&str>| Campaign {
            name: name.to_owned(),
            queue_url: format!("https://sqs.example/1/{name}"),
            weight: 1,
            tenant: tenant.map(str::to_owned),
            ..Campaign::default()
        };
        let mut control = Control::default();
        let list = [campaign("big", Some("acme")), campaign("small", None)];
        control.list(list.to_vec());
        let written = serde_json::to_value(&control).unwrap();
        assert_eq!(written["tenants"], serde_json::json!({"big": "acme"}));
        assert!(written["campaigns"].as_array().unwrap().iter().all(|c| c.get("tenant").is_none()));
        let read: Control = serde_json::from_value(written).unwrap();
        assert_eq!(read.listed(), list);
        assert_eq!(
            Campaigns::Ledger.tenants(&read),
            Campaigns::Listed(list.to_vec()).tenants(&read)
        );
        control.hold(Some("big"), HoldReason::Tenant, hold("paused"));
        control.list(list.to_vec());
        assert!(control.holds_campaign("big"));
        control.list(vec![campaign("big", Some("acme-eu"))]);
        assert!(!control.holds_campaign("big"));
    }

    #[test]
    fn what_a_newer_version_wrote_holds_and_is_kept() {
        let text = r#"{"holds":{"daily_budget":{"detail":"","since":"2026-11-20T20:36:07Z"},"moon":{"detail":"full","since":"2026-11-20T20:36:07Z"}},"weights":{"big":80},"bucket":{"tokens":[1,2]}}"#;
        let mut control: Control = serde_json::from_str(text).unwrap();
        assert!(control.lift(None, HoldReason::DailyBudget));
        assert!(control.clone().lift_named(None, "moon"));
        assert!(!control.holds.is_empty() && control.holds.stop_express());
        assert_eq!(control.holds.reasons().collect::<Vec<_>>(), ["moon"]);
        let written: serde_json::Value = serde_json::to_value(&control).unwrap();
        assert_eq!(written["bucket"]["tokens"][1], 2);
        assert_eq!(written["holds"]["moon"]["detail"], "full");
        assert_eq!(written["weights"]["big"], 80);
    }

    #[test]
    fn a_record_reads_back_what_it_writes_and_an_empty_one_is_empty() {
        let mut control = Control::default();
        let stored = StoredControl::of(&control, 1, &BTreeMap::new()).unwrap();
        assert_eq!(stored, StoredControl::default());
        control.hold(None, HoldReason::Account, hold("403"));
        control.hold(Some("big"), HoldReason::Refusals, hold("ten"));
        let text = serde_json::to_string(&control).unwrap();
        assert_eq!(serde_json::from_str::<Control>(&text).unwrap(), control);
        assert!(text.contains(r#""holds":{"account":{"detail":"403""#), "{text}");
    }

    #[test]
    fn what_is_absent_is_not_stored_and_what_a_newer_version_wrote_is_stored_though_it_is_empty() {
        let at = "2026-11-20T20:36:07.000Z";
        let known = format!(
            r#"{{"level":{{"level":"clear","since":"{at}","figures":{{"backlog_mails":0}},"read_at":"{at}"}},"moon":[]}}"#
        );
        let control: Control = serde_json::from_str(&known).unwrap();
        let stored = StoredControl::of(&control, 1, &BTreeMap::new()).unwrap();
        let expected: serde_json::Value = serde_json::from_str(&known).unwrap();
        assert_eq!(serde_json::to_value(&stored.inline).unwrap(), expected);
        assert!(stored.apart.is_empty());
    }

    #[test]
    fn holds_are_named_in_the_order_of_their_reasons_and_unknown_ones_last() {
        let mut holds = Holds::default();
        for reason in [HoldReason::Account, HoldReason::DailyBudget, HoldReason::Paused] {
            holds.add(reason, hold(""));
        }
        let mut text = serde_json::to_value(&holds).unwrap();
        text["a_newer_one"] = serde_json::to_value(hold("")).unwrap();
        let holds: Holds = serde_json::from_value(text).unwrap();
        let reasons: Vec<&str> = holds.reasons().collect();
        assert_eq!(reasons[0], "paused");
        assert_eq!(reasons[3], "a_newer_one");
    }
}

#[cfg(test)]
mod tenant_tests {
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
