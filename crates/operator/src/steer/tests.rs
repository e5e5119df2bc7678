use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::config::{Campaign, LimitsConfig};
use tidegate_core::control::{Cancel, Hold, HoldReason};
use tidegate_core::identity::EpochMillis;
use tidegate_core::limits::{Limit, LimitRate};
use tidegate_core::rate::Rate;
use tidegate_delivery::ports::{History as _, Ledger as _};
use tidegate_fakes::{Fault, FaultPlan, MemoryLedger, Operation, Rule, Universe};

use super::*;
use crate::mcp::tests::assert_answer;
use crate::page::Page;

const EPOCH: u64 = 1_795_206_967_042;

fn universe() -> Universe {
    Universe::starting_at(Timestamp::from_millis(EPOCH))
}

fn campaigns() -> Vec<Campaign> {
    let named = |(name, weight): (&str, u32)| Campaign {
        name: name.to_owned(),
        queue_url: format!("https://sqs.example/{name}"),
        weight,
        ..Campaign::default()
    };
    [("big", 90), ("small", 10)].map(named).to_vec()
}

fn ada() -> Author {
    Author { by: "ada".to_owned(), reason: "typo in the subject".to_owned() }
}

/// A limit of the deployment, and three queues for limited mail.
fn limits() -> LimitsConfig {
    let queues = (1..=3).map(|place| format!("https://sqs.example/1/domain-{place}")).collect();
    let initial = "gmail.com+googlemail.com=10/s".parse().unwrap();
    LimitsConfig { initial, queues, ..LimitsConfig::default() }
}

async fn done(ledger: &MemoryLedger, action: SteerAction) -> SteerReport {
    let deployed = (&campaigns()[..], &limits());
    let report = steer(&action, &ada(), deployed, ledger, &universe().clock()).await.unwrap();
    match action {
        SteerAction::Limit { limit: None, .. } => assert_answer("limit_remove", &report),
        SteerAction::Limit { .. } => assert_answer("limit_set", &report),
        // No tool takes mail back.
        SteerAction::Cancel { .. } => {}
        action => assert_answer(action.into(), &report),
    }
    report
}

async fn refused(ledger: &MemoryLedger, action: SteerAction) -> String {
    let before = (ledger.read().await.unwrap(), ledger.changes().await.unwrap());
    let error =
        steer(&action, &ada(), (&campaigns(), &limits()), ledger, &universe().clock()).await;
    let error = error.unwrap_err();
    let after = (ledger.read().await.unwrap(), ledger.changes().await.unwrap());
    assert_eq!(before, after, "{error}");
    assert!(error.is_input(), "{error}");
    error.to_string()
}

