//! Tests of the items beside the claim's item, and of the size that remains in it.

use super::*;

/// An item's size by DynamoDB's rules: the UTF-8 bytes of names and texts; for a number one byte per two
/// digits and one more.
fn size(item: &Value) -> usize {
    let attribute = |(name, value): (&String, &Value)| {
        let value = match (&value["S"], &value["N"]) {
            (Value::String(text), _) => text.len(),
            (_, Value::String(number)) => number.len().div_ceil(2) + 1,
            _ => panic!("{name} is neither text nor number"),
        };
        name.len() + value
    };
    item.as_object().unwrap().iter().map(attribute).sum()
}

/// The attributes that an update sets, as an item.
fn written(body: &Value) -> Value {
    let update = body["UpdateExpression"].as_str().unwrap().strip_prefix("SET ").unwrap();
    let pairs = update.split(", ").filter_map(|pair| pair.split_once(" = "));
    let named = pairs.map(|(name, value)| {
        let known = body["ExpressionAttributeNames"][name].as_str().unwrap_or(name);
        (known.to_owned(), body["ExpressionAttributeValues"][value].clone())
    });
    let key = body["Key"].as_object().unwrap().clone();
    Value::Object(named.chain(key).collect())
}

/// The largest control record that a stack with this many campaigns can have.
fn busy_control(campaigns: usize) -> Control {
    let at = EpochMillis::new(1_795_207_000_123);
    let mut control = Control {
        last_known_quota: Rate::per_second(1_234.5).ok(),
        daily: Some(DailyReading {
            quota: 1_000_000,
            sent: 654_321,
            counted: 987_654_321,
            read_at: at,
        }),
        ..Control::default()
    };
    control.back_pressure = serde_json::from_value(json!({
        "level": "busy", "since": at, "calm_since": at, "read_at": at,
        "figures": {
            "backlog_mails": 9_876_543, "backlog_seconds": 12_345, "age_seconds": 4_321, "refused_millionths": 1_234,
        },
        "backlog": vec![9_876_543; 15], "growing_since": at,
    }))
    .ok();
    assert!(control.back_pressure.is_some());
    control.hold(None, HoldReason::Paused, Hold::new("typo in the subject", at));
    for number in 0..campaigns {
        let name = format!("campaign-{number:0>55}");
        let hold = Hold::new(&"Grüße: ".repeat(36), at);
        control.hold(Some(&name), HoldReason::Refusals, hold);
        control.weights.insert(name.clone(), 1_000);
        let queue = format!("https://sqs.ap-southeast-2.amazonaws.com/123456789012/{name:0>80}");
        control.campaigns.push(Campaign {
            name,
            queue_url: queue,
            weight: 10_000,
            ..Campaign::default()
        });
    }
    control
}

/// The claim's item with this control record as the adapter writes it, and the items beside it.
async fn stored(control: &Control) -> (Value, Vec<Value>) {
    let (fake, ledger) = ledger([ok(&json!({}))]);
    assert!(ledger.set_control(4, control).await.unwrap());
    let asked = fake.seen().remove(0).body;
    let mut updates = match asked.get("TransactItems") {
        Some(updates) => {
            updates.as_array().unwrap().iter().map(|it| it["Update"].clone()).collect()
        }
        None => vec![asked],
    };
    let record = written(&updates.remove(0));
    let mut item = claimed_item();
    for left in ["n.fed", "idle", "control"] {
        item.as_object_mut().unwrap().remove(left);
    }
    item["token"] = json!({"S": "0123456789abcdef0123456789abcdef"});
    for name in ["window", "opened", "prev_window"] {
        item[name] = json!({"N": "1795207000"});
    }
    item.as_object_mut().unwrap().extend(record.as_object().unwrap().clone());
    (item, updates.iter().map(written).collect())
}

#[tokio::test]
async fn the_claims_item_is_below_1_kb_with_two_campaigns_and_below_4_kb_with_a_thousand() {
    let (two, _) = stored(&busy_control(2)).await;
    assert!(size(&two) < 1_024, "{} bytes: {two}", size(&two));
    for campaigns in [300, 1_000] {
        let (many, beside) = stored(&busy_control(campaigns)).await;
        assert!(size(&many) < 1_024, "{} bytes: {many}", size(&many));
        assert!(beside.len() >= 3, "{} items", beside.len());
        assert!(beside.iter().all(|item| size(item) < 400_000));
    }
}

#[tokio::test]
async fn members_that_stand_apart_are_read_once_and_then_only_after_a_change() {
    let control = busy_control(300);
    let (item, beside) = stored(&control).await;
    let claim = |item: &Value| ok(&json!({"Attributes": item}));
    let pages = ok(&json!({"Responses": {"tidegate": beside}}));
    let parts = || ok(&json!({"Responses": {"tidegate": [part()]}}));
    let answers = [claim(&item), parts(), pages, claim(&item), parts()];
    let (fake, ledger) = ledger(answers);
    for _ in 0..2 {
        let Claim::Claimed(found) = ledger.claim(&request()).await.unwrap() else {
            panic!("taken")
        };
        assert!(found.control == control, "another record");
    }
    assert_eq!(fake.seen().len(), 5);
}

