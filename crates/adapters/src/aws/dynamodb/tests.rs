mod apart;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_core::config::Campaign;
use tidegate_core::control::{Hold, HoldReason, StoredControl};
use tidegate_core::daily::DailyReading;
use tidegate_core::identity::EpochMillis;
use tidegate_core::idle::QueueChecks;
use tidegate_core::in_full;
use tidegate_core::limiter::WindowLeft;
use tidegate_core::parts::Upkeep;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::ports::{FailureKind, Idle, PreviousClaim};
use tokio::time::Instant;

use super::*;
use crate::aws::tests::fake::{Fake, FakeAnswer, SeenRequest};

pub(super) fn ledger(answers: impl IntoIterator<Item = FakeAnswer>) -> (Fake, DynamoLedger) {
    let fake = Fake::new(answers);
    let ledger = DynamoLedger::new(&fake.dynamodb(), "tidegate");
    (fake, ledger)
}

/// A ledger whose table holds these parts; `answers` are the answers about the claim's item.
fn ledger_of(
    parts: &[Value],
    answers: impl IntoIterator<Item = FakeAnswer>,
) -> (Fake, DynamoLedger) {
    let parts = json!({"Responses": {"tidegate": parts}});
    let fake = Fake::new(answers).always("BatchGetItem", &parts);
    let ledger = DynamoLedger::new(&fake.dynamodb(), "tidegate");
    (fake, ledger)
}

/// Part 0 with the data that [`standing`] describes.
fn part() -> Value {
    json!({
        "pk": {"S": "sums#0"}, "parts": {"N": "1"},
        "n.fed": {"N": "1200"}, "n.taken": {"N": "-3"}, "n.sent.spring": {"N": "9"},
        "idle.spring": {"S": "105 4"}, "left.fall": {"N": "60"},
        "last_find": {"N": "70"}, "last_report": {"S": "someone's"},
    })
}

pub(super) fn ok(body: &Value) -> FakeAnswer {
    FakeAnswer::Http(200, &[], body.to_string())
}

/// DynamoDB's answer to a failed condition, with the item.
pub(super) fn condition_failed(item: &Value) -> FakeAnswer {
    let (status, body) = condition_body(item);
    FakeAnswer::Http(status, &[], body)
}

fn condition_body(item: &Value) -> (u16, String) {
    let body = json!({
        "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
        "Message": "The conditional request failed",
        "Item": item,
    });
    (400, body.to_string())
}

fn window(second: u64) -> Window {
    Window::from_epoch_second(second)
}

fn request() -> ClaimRequest {
    ClaimRequest {
        window: window(101),
        quota: Rate::per_second(14.5).unwrap(),
        rate_margin: RateMargin::default(),
        limits: 7,
        token: "mine".to_owned(),
    }
}

