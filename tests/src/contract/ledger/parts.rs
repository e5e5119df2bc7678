//! Parts of the ledger that are kept for each campaign, and the size of the claim's item without
//! them.

use super::{
    BTreeMap, Campaign, Control, EpochMillis, Hold, HoldReason, Idle, Ledger, LedgerReport,
    LedgerRoom, Rate, Reputation, ReputationFigures, Standing, Tally, Upkeep, claimed, counters,
    counters_of, parts_for, request, window,
};

/// A report of so many parts, in the window of `second`.
fn spread(second: u64, parts: u32, of: &[(&str, i64)]) -> LedgerReport {
    let upkeep = Upkeep { parts, ..Upkeep::default() };
    LedgerReport {
        window: window(second),
        counters: counters(of),
        upkeep,
        ..LedgerReport::default()
    }
}

pub(super) async fn a_campaigns_sum_is_what_all_parts_hold_of_it(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    let names: Vec<String> = (0..40).map(|number| format!("sent.Campaign-{number}")).collect();
    let sums: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 3)).collect();
    let idle = |until| {
        let idle = Idle { until: window(until), pause: until };
        names
            .iter()
            .filter_map(move |name| Some((name.strip_prefix("sent.")?.to_owned(), Some(idle))))
    };
    for (parts, until) in [(1, 5), (4, 6), (16, 7)] {
        let mut report = spread(until, parts, &sums);
        report.counters.insert("fed".to_owned(), 120);
        report.idle = idle(until).collect();
        ledger.report(&report).await.unwrap();
    }
    let standing = claimed(&ledger, &request(8, "a")).await;
    assert_eq!(standing, Standing { previous: None, ..ledger.read().await.unwrap() });
    assert_eq!((standing.parts, standing.counters["fed"]), (16, 360));
    assert!(names.iter().all(|name| standing.counters[name] == 9), "{:?}", standing.counters);
    let newest = Idle { until: window(7), pause: 7 };
    assert_eq!(standing.idle.len(), 40);
    assert!(standing.idle.values().all(|idle| *idle == newest), "{:?}", standing.idle);
}

pub(super) async fn of_a_past_campaign_nothing_stays(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    for parts in [1, 2, 8] {
        let of =
            [("sent.old", 1), ("waited.old", 2), ("debt.old", -3), ("sent.new", 1), ("sent", 2)];
        ledger.report(&spread(1, parts, &of)).await.unwrap();
    }
    let upkeep = |left: &[&str], past: &[&str]| {
        let names = |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect();
        let upkeep = Upkeep { parts: 8, left: names(left), past: names(past), back: Vec::new() };
        LedgerReport { window: window(9), upkeep, ..LedgerReport::default() }
    };
    ledger.report(&upkeep(&["old", "new"], &[])).await.unwrap();
    let left = ["new", "old"].map(|name| (name.to_owned(), window(9))).into();
    assert_eq!(ledger.read().await.unwrap().left, left);
    ledger.report(&upkeep(&[], &["old"])).await.unwrap();
    let standing = ledger.read().await.unwrap();
    assert_eq!(standing.counters, counters(&[("sent", 6), ("sent.new", 3)]));
    assert_eq!(standing.left, [("new".to_owned(), window(9))].into());
    let back = Upkeep { parts: 8, back: vec!["new".to_owned()], ..Upkeep::default() };
    ledger.report(&LedgerReport { upkeep: back, ..LedgerReport::default() }).await.unwrap();
    assert!(ledger.read().await.unwrap().left.is_empty());
}

pub(super) async fn parts_that_nobody_writes_to_expire(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    let names: Vec<String> = (0..100).map(|number| format!("sent.c-{number}")).collect();
    let mut sums: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    sums.push(("fed", 100));
    ledger.report(&spread(0, 16, &sums)).await.unwrap();
    let days = |days: u64| days * 86_400;
    let last = claimed(&ledger, &request(days(40) - 1, "a")).await;
    assert_eq!((last.parts, last.counters.len()), (16, 101));
    let now = claimed(&ledger, &request(days(40), "b")).await;
    assert_eq!((now.parts, now.counters["fed"]), (1, 100));
    assert!(now.counters.len() < 20, "{:?}", now.counters);
    assert_eq!(ledger.read().await.unwrap().counters, now.counters);
}