/// A page is rewritten between the claim and the read of the page, so the record is read again.
#[tokio::test]
async fn a_page_of_another_version_is_not_taken_for_the_one_referred_to() {
    let control = busy_control(300);
    let (item, beside) = stored(&control).await;
    let mut older = item.clone();
    let text = item["control"]["S"].as_str().unwrap().replace(r#""version":5"#, r#""version":4"#);
    (older["control"], older["control_token"]) = (json!({"S": text}), json!({"S": "before"}));
    let pages = || ok(&json!({"Responses": {"tidegate": beside.clone()}}));
    let parts = ok(&json!({"Responses": {"tidegate": [part()]}}));
    let answers =
        [ok(&json!({"Attributes": older})), parts, pages(), ok(&json!({"Item": item})), pages()];
    let (_, ledger) = ledger(answers);
    let Claim::Claimed(found) = ledger.claim(&request()).await.unwrap() else { panic!("taken") };
    assert!(found.control == control && found.control_version == 5, "the older record");
}

#[tokio::test(start_paused = true)]
async fn a_claim_waits_for_a_change_of_the_control_record_under_way() {
    let conflict = r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionConflictException","message":"Transaction is ongoing for the item"}"#;
    let conflict = || FakeAnswer::Http(400, &[], conflict.to_owned());
    let claimed = ok(&json!({"Attributes": claimed_item()}));
    let (_, ledger) = ledger_of(&[part()], [conflict(), conflict(), claimed]);
    assert!(matches!(ledger.claim(&request()).await, Ok(Claim::Claimed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_many_items_is_made_whole_or_not_at_all() {
    let cancelled = |code: &str| {
        let body = json!({
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "Message": "Transaction cancelled",
            "CancellationReasons": [{"Code": code}, {"Code": "None"}],
        });
        FakeAnswer::Http(400, &[], body.to_string())
    };
    let control = busy_control(300);
    let (_, another) = ledger([cancelled("ConditionalCheckFailed")]);
    assert!(!another.set_control(3, &control).await.unwrap());
    let (fake, in_between) = ledger([cancelled("TransactionConflict"), ok(&json!({}))]);
    assert!(in_between.set_control(4, &control).await.unwrap());
    let seen = fake.seen();
    let token = |seen: &SeenRequest| seen.body["ClientRequestToken"].clone();
    assert_eq!((seen.len(), token(&seen[0])), (2, token(&seen[1])));
}

#[tokio::test]
async fn a_member_beyond_its_bound_is_refused_by_name() {
    let unknown = [("moon".to_owned(), json!("x".repeat(3_000_001)))].into();
    let (fake, ledger) = ledger([]);
    let control = Control { unknown, ..Control::default() };
    let error = ledger.set_control(4, &control).await.unwrap_err().to_string();
    assert!(
        error.contains("member moon would have 3000003 bytes; allowed are at most 3000000"),
        "{error}"
    );
    assert_eq!(fake.seen().len(), 0);
}

/// Data per campaign is in parts, and a report makes one write per part.
#[tokio::test]
async fn a_report_of_many_campaigns_is_one_write_a_part_that_then_expires() {
    let counters: BTreeMap<String, i64> = (1..=200).map(|n| (format!("sent.c-{n}"), n)).collect();
    let (fake, ledger) = ledger((0..5).map(|_| ok(&json!({}))));
    let upkeep = Upkeep { parts: 4, past: vec!["old".to_owned()], ..Upkeep::default() };
    let at = Window::from_epoch_second(1_795_207_000);
    let report =
        LedgerReport { window: at, counters: counters.clone(), upkeep, ..LedgerReport::default() };
    ledger.report(&report).await.unwrap();
    let seen = fake.seen();
    let mut keys: Vec<_> =
        seen.iter().map(|s| s.body["Key"]["pk"]["S"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["sums#0", "sums#1", "sums#2", "sums#3"]);
    assert_eq!(seen.iter().flat_map(reported).collect::<BTreeMap<_, _>>(), counters);
    for write in &seen {
        let (set, is_first) = (set_in(write), write.body["Key"]["pk"]["S"] == "sums#0");
        let expires = (!is_first).then(|| json!({"N": (1_795_207_000 + 40 * 86_400).to_string()}));
        assert_eq!(set.get("expires_at"), expires.as_ref());
        assert_eq!(set.get("parts"), is_first.then(|| json!({"N": "4"})).as_ref());
    }
    let removed = seen.iter().filter(|s| s.body.to_string().contains("n.waited.old")).count();
    assert!(removed >= 1, "nothing is forgotten");
}

/// A claim reads as many parts as there were at the last read; if there are more by now, the others are read
/// as well.
#[tokio::test]
async fn parts_that_are_new_are_read_and_those_that_have_expired_are_not() {
    let part = |place: u32, more: Value| {
        let mut part = json!({"pk": {"S": format!("sums#{place}")}, "n.sent.spring": {"N": "1"}});
        part.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        part
    };
    let first = part(0, json!({"parts": {"N": "4"}}));
    let (young, old) = (json!({"expires_at": {"N": "102"}}), json!({"expires_at": {"N": "101"}}));
    let parts = [first, part(1, young), part(3, old)];
    let claimed = || ok(&json!({"Attributes": claimed_item()}));
    let (_, ledger) = ledger_of(&parts, [claimed()]);
    ledger.parts.store(1, std::sync::atomic::Ordering::Relaxed);
    let Claim::Claimed(found) = ledger.claim(&request()).await.unwrap() else { panic!("taken") };
    assert_eq!((found.parts, found.counters["sent.spring"]), (2, 2));
    assert_eq!(ledger.parts.load(std::sync::atomic::Ordering::Relaxed), 4);
}