/// The item after the claim of [`request`].
fn claimed_item() -> Value {
    let factor = |factor: RateFactor| json!({"S": serde_json::to_string(&factor).unwrap()});
    let lowered = RateFactor::default().refused(window(99)).unwrap();
    json!({
        "pk": {"S": "regulator"}, "token": {"S": "mine"},
        "window": {"N": "101"}, "opened": {"N": "101"},
        "rate": {"N": "14.5"}, "margin": {"N": "0.01"}, "initial_limits": {"N": "7"}, "claimed_factor": factor(lowered),
        "prev_window": {"N": "100"}, "prev_rate": {"N": "14"}, "prev_margin": {"N": "0.05"}, "prev_initial_limits": {"N": "6"},
        "prev_claimed_factor": factor(RateFactor::default()), "factor": factor(lowered),
        "limits": {"N": "13"}, "claimed_limits": {"N": "12"}, "prev_claimed_limits": {"N": "11"},
        "control": {"S": r#"{"weights":{"spring":80}}"#}, "control_version": {"N": "4"},
        // An attribute in the format of an older version.
        "n.fed": {"N": "7"}, "idle": {"S": r#"{"spring":{"until":"1970-01-01T00:01:45Z","pause":4}}"#},
    })
}

fn standing() -> Standing {
    Standing {
        previous: Some(PreviousClaim {
            window: window(100),
            quota: Rate::per_second(14.0).unwrap(),
            rate_margin: RateMargin::new(0.05).unwrap(),
            limits: 6,
            changed_limits: 11,
            factor: RateFactor::default(),
        }),
        factor: RateFactor::default().refused(window(99)).unwrap(),
        control: Control { weights: [("spring".to_owned(), 80)].into(), ..Control::default() },
        control_version: 4,
        counters: [("fed", 1_200), ("taken", -3), ("sent.spring", 9)]
            .map(|(name, sum)| (name.to_owned(), sum))
            .into(),
        idle: [("spring".to_owned(), Idle { until: window(105), pause: 4 })].into(),
        looks: QueueChecks { found: Some(window(70)), empty: None, due: None },
        parts: 1,
        left: [("fall".to_owned(), window(60))].into(),
        window_left: None,
    }
}

#[tokio::test]
async fn a_claim_is_one_conditional_write_that_gives_back_what_stands() {
    let (fake, ledger) = ledger_of(&[part()], [ok(&json!({"Attributes": claimed_item()}))]);
    assert_eq!(ledger.claim(&request()).await.unwrap(), Claim::Claimed(standing()));
    let seen = fake.seen();
    assert_eq!(seen.len(), 1);
    let asked = &seen[0];
    assert_eq!(asked.target.as_deref(), Some("DynamoDB_20120810.UpdateItem"));
    assert_eq!(asked.body["Key"], json!({"pk": {"S": "regulator"}}));
    let condition = "attribute_not_exists(#window) OR #window < :window";
    assert_eq!(asked.body["ConditionExpression"], condition);
    assert_eq!(asked.body["ReturnValuesOnConditionCheckFailure"], "ALL_OLD");
    assert_eq!(asked.body["ExpressionAttributeValues"][":rate"], json!({"N": "14.5"}));
}

#[tokio::test]
async fn the_first_claim_has_none_before_it() {
    let mut item = claimed_item();
    for (name, zero) in [("prev_window", "0"), ("prev_rate", "0"), ("prev_margin", "0")] {
        item[name] = json!({"N": zero});
    }
    let (_, ledger) = ledger_of(&[part()], [ok(&json!({"Attributes": item}))]);
    let Claim::Claimed(first) = ledger.claim(&request()).await.unwrap() else { panic!("taken") };
    assert_eq!(first.previous, None);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_ours_and_knows_the_claim_before() {
    let (fake, first) =
        ledger_of(&[part()], [FakeAnswer::Break, condition_failed(&claimed_item())]);
    assert_eq!(first.claim(&request()).await.unwrap(), Claim::Claimed(standing()));
    assert_eq!(fake.seen().len(), 2);
    // The factor was changed after the claim was written: the window is served with the claimed one, which
    // the next claim sees as the previous.
    let mut changed = claimed_item();
    let capped = RateFactor::default().capped(Rate::per_second(3.0).ok());
    changed["factor"] = json!({"S": serde_json::to_string(&capped).unwrap()});
    let (_, ledger) = ledger_of(&[part()], [FakeAnswer::Break, condition_failed(&changed)]);
    let Claim::Claimed(found) = ledger.claim(&request()).await.unwrap() else { panic!("taken") };
    assert_eq!(found.factor, standing().factor);
}

#[tokio::test]
async fn a_window_that_another_claimed_is_taken_and_owed_where_that_one_advanced() {
    // The window of the newest claim, the window it was made for, and whether window 101 belongs to it.
    for (newest, opened, owed) in [(101, 101, false), (105, 105, false), (103, 99, true)] {
        let mut item = claimed_item();
        item["token"] = json!({"S": "another's"});
        item["window"] = json!({"N": newest.to_string()});
        item["opened"] = json!({"N": opened.to_string()});
        let (_, ledger) = ledger_of(&[part()], [condition_failed(&item)]);
        let expected = Claim::Taken { newest: window(newest), owed };
        assert_eq!(ledger.claim(&request()).await.unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn failed_calls_are_counted_until_they_are_asked_for_and_failed_conditions_are_none() {
    let (_, ledger) = ledger([condition_failed(&json!({}))]);
    let failures = ledger.failures();
    assert!(!ledger.advance("token", Window::from_epoch_second(1)).await.unwrap());
    assert_eq!(failures.take(), 0);
    for _ in 0..2 {
        ledger.advance("token", Window::from_epoch_second(1)).await.unwrap_err();
    }
    assert_eq!((failures.take(), failures.take()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_of_several_requests_fails_once_and_one_that_cannot_be_read_fails_too() {
    let mut item = claimed_item();
    item["factor"] = json!({"S": "half"});
    let (_, ledger) = ledger_of(&[part()], [ok(&json!({"Attributes": item}))]);
    let failures = ledger.failures();
    ledger.claim(&request()).await.unwrap_err();
    assert_eq!(failures.take(), 1);
    let report = LedgerReport {
        counters: (0..50).map(|n| (format!("sent.{n}"), 1)).collect(),
        upkeep: Upkeep { parts: 4, ..Upkeep::default() },
        ..LedgerReport::default()
    };
    ledger.report(&report).await.unwrap_err();
    assert_eq!(failures.take(), 1, "four parts, one report");
}

#[tokio::test(start_paused = true)]
async fn a_ledger_out_of_reach_fails_a_claim_within_300_ms() {
    let (_, silent) =
        ledger_of(&[], [FakeAnswer::Silence, FakeAnswer::Silence, FakeAnswer::Silence]);
    let began = Instant::now();
    let error = silent.claim(&request()).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::TimedOut);
    assert!(silent.advance("mine", window(9)).await.is_err());
    assert!(began.elapsed() <= 2 * CLAIM_TIMEOUT, "{:?}", began.elapsed());

    let began = Instant::now();
    let (fake, broken) = ledger_of(&[], []);
    let error = broken.claim(&request()).await.unwrap_err();
    assert_eq!((error.kind, fake.seen().len()), (FailureKind::Unreachable, 3));
    assert!(began.elapsed() <= Duration::from_millis(60), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_missing_table_and_a_refused_key_are_told_apart_by_name() {
    let missing = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"Requested resource not found"}"#;
    let denied = r#"{"__type":"com.amazon.coral.service#UnrecognizedClientException","message":"The security token included in the request is invalid."}"#;
    let answer = |body: &str| FakeAnswer::Http(400, &[], body.to_owned());
    let (_, ledger) = ledger_of(&[], [answer(missing), answer(missing), answer(denied)]);
    let error = ledger.claim(&request()).await.unwrap_err();
    assert_eq!(error.to_string(), "UpdateItem on tidegate failed: it does not exist");
    assert!(in_full(&error).contains("Requested resource not found"), "{}", in_full(&error));
    assert_eq!(ledger.read().await.unwrap_err().kind, FailureKind::NotFound);
    let denied = FailureKind::Denied("UnrecognizedClientException".to_owned());
    assert_eq!(ledger.read().await.unwrap_err().kind, denied);
}

#[tokio::test]
async fn an_item_that_cannot_be_read_is_an_error_with_the_attributes_name() {
    for name in ["prev_rate", "factor", "control", "control_version", "n.fed", "idle.spring"] {
        let (mut item, mut part) = (claimed_item(), part());
        let wrong = if part.get(name).is_some() { &mut part } else { &mut item };
        wrong[name] = json!({"BOOL": true});
        let (_, ledger) = ledger_of(&[part], [ok(&json!({"Attributes": item}))]);
        let error = ledger.claim(&request()).await.unwrap_err().to_string();
        assert!(error.contains(&format!("attribute {name} is")), "{error}");
    }
}

#[tokio::test]
async fn a_control_record_in_a_newer_format_serves_no_window_and_the_error_says_what_to_deploy() {
    let mut item = claimed_item();
    item["control"] = json!({"S": r#"{"format":2,"weights":"elsewhere"}"#});
    let (_, ledger) = ledger_of(&[part()], [ok(&json!({"Attributes": item}))]);
    let error = ledger.claim(&request()).await.unwrap_err().to_string();
    assert!(
        error.contains("the control record has format 2, and this version reads format 1 alone"),
        "{error}"
    );
    assert!(error.contains("deploy the version that wrote it, or a newer one"), "{error}");
}

#[tokio::test]
async fn a_claim_advances_while_it_is_the_newest() {
    let (fake, ledger) = ledger([ok(&json!({})), condition_failed(&claimed_item())]);
    assert!(ledger.advance("mine", window(104)).await.unwrap());
    assert!(!ledger.advance("older", window(104)).await.unwrap());
    let asked = fake.seen().remove(0).body;
    assert_eq!(asked["ConditionExpression"], "#token = :token AND #window <= :through");
    assert_eq!(asked["UpdateExpression"], "SET #window = :through");
    let values = json!({":token": {"S": "mine"}, ":through": {"N": "104"}});
    assert_eq!(asked["ExpressionAttributeValues"], values);
}

#[tokio::test]
async fn reading_shows_the_newest_claim_as_the_one_before_the_next() {
    let (fake, ledger) = ledger_of(&[part()], [ok(&json!({"Item": claimed_item()}))]);
    let newest = PreviousClaim {
        window: window(101),
        quota: Rate::per_second(14.5).unwrap(),
        rate_margin: RateMargin::default(),
        limits: 7,
        changed_limits: 12,
        factor: RateFactor::default().refused(window(99)).unwrap(),
    };
    let expected = Standing { previous: Some(newest), ..standing() };
    assert_eq!(ledger.read().await.unwrap(), expected);
    let nothing = Fake::new([ok(&json!({}))]).always("BatchGetItem", &json!({}));
    let empty = DynamoLedger::new(&nothing.dynamodb(), "tidegate");
    assert_eq!(empty.read().await.unwrap(), Standing::default());
    assert_eq!(fake.seen()[0].body["ConsistentRead"], true);
}

fn reported(seen: &SeenRequest) -> BTreeMap<String, i64> {
    let (names, values) =
        (&seen.body["ExpressionAttributeNames"], &seen.body["ExpressionAttributeValues"]);
    let update = seen.body["UpdateExpression"].as_str().unwrap();
    let added = update.split_once(" ADD ").map_or("", |(_, added)| added);
    let pairs = added.split(", ").filter_map(|pair| pair.split_once(' '));
    pairs
        .map(|(name, value)| {
            let name = names[name].as_str().unwrap().strip_prefix("n.").unwrap();
            (name.to_owned(), values[value]["N"].as_str().unwrap().parse().unwrap())
        })
        .collect()
}

/// The attributes that an update sets, by name.
fn set_in(seen: &SeenRequest) -> BTreeMap<String, Value> {
    let update = seen.body["UpdateExpression"].as_str().unwrap();
    let set = update.split(" REMOVE ").next().unwrap().split(" ADD ").next().unwrap();
    let pairs = set.strip_prefix("SET ").unwrap().split(", ").filter_map(|it| it.split_once(" = "));
    let named = pairs.filter_map(|(name, value)| {
        let name = seen.body["ExpressionAttributeNames"][name].as_str()?;
        Some((name.to_owned(), seen.body["ExpressionAttributeValues"][value].clone()))
    });
    named.collect()
}

#[tokio::test]
async fn a_report_adds_its_counters_once_each_in_as_many_writes_as_they_need() {
    let counters: BTreeMap<String, i64> = (1..=230).map(|n| (format!("sent.c-{n}"), n)).collect();
    let idle = BTreeMap::from([("spring".to_owned(), Some(Idle { until: window(9), pause: 2 }))]);
    let (fake, ledger) = ledger((0..2).map(|_| ok(&json!({}))));
    let report = LedgerReport {
        counters: counters.clone(),
        idle,
        looks: QueueChecks { found: Some(window(7)), empty: None, due: Some(window(9)) },
        ..LedgerReport::default()
    };
    ledger.report(&report).await.unwrap();
    let seen = fake.seen();
    assert_eq!(seen.iter().flat_map(reported).collect::<BTreeMap<_, _>>(), counters);
    assert_eq!(seen.iter().map(|seen| reported(seen).len()).sum::<usize>(), 230);
    for write in &seen {
        assert!(write.body["UpdateExpression"].as_str().unwrap().len() <= 4_096);
    }
    let set = |seen: &SeenRequest, name: &str| set_in(seen).get(name).cloned();
    let idles: Vec<_> = seen.iter().map(|seen| set(seen, "idle.spring")).collect();
    assert_eq!(idles, [None, Some(json!({"S": "9 2"}))]);
    let found = (set(&seen[1], "last_find"), set(&seen[1], "last_empty"));
    assert_eq!(found, (Some(json!({"N": "7"})), None));
}

#[tokio::test]
async fn an_empty_report_writes_nothing_and_idle_alone_is_written() {
    let (fake, ledger) = ledger([ok(&json!({}))]);
    let nothing =
        LedgerReport { counters: [("sent".to_owned(), 0)].into(), ..LedgerReport::default() };
    ledger.report(&nothing).await.unwrap();
    assert_eq!(fake.seen().len(), 0);
    let idle = BTreeMap::from([("spring".to_owned(), None)]);
    ledger.report(&LedgerReport { idle, ..LedgerReport::default() }).await.unwrap();
    let seen = fake.seen().remove(0).body;
    assert_eq!(seen["UpdateExpression"], "SET last_report = :token REMOVE #0");
    assert_eq!(seen["ExpressionAttributeNames"], json!({"#0": "idle.spring"}));
}

#[tokio::test]
async fn what_a_window_left_is_written_with_the_report_and_no_other_call() {
    let (fake, ledger) = ledger([ok(&json!({}))]);
    let left = WindowLeft { window: window(100), slots: 2, ..WindowLeft::default() };
    let report = LedgerReport {
        counters: [("sent".to_owned(), 3)].into(),
        window_left: Some(left),
        ..LedgerReport::default()
    };
    ledger.report(&report).await.unwrap();
    let seen = fake.seen();
    assert_eq!(seen.len(), 1);
    let body = &seen[0].body;
    assert_eq!(body["UpdateExpression"], "SET last_report = :token, #1 = :1 ADD #0 :0");
    assert_eq!(body["ExpressionAttributeNames"]["#1"], "window_left");
    let text = "100 2 0 0 0 0 0 0 0 0 0 0 0 0";
    assert_eq!(body["ExpressionAttributeValues"][":1"], json!({"S": text}));
}

#[tokio::test]
async fn what_another_version_wrote_of_a_window_is_no_reason_to_send_nothing() {
    let mut part = part();
    part["window_left"] = json!({"S": "of a later version"});
    let (_, ledger) = ledger_of(&[part], [ok(&json!({"Attributes": claimed_item()}))]);
    assert_eq!(ledger.claim(&request()).await.unwrap(), Claim::Claimed(standing()));
}

#[tokio::test(start_paused = true)]
async fn a_report_whose_answer_was_lost_is_not_added_twice() {
    let (fake, ledger) = ledger([FakeAnswer::Break, condition_failed(&claimed_item())]);
    let report =
        LedgerReport { counters: [("sent".to_owned(), 3)].into(), ..LedgerReport::default() };
    ledger.report(&report).await.unwrap();
    let seen = fake.seen();
    let token = |seen: &SeenRequest| seen.body["ExpressionAttributeValues"][":token"].clone();
    assert_eq!((seen.len(), token(&seen[0])), (2, token(&seen[1])));
    let condition = "attribute_not_exists(last_report) OR last_report <> :token";
    assert_eq!(seen[1].body["ConditionExpression"], condition);
}

#[tokio::test]
async fn the_factor_is_replaced_where_the_expected_one_stands() {
    let lowered = RateFactor::default().refused(window(99)).unwrap();
    let recovered = lowered.recovered(window(100)).unwrap();
    let failed = condition_failed(&claimed_item());
    let (fake, ledger) = ledger([ok(&json!({})), ok(&json!({})), failed]);
    assert!(ledger.set_factor(RateFactor::default(), lowered).await.unwrap());
    assert!(ledger.set_factor(lowered, recovered).await.unwrap());
    assert!(!ledger.set_factor(lowered, recovered).await.unwrap());
    let seen = fake.seen();
    // An item without a factor stands for the whole quota.
    let condition = "attribute_not_exists(factor) OR factor = :from";
    assert_eq!(seen[0].body["ConditionExpression"], condition);
    assert_eq!(seen[1].body["ConditionExpression"], "factor = :from");
    let to = json!({"S": serde_json::to_string(&recovered).unwrap()});
    assert_eq!(seen[1].body["ExpressionAttributeValues"][":to"], to);
}

#[tokio::test]
async fn the_control_record_is_replaced_version_by_version() {
    let hold = Hold::new("the operator's", EpochMillis::new(0));
    let mut control = Control::default();
    control.hold(None, HoldReason::Paused, hold);
    let failed = condition_failed(&claimed_item());
    let (fake, ledger) = ledger([ok(&json!({})), ok(&json!({})), failed]);
    assert!(ledger.set_control(0, &control).await.unwrap());
    assert!(ledger.set_control(4, &control).await.unwrap());
    assert!(!ledger.set_control(3, &control).await.unwrap());
    let seen = fake.seen();
    assert_eq!(seen[0].body["ConditionExpression"], "attribute_not_exists(control_version)");
    let mut values = seen[1].body["ExpressionAttributeValues"].clone();
    assert!(values.as_object_mut().unwrap().remove(":token").is_some());
    let stored = StoredControl::of(&control, 5, &BTreeMap::new()).unwrap();
    let expected = json!({
        ":control": {"S": serde_json::to_string(&stored.inline).unwrap()},
        ":version": {"N": "4"}, ":next": {"N": "5"}, ":limits": {"N": "0"},
    });
    assert_eq!(values, expected);
}

/// Regression: the first attempt took effect and its answer was lost. The retry was taken for another
/// operator's change, and the change was applied again on top of itself.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_control_record_whose_answer_was_lost_is_made() {
    let made = |asked: &Value| {
        let token = asked["ExpressionAttributeValues"][":token"].clone();
        condition_body(&json!({"control_version": {"N": "5"}, "control_token": token}))
    };
    let (fake, ledger) = ledger([FakeAnswer::Break, FakeAnswer::Of(made)]);
    assert!(ledger.set_control(4, &Control::default()).await.unwrap());
    assert_eq!(fake.seen().len(), 2);
}