/// A control record with everything of so many campaigns: a hold, a weight, a place on the list, bounces.
fn of_many(campaigns: usize) -> Control {
    let at = EpochMillis::new(1_795_207_000_123);
    let mut control = Control { last_known_quota: Some(Rate::MAX), ..Control::default() };
    let mut reputation = Reputation {
        since: at,
        campaigns: BTreeMap::new(),
        remembered: vec![1; 100],
        deferrals: BTreeMap::new(),
        ramps: BTreeMap::new(),
    };
    for name in (0..campaigns).map(long_name) {
        control.hold(Some(&name), HoldReason::Refusals, Hold::new(&"too many, ".repeat(25), at));
        control.weights.insert(name.clone(), 1_000);
        let running = ReputationFigures { bounced: 3, ..ReputationFigures::default() };
        reputation.campaigns.insert(name.clone(), Tally { running, ..Tally::default() });
        let queue_url =
            format!("https://sqs.ap-southeast-2.amazonaws.com/123456789012/{name:0>80}");
        control.campaigns.push(Campaign { name, queue_url, weight: 9, ..Campaign::default() });
    }
    control.reputation = Some(reputation);
    control
}

/// As long as a campaign's name may be.
fn long_name(number: usize) -> String {
    format!("campaign-{number:0>55}")
}

pub(super) async fn the_claims_item_does_not_grow_with_the_campaigns(room: &impl LedgerRoom) {
    for (campaigns, past) in [(2, 0), (2, 500), (300, 0), (1_000, 500)] {
        let ledger = room.open().await;
        claimed(&ledger, &request(1, "0123456789abcdef0123456789abcdef")).await;
        let control = of_many(campaigns);
        assert!(ledger.set_control(0, &control).await.unwrap());
        let mut sums = BTreeMap::from([("sent".to_owned(), 9_876_543_210)]);
        for name in (0..campaigns + past).map(long_name) {
            sums.extend(counters_of(&name).map(|counter| (counter, 9_876_543)));
        }
        let upkeep = Upkeep { parts: parts_for(campaigns), ..Upkeep::default() };
        let report = LedgerReport {
            window: window(1),
            counters: sums.clone(),
            upkeep,
            ..LedgerReport::default()
        };
        ledger.report(&report).await.unwrap();
        claimed(&ledger, &request(2, "fedcba9876543210fedcba9876543210")).await;
        let sizes = room.sizes().await;
        assert!(sizes["regulator"] < 1_024, "{campaigns} campaigns: {sizes:?}");
        assert!(sizes.values().all(|size| *size < 400_000), "{campaigns} campaigns: {sizes:?}");
        let standing = ledger.read().await.unwrap();
        assert!(standing.control == control && standing.counters == sums, "{campaigns} campaigns");
    }
}

pub(super) async fn a_change_from_a_claim_keeps_what_the_claim_does_not_show(
    room: &impl LedgerRoom,
) {
    let ledger = room.open().await;
    let control = of_many(100);
    assert!(ledger.set_control(0, &control).await.unwrap());
    let mut shown = claimed(&ledger, &request(1, "a")).await;
    shown.control.weights.insert("spring".to_owned(), 5);
    assert!(ledger.set_control(1, &shown.control).await.unwrap());
    let stands = ledger.read().await.unwrap().control;
    assert!(stands.reputation == control.reputation, "the bounces are lost");
    assert_eq!((stands.weights["spring"], stands.weights.len()), (5, 101));
    let next = claimed(&ledger, &request(2, "b")).await.control;
    assert!(
        next.weights == stands.weights && next.campaigns == control.campaigns,
        "another record"
    );
}