fn big() -> String {
    "big".to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_names_who_and_why_and_ends_by_itself_or_by_hand() {
    let ledger = MemoryLedger::default();
    let until = Some(EpochMillis::new(EPOCH + 7_200_000));
    let paused = done(&ledger, SteerAction::Pause { campaign: Some(big()), until }).await;
    assert!(paused.changed && paused.recorded);
    let control = ledger.read().await.unwrap().control;
    let hold = control.campaign_holds["big"].get(HoldReason::Paused).unwrap();
    assert_eq!((&*hold.detail, hold.until), ("by ada: typo in the subject", until));
    // Once more, with another end: it stands since the first.
    let later = done(&ledger, SteerAction::Pause { campaign: Some(big()), until: None }).await;
    assert!(later.changed);
    let resumed = done(&ledger, SteerAction::Resume { campaign: Some(big()) }).await;
    assert!(resumed.changed && resumed.still_held.is_empty());
    assert!(ledger.read().await.unwrap().control.campaign_holds.is_empty());
    let again = done(&ledger, SteerAction::Resume { campaign: Some(big()) }).await;
    assert!(!again.changed);
    let actions: Vec<_> = ledger.changes().await.unwrap().into_iter().map(|c| c.action).collect();
    assert_eq!(actions, ["resume", "pause", "pause"], "what changed nothing is no change");
    let page = Page::of(&paused).plain();
    snapbox::assert_data_eq!(page, snapbox::file!["../../tests/golden/pause.txt"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_holds_its_campaign_and_a_later_one_takes_its_place() {
    let ledger = MemoryLedger::default();
    let cancel = |at, keep| Cancel { at: EpochMillis::new(at), keep };
    for (at, keep) in [(EPOCH, true), (EPOCH + 1, false)] {
        let action = SteerAction::Cancel { campaign: big(), cancel: cancel(at, keep) };
        assert!(done(&ledger, action).await.changed);
    }
    let control = ledger.read().await.unwrap().control;
    assert_eq!(control.cancels["big"], cancel(EPOCH + 1, false));
    let hold = control.campaign_holds["big"].get(HoldReason::Cancelled).unwrap();
    assert_eq!(hold.since, EpochMillis::new(EPOCH + 1));
    let changes = ledger.changes().await.unwrap();
    assert!(changes.iter().all(|change| change.action == "cancel"), "{changes:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_held_for_more_than_a_pause_stays_held_and_says_so() {
    let ledger = MemoryLedger::default();
    let mut control = ledger.read().await.unwrap().control;
    control.hold(None, HoldReason::Account, Hold::new("403", EpochMillis::new(0)));
    assert!(ledger.set_control(0, &control).await.unwrap());
    done(&ledger, SteerAction::Pause { campaign: None, until: None }).await;
    let resumed = done(&ledger, SteerAction::Resume { campaign: None }).await;
    assert_eq!(resumed.still_held, ["account"]);
    let lift = |reason: &str| SteerAction::Lift { campaign: None, reason: reason.to_owned() };
    let error = refused(&ledger, lift("refusals")).await;
    let allowed = "allowed is `tidegate lift account --reason '…'`";
    assert_eq!(error, format!("all sending is not held for refusals; {allowed}"));
    assert!(done(&ledger, lift("account")).await.still_held.is_empty());
    assert!(ledger.read().await.unwrap().control.holds.is_empty());
}

#[tokio::test(start_paused = true)]
async fn lifting_what_is_not_held_says_which_holds_there_are_whatever_they_hold() {
    let ledger = MemoryLedger::default();
    let lift = |campaign: Option<&str>, reason: &str| SteerAction::Lift {
        campaign: campaign.map(str::to_owned),
        reason: reason.to_owned(),
    };
    let error = refused(&ledger, lift(None, "reputation")).await;
    assert_eq!(error, "all sending is not held for reputation; there is no hold at all");
    let mut control = ledger.read().await.unwrap().control;
    let hold = || Hold::new("no such template", EpochMillis::new(0));
    control.hold(Some("big"), HoldReason::Reputation, hold());
    control.hold(Some("small"), HoldReason::Refusals, hold());
    assert!(ledger.set_control(0, &control).await.unwrap());
    let allowed = "allowed is `tidegate lift reputation big --reason '…'`, `tidegate lift refusals small --reason '…'`";
    for (campaign, of) in [(None, "all sending"), (Some("bgi"), "the campaign bgi")] {
        let error = refused(&ledger, lift(campaign, "reputation")).await;
        assert_eq!(error, format!("{of} is not held for reputation; {allowed}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cap_above_the_quota_is_told_with_both_numbers() {
    let ledger = MemoryLedger::default();
    let mut control = ledger.read().await.unwrap().control;
    control.last_known_quota = Rate::per_second(14.0).ok();
    assert!(ledger.set_control(0, &control).await.unwrap());
    let detail =
        async |cap| done(&ledger, SteerAction::Cap(Rate::per_second(cap).ok())).await.record.detail;
    let said = "cap none → 50/s, which is above the account's quota of 14/s and lowers nothing";
    assert_eq!(detail(50.0).await, said);
    assert_eq!(detail(14.0).await, "cap 50/s → 14/s");
}

#[tokio::test(start_paused = true)]
async fn a_short_pause_ends_nobody_s_open_one_and_resuming_tells_what_holds_all() {
    let ledger = MemoryLedger::default();
    done(&ledger, SteerAction::Pause { campaign: Some(big()), until: None }).await;
    let until = Some(EpochMillis::new(EPOCH + 600_000));
    let error = refused(&ledger, SteerAction::Pause { campaign: Some(big()), until }).await;
    assert!(error.contains("by ada: typo in the subject"), "{error}");
    assert!(error.ends_with("first `tidegate resume big --reason '…'`"), "{error}");
    done(&ledger, SteerAction::Pause { campaign: None, until }).await;
    let resumed = done(&ledger, SteerAction::Resume { campaign: Some(big()) }).await;
    assert_eq!(resumed.still_held, ["paused (all sending)"]);
}

/// A ledger on which, before the first change, another operator takes a campaign's weight away.
#[tokio::test(start_paused = true)]
async fn of_two_operators_none_writes_weights_that_nobody_checked() {
    let ledger = MemoryLedger::default();
    let plan = FaultPlan::new(universe(), 1);
    let slow = tidegate_fakes::Latency::between(Duration::from_secs(5), Duration::from_secs(5));
    plan.add(Rule::new(Fault::Slow(slow)).on(Operation::SetControl));
    let slow = ledger.clone().with_faults(&plan);
    let weights = |name: &str| SteerAction::Weights([(name.to_owned(), 0)].into());
    let (ada, clock, campaigns) = (ada(), universe().clock(), campaigns());
    let (big, small) = (weights("big"), weights("small"));
    let limits = limits();
    let ours = steer(&big, &ada, (&campaigns, &limits), &slow, &clock);
    let theirs = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        steer(&small, &ada, (&campaigns, &limits), &ledger, &clock).await
    };
    let (ours, theirs) = tokio::join!(ours, theirs);
    assert!(theirs.unwrap().changed);
    assert!(ours.unwrap_err().to_string().contains("0 to 10000, not all 0"));
    assert_eq!(ledger.read().await.unwrap().control.weights, [("small".to_owned(), 0)].into());
}

#[tokio::test(start_paused = true)]
async fn weights_are_overridden_one_by_one_and_reset() {
    let ledger = MemoryLedger::default();
    let weights = |pairs: &[(&str, u32)]| {
        let pairs = pairs.iter().map(|(name, weight)| ((*name).to_owned(), *weight));
        SteerAction::Weights(pairs.collect::<BTreeMap<_, _>>())
    };
    let changed = done(&ledger, weights(&[("big", 80), ("small", 20)])).await;
    assert_eq!(changed.record.detail, "big 90 → 80, small 10 → 20");
    // The configured weight is no override.
    let back = done(&ledger, weights(&[("small", 10)])).await;
    assert_eq!(back.record.detail, "small 20 → 10");
    assert_eq!(ledger.read().await.unwrap().control.weights, [("big".to_owned(), 80)].into());
    let error = refused(&ledger, weights(&[("big", 0), ("small", 0)])).await;
    assert!(error.contains("0 to 10000, not all 0"), "{error}");
    let error = refused(&ledger, weights(&[("bgi", 1)])).await;
    assert_eq!(error, "there is no campaign bgi; there is big, small");
    done(&ledger, SteerAction::ResetWeights).await;
    assert!(ledger.read().await.unwrap().control.weights.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_recipients_limit_is_a_rate_and_takes_no_queue() {
    let ledger = MemoryLedger::default();
    let deployed = LimitsConfig { has_bucket: true, ..limits() };
    let set = async |key: &str, limit: &str| {
        let limit = Some(Box::new(serde_json::from_str(limit).unwrap()));
        let action = SteerAction::Limit { key: key.parse().unwrap(), limit };
        steer(&action, &ada(), (&campaigns(), &deployed), &ledger, &universe().clock()).await
    };
    for key in ["recipient:*", "recipient:ada+alerts@example.org"] {
        set(key, r#"{"rate": "5/h"}"#).await.unwrap();
        let limits = ledger.read().await.unwrap().control.limits;
        let limit = limits[&key.parse().unwrap()].as_ref().unwrap();
        assert_eq!((limit.to_string().as_str(), limit.queue), ("5/h", None), "{key}");
    }
    for other in [
        r#"{"rate": "5/h", "hours": "Mon-Fri 08:00-20:00"}"#,
        r#"{"until": "2026-12-01T00:00:00Z"}"#,
        r#"{"rate": "5/h", "not_before": "2026-12-01T00:00:00Z"}"#,
    ] {
        let error = set("recipient:*", other).await.unwrap_err();
        assert!(error.is_input() && error.to_string().contains("allowed is that for other keys"));
    }
}

#[tokio::test(start_paused = true)]
async fn limits_are_set_replaced_and_removed_beside_the_deployments() {
    let ledger = MemoryLedger::default();
    let set = |key: &str, rate: Option<&str>| SteerAction::Limit {
        key: key.parse().unwrap(),
        limit: rate.map(|rate| Box::new(rate.parse::<LimitRate>().unwrap().into())),
    };
    let detail = async |key: &str, rate| done(&ledger, set(key, rate)).await.record.detail;
    assert_eq!(detail("big", Some("5000/h")).await, "campaign:big none → 5000/h");
    let group = "gmail.com+googlemail.com";
    assert_eq!(detail(group, Some("5/s")).await, format!("domain:{group} 10/s → 5/s"));
    assert_eq!(detail(group, None).await, format!("domain:{group} 5/s → none"));
    // The deployment's limit needs no change.
    assert_eq!(detail(group, Some("10/s")).await, format!("domain:{group} none → 10/s"));
    assert_eq!(detail("big", None).await, "campaign:big 5000/h → none");
    // Two of the three queues are free, the last one first; a limit that is set again keeps its queue.
    for (key, place) in
        [("a.example", Some(2)), ("set:b", Some(1)), ("set:c", None), ("a.example", Some(2))]
    {
        detail(key, Some("7/s")).await;
        let limits = ledger.read().await.unwrap().control.limits;
        assert_eq!(limits[&key.parse().unwrap()].as_ref().unwrap().queue, place, "{key}");
    }
    for key in ["a.example", "set:b", "set:c"] {
        detail(key, None).await;
    }
    assert!(ledger.read().await.unwrap().control.limits.is_empty());
    let error = refused(&ledger, set("big", None)).await;
    assert_eq!(error, format!("campaign:big has no limit; there is domain:{group}"));
    let adaptive: Limit = serde_json::from_str(r#"{"rate": "5/s", "adaptive": true}"#).unwrap();
    let action =
        SteerAction::Limit { key: "big".parse().unwrap(), limit: Some(Box::new(adaptive)) };
    let overflow: Limit = serde_json::from_str(r#"{"rate": "5/s", "overflow": "pool-b"}"#).unwrap();
    let of_campaign =
        SteerAction::Limit { key: "big".parse().unwrap(), limit: Some(Box::new(overflow)) };
    let defers: Limit =
        serde_json::from_str(r#"{"until": "2026-12-01T00:00:00Z", "defers": true}"#).unwrap();
    let key = "sender:example.org".parse().unwrap();
    let error = refused(&ledger, SteerAction::Limit { key, limit: Some(Box::new(defers)) }).await;
    assert_eq!(
        error,
        "what is left of sender:example.org cannot be deferred; allowed is that for a campaign"
    );
    let defers: Limit =
        serde_json::from_str(r#"{"until": "2026-12-01T00:00:00Z", "defers": true}"#).unwrap();
    let key = "big".parse().unwrap();
    let error = refused(&ledger, SteerAction::Limit { key, limit: Some(Box::new(defers)) }).await;
    assert!(error.contains("the stack has no store (TIDEGATE_STORE is not set)"), "{error}");
    let error = refused(&ledger, of_campaign).await;
    assert!(error.starts_with("the rest of campaign:big cannot go through another"), "{error}");
    let error = refused(&ledger, action).await;
    assert!(error.starts_with("campaign:big cannot be adaptive; allowed is that for"), "{error}");
    let error = refused(&ledger, set("gmail.com", Some("5/s"))).await;
    assert!(error.starts_with(&format!("domain:gmail.com overlaps domain:{group}")), "{error}");
    let error = refused(&ledger, set("+49", Some("5/s"))).await;
    assert_eq!(
        error,
        "country:49 limits no mail; allowed are domain, campaign, sender, set, tenant, recipient"
    );
    let error = refused(&ledger, set("recipient:*", Some("5/h"))).await;
    assert!(error.starts_with("recipient:* needs the shared bucket, where all pollers"), "{error}");
    let error = refused(&ledger, set("gmail", Some("5/s"))).await;
    assert_eq!(error, "there is no campaign gmail; there is big, small");
    for n in 1..50 {
        done(&ledger, set(&format!("d{n}.example"), Some("1/s"))).await;
    }
    let error = refused(&ledger, set("d50.example", Some("1/s"))).await;
    assert_eq!(error, "there would be 51 limits; allowed are at most 50");
}

#[tokio::test(start_paused = true)]
async fn a_cap_stands_beside_the_rate_factor() {
    let ledger = MemoryLedger::default();
    let full = ledger.read().await.unwrap().factor;
    let lowered = full.refused(tidegate_core::Window::from_epoch_second(9)).unwrap();
    assert!(ledger.set_factor(full, lowered).await.unwrap());
    let cap = Rate::per_second(5.5).ok();
    let capped = done(&ledger, SteerAction::Cap(cap)).await;
    assert_eq!(capped.record.detail, "cap none → 5.5/s");
    assert_eq!(ledger.read().await.unwrap().factor, lowered.capped(cap));
    assert!(!done(&ledger, SteerAction::Cap(cap)).await.changed);
    done(&ledger, SteerAction::Cap(None)).await;
    assert_eq!(ledger.read().await.unwrap().factor, lowered);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_allowed_changes_nothing_and_says_what_is() {
    let ledger = MemoryLedger::default();
    let pause =
        |campaign: &str| SteerAction::Pause { campaign: Some(campaign.to_owned()), until: None };
    let error = refused(&ledger, pause("bgi")).await;
    assert_eq!(error, "there is no campaign bgi; there is big, small");
    let until = Some(EpochMillis::new(EPOCH));
    let error = refused(&ledger, SteerAction::Pause { campaign: None, until }).await;
    assert_eq!(error, "the pause would end at 2026-11-20 20:36:07 UTC, which has passed");
    for reason in [String::new(), " ".repeat(9), "x".repeat(201)] {
        let author = Author { by: "ada".to_owned(), reason };
        let clock = universe().clock();
        let error = steer(&pause("big"), &author, (&campaigns(), &limits()), &ledger, &clock).await;
        assert!(error.unwrap_err().to_string().contains("allowed are 1 to 200"));
    }
    // Express mail is no campaign, and can be held.
    assert!(done(&ledger, pause("express")).await.changed);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_history_missed_stands_and_says_so() {
    let plan = FaultPlan::new(universe(), 1);
    let error = tidegate_delivery::ports::FailureKind::TimedOut;
    plan.add(Rule::new(Fault::Before(error)).on(Operation::AddChange));
    let ledger = MemoryLedger::default().with_faults(&plan);
    let pause = SteerAction::Pause { campaign: None, until: None };
    let clock = universe().clock();
    let paused = steer(&pause, &ada(), (&campaigns(), &limits()), &ledger, &clock).await.unwrap();
    assert!(paused.changed && !paused.recorded);
    assert!(Page::of(&paused).plain().contains("the history does not have it"));
    let held = tokio::time::timeout(Duration::from_secs(1), ledger.read()).await;
    assert_eq!(held.unwrap().unwrap().control.standing_holds(), 1);
}
