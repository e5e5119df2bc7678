//! The contract of the `Ledger` port.

mod parts;

use std::collections::BTreeMap;

use futures_util::future::join_all;
use tidegate_core::Window;
use tidegate_core::config::Campaign;
use tidegate_core::control::{ChangeRecord, Control, Hold, HoldReason};
use tidegate_core::factor::RateFactor;
use tidegate_core::identity::EpochMillis;
use tidegate_core::idle::QueueChecks;
use tidegate_core::limiter::{WaitingMails, WindowLeft};
use tidegate_core::limits::{Limit, LimitChanges, LimitRate, digest};
use tidegate_core::parts::{Upkeep, counters_of, parts_for};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::reputation::{Reputation, ReputationFigures, Tally};
use tidegate_delivery::ports::{
    CHANGES_KEPT, Claim, ClaimRequest, Exclusions, History, Idle, Ledger, LedgerReport, Marks,
    PreviousClaim, Runs, Standing,
};

use super::{behaviours, hold_in_turn};
use parts::{
    a_campaigns_sum_is_what_all_parts_hold_of_it,
    a_change_from_a_claim_keeps_what_the_claim_does_not_show, of_a_past_campaign_nothing_stays,
    parts_that_nobody_writes_to_expire, the_claims_item_does_not_grow_with_the_campaigns,
};

/// Gives the contract fresh ledgers of one adapter.
pub trait LedgerRoom {
    type Ledger: Ledger + Marks + History + Exclusions + Runs;

    /// A ledger on which nothing stands.
    fn open(&self) -> impl Future<Output = Self::Ledger>;

    /// Sizes of the items of the ledger that was opened last, by key, as DynamoDB counts them:
    /// names and values of their attributes.
    fn sizes(&self) -> impl Future<Output = BTreeMap<String, usize>>;
}

/// Runs all behaviours of the port on one adapter.
pub async fn ledger_contract(room: &impl LedgerRoom) {
    hold_in_turn(behaviours![room =>
        the_first_claim_finds_nothing_before_it,
        only_a_newer_window_is_claimed,
        the_same_claim_again_succeeds_and_sees_the_same_claim_before,
        of_concurrent_claims_exactly_one_wins,
        a_claim_gets_rate_margin_and_factor_of_the_claim_before,
        an_advanced_claim_owes_the_windows_it_passed,
        only_the_newest_claim_advances_and_never_back,
        the_factor_changes_only_from_the_one_that_stands,
        of_concurrent_changes_of_the_factor_exactly_one_wins,
        the_control_record_changes_only_by_its_version,
        counters_add_up,
        queues_found_empty_are_noted_one_by_one,
        a_campaigns_sum_is_what_all_parts_hold_of_it,
        of_a_past_campaign_nothing_stays,
        parts_that_nobody_writes_to_expire,
        the_claims_item_does_not_grow_with_the_campaigns,
        a_change_from_a_claim_keeps_what_the_claim_does_not_show,
        looks_are_replaced_one_by_one_or_left,
        what_a_window_left_is_that_of_the_last_report,
        a_read_claims_nothing_and_shows_the_newest_claim,
        a_claim_leaves_control_counters_and_factor_alone,
        changes_are_shown_newest_first_and_the_oldest_go,
    ])
    .await;
}

fn window(second: u64) -> Window {
    Window::from_epoch_second(1_795_207_000 + second)
}

fn request(second: u64, token: &str) -> ClaimRequest {
    ClaimRequest {
        window: window(second),
        quota: Rate::per_second(14.000_001).unwrap(),
        rate_margin: RateMargin::default(),
        limits: 0,
        token: token.to_owned(),
    }
}

async fn claimed(ledger: &impl Ledger, request: &ClaimRequest) -> Standing {
    match ledger.claim(request).await.expect("the ledger answers") {
        Claim::Claimed(standing) => standing,
        Claim::Taken { newest, owed } => {
            unreachable!("{} is taken: newest {newest}, owed {owed}", request.window)
        }
    }
}

fn counters(of: &[(&str, i64)]) -> BTreeMap<String, i64> {
    of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

async fn the_first_claim_finds_nothing_before_it(room: &impl LedgerRoom) {
    let standing = claimed(&room.open().await, &request(0, "a")).await;
    assert_eq!(standing, Standing::default());
}

async fn only_a_newer_window_is_claimed(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    claimed(&ledger, &request(5, "a")).await;
    for second in [5, 4, 0] {
        let taken = ledger.claim(&request(second, "b")).await.unwrap();
        assert_eq!(taken, Claim::Taken { newest: window(5), owed: false });
    }
    claimed(&ledger, &request(6, "b")).await;
    claimed(&ledger, &request(60, "c")).await;
}

async fn the_same_claim_again_succeeds_and_sees_the_same_claim_before(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    claimed(&ledger, &request(1, "a")).await;
    let once = claimed(&ledger, &request(2, "b")).await;
    let again = claimed(&ledger, &request(2, "b")).await;
    assert_eq!(once.previous.map(|previous| previous.window), Some(window(1)));
    assert_eq!(once, again);
    // A token is of one claim: it opens no older window.
    let older = ledger.claim(&request(1, "b")).await.unwrap();
    assert_eq!(older, Claim::Taken { newest: window(2), owed: false });
}

async fn of_concurrent_claims_exactly_one_wins(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    for second in 0..5 {
        let requests: Vec<_> =
            (0..4).map(|poller| request(second, &format!("{second}-{poller}"))).collect();
        let claims = join_all(requests.iter().map(|request| ledger.claim(request))).await;
        let won = claims.iter().filter(|claim| matches!(claim, Ok(Claim::Claimed(_))));
        assert_eq!(won.count(), 1, "{claims:?}");
        assert!(claims.iter().all(Result::is_ok), "{claims:?}");
    }
}

async fn a_claim_gets_rate_margin_and_factor_of_the_claim_before(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    let full = RateFactor::default();
    let lowered = full.refused(window(0)).unwrap().capped(Rate::per_second(5.5).ok());
    let (rate, rate_margin) =
        (Rate::per_second(0.123_457).unwrap(), RateMargin::new(0.05).unwrap());
    let limits = 9_007_199_254_740_991;
    claimed(&ledger, &ClaimRequest { quota: rate, rate_margin, limits, ..request(1, "a") }).await;
    assert!(ledger.set_factor(full, lowered).await.unwrap());
    let limit = Limit::from("5000/h".parse::<LimitRate>().unwrap());
    let limits_now = LimitChanges::from([("news".parse().unwrap(), Some(limit))]);
    let changed = Control { limits: limits_now.clone(), ..Control::default() };
    assert!(ledger.set_control(0, &changed).await.unwrap());
    let second = claimed(&ledger, &request(2, "b")).await;
    let before = PreviousClaim {
        window: window(1),
        quota: rate,
        rate_margin,
        limits,
        changed_limits: 0,
        factor: full,
    };
    assert_eq!(second.previous, Some(before));
    assert_eq!(second.factor, lowered);
    let third = claimed(&ledger, &request(3, "c")).await.previous.unwrap();
    assert_eq!((third.window, third.factor), (window(2), lowered));
    assert_eq!((third.quota, third.rate_margin), (request(2, "b").quota, RateMargin::default()));
    assert_eq!((third.limits, third.changed_limits), (0, digest(&limits_now, &BTreeMap::new())));
}

async fn an_advanced_claim_owes_the_windows_it_passed(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    claimed(&ledger, &request(10, "a")).await;
    assert!(ledger.advance("a", window(13)).await.unwrap());
    for (second, owed) in [(9, false), (10, false), (11, true), (13, true)] {
        let taken = ledger.claim(&request(second, "b")).await.unwrap();
        assert_eq!(taken, Claim::Taken { newest: window(13), owed }, "window {second}");
    }
    let next = claimed(&ledger, &request(14, "b")).await;
    assert_eq!(next.previous.map(|previous| previous.window), Some(window(13)));
}

async fn only_the_newest_claim_advances_and_never_back(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    assert!(!ledger.advance("a", window(3)).await.unwrap());
    claimed(&ledger, &request(1, "a")).await;
    claimed(&ledger, &request(2, "b")).await;
    assert!(!ledger.advance("a", window(9)).await.unwrap());
    assert!(ledger.advance("b", window(5)).await.unwrap());
    // Made twice, where the first answer was lost, it is still made.
    assert!(ledger.advance("b", window(5)).await.unwrap());
    assert!(!ledger.advance("b", window(4)).await.unwrap());
    let taken = ledger.claim(&request(5, "c")).await.unwrap();
    assert_eq!(taken, Claim::Taken { newest: window(5), owed: true });
}

async fn the_factor_changes_only_from_the_one_that_stands(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    let full = RateFactor::default();
    let lowered = full.refused(window(0)).unwrap();
    let lower = lowered.refused(window(10)).unwrap();
    assert!(!ledger.set_factor(lowered, lower).await.unwrap());
    assert!(ledger.set_factor(full, lowered).await.unwrap());
    assert!(!ledger.set_factor(full, lower).await.unwrap());
    assert_eq!(ledger.read().await.unwrap().factor, lowered);
    assert!(ledger.set_factor(lowered, lower).await.unwrap());
    assert_eq!(ledger.read().await.unwrap().factor, lower);
}

async fn of_concurrent_changes_of_the_factor_exactly_one_wins(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    let full = RateFactor::default();
    let lowered = (0..4).map(|second| full.refused(window(second)).unwrap());
    let changes = lowered.map(|lowered| ledger.set_factor(full, lowered));
    let changed = join_all(changes).await.into_iter().filter(|done| *done.as_ref().unwrap());
    assert_eq!(changed.count(), 1);
}

async fn the_control_record_changes_only_by_its_version(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    let weights = |small| Control {
        weights: BTreeMap::from([("small".to_owned(), small)]),
        ..Control::default()
    };
    assert!(!ledger.set_control(1, &weights(1)).await.unwrap());
    assert!(ledger.set_control(0, &weights(10)).await.unwrap());
    assert!(!ledger.set_control(0, &weights(20)).await.unwrap());
    let standing = ledger.read().await.unwrap();
    assert_eq!((standing.control_version, standing.control), (1, weights(10)));
    assert!(ledger.set_control(1, &weights(30)).await.unwrap());
    let standing = claimed(&ledger, &request(1, "a")).await;
    assert_eq!((standing.control_version, standing.control), (2, weights(30)));
}

async fn counters_add_up(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    let report =
        |of: &[(&str, i64)]| LedgerReport { counters: counters(of), ..LedgerReport::default() };
    let reports = [
        report(&[("fed", 14), ("sent:big", 12), ("sent:small-1.x_y", 2)]),
        report(&[("fed", -3), ("taken", 1)]),
        report(&[]),
    ];
    for result in join_all(reports.iter().map(|report| ledger.report(report))).await {
        result.unwrap();
    }
    let sums = counters(&[("fed", 11), ("sent:big", 12), ("sent:small-1.x_y", 2), ("taken", 1)]);
    assert_eq!(ledger.read().await.unwrap().counters, sums);
    assert_eq!(claimed(&ledger, &request(1, "a")).await.counters, sums);
}

async fn queues_found_empty_are_noted_one_by_one(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    let at = |pause| Idle { until: window(pause), pause };
    let report = async |changes: &[(&str, Option<Idle>)]| {
        let idle = changes.iter().map(|(name, idle)| ((*name).to_owned(), *idle)).collect();
        ledger.report(&LedgerReport { idle, ..LedgerReport::default() }).await.unwrap();
        ledger.read().await.unwrap().idle
    };
    let idle = |of: &[(&str, u64)]| -> BTreeMap<String, Idle> {
        of.iter().map(|(name, pause)| ((*name).to_owned(), at(*pause))).collect()
    };
    assert_eq!(report(&[("small", Some(at(2)))]).await, idle(&[("small", 2)]));
    assert_eq!(report(&[]).await, idle(&[("small", 2)]));
    let both = report(&[("big", Some(at(1))), (".merge", Some(at(4))), ("small", None)]).await;
    assert_eq!(both, idle(&[("big", 1), (".merge", 4)]));
    assert_eq!(claimed(&ledger, &request(1, "a")).await.idle, both);
    // Not there any more, or never there: both are fine.
    assert_eq!(report(&[("small", None), (".merge", None)]).await, idle(&[("big", 1)]));
}

async fn looks_are_replaced_one_by_one_or_left(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    let report = async |found: Option<u64>, empty: Option<u64>| {
        let looks = QueueChecks {
            found: found.map(window),
            empty: empty.map(window),
            due: found.map(window),
        };
        ledger.report(&LedgerReport { looks, ..LedgerReport::default() }).await.unwrap();
        ledger.read().await.unwrap().looks
    };
    let looks = |found, empty| QueueChecks { found, empty: Some(window(empty)), due: found };
    assert_eq!(report(None, None).await, QueueChecks::default());
    assert_eq!(report(None, Some(5)).await, looks(None, 5));
    assert_eq!(report(Some(7), None).await, looks(Some(window(7)), 5));
    assert_eq!(report(None, None).await, looks(Some(window(7)), 5));
    assert_eq!(report(Some(8), Some(9)).await, looks(Some(window(8)), 9));
    // Reports come in any order: the last one stands.
    assert_eq!(report(Some(6), None).await, looks(Some(window(6)), 9));
    assert_eq!(claimed(&ledger, &request(10, "a")).await.looks, looks(Some(window(6)), 9));
}

async fn what_a_window_left_is_that_of_the_last_report(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    let report = async |window_left: Option<WindowLeft>| {
        ledger.report(&LedgerReport { window_left, ..LedgerReport::default() }).await.unwrap();
        ledger.read().await.unwrap().window_left
    };
    let left = |second, mails| {
        let mails = WaitingMails { limited: [0, 0, mails, 0], ..WaitingMails::default() };
        Some(WindowLeft { window: window(second), slots: 3, mails })
    };
    assert_eq!(report(None).await, None);
    assert_eq!(report(left(7, 2)).await, left(7, 2));
    assert_eq!(report(None).await, left(7, 2));
    assert_eq!(report(left(6, 0)).await, left(6, 0));
    assert_eq!(claimed(&ledger, &request(8, "a")).await.window_left, left(6, 0));
}

async fn a_read_claims_nothing_and_shows_the_newest_claim(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    assert_eq!(ledger.read().await.unwrap(), Standing::default());
    claimed(&ledger, &request(1, "a")).await;
    let newest = ledger.read().await.unwrap().previous;
    assert_eq!(newest.map(|claim| claim.window), Some(window(1)));
    claimed(&ledger, &request(2, "b")).await;
}

async fn a_claim_leaves_control_counters_and_factor_alone(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    let control = Control { last_known_quota: Some(Rate::MAX), ..Control::default() };
    let lowered = RateFactor::default().refused(window(0)).unwrap();
    ledger.set_control(0, &control).await.unwrap();
    ledger.set_factor(RateFactor::default(), lowered).await.unwrap();
    let report = LedgerReport { counters: counters(&[("fed", 1)]), ..LedgerReport::default() };
    ledger.report(&report).await.unwrap();
    let before = ledger.read().await.unwrap();
    claimed(&ledger, &request(1, "a")).await;
    let after = ledger.read().await.unwrap();
    assert_eq!(after, Standing { previous: after.previous, ..before });
}

async fn changes_are_shown_newest_first_and_the_oldest_go(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    assert_eq!(ledger.changes().await.unwrap(), []);
    let change = |number: usize| ChangeRecord {
        at: EpochMillis::new(number as u64),
        by: "ada".to_owned(),
        action: "pause".to_owned(),
        campaign: number.is_multiple_of(2).then(|| "big".to_owned()),
        detail: format!("change {number}"),
        reason: "typo in the subject".to_owned(),
    };
    for number in 0..CHANGES_KEPT + 2 {
        ledger.add(&change(number)).await.unwrap();
    }
    let kept: Vec<_> = (2..CHANGES_KEPT + 2).rev().map(change).collect();
    assert!(ledger.changes().await.unwrap() == kept, "not the newest {CHANGES_KEPT}");
    // The ledger's own item knows nothing of them.
    assert_eq!(ledger.read().await.unwrap(), Standing::default());
}
