use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::Timestamp;
use tidegate_core::deduplication::{Acceptance, Mark, MarkState};
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_delivery::ports::{FailureKind, MarkRequest, MarkResult, Marks as _};

use super::DynamoLedger;
use super::tests::{condition_failed, ledger, ok};
use crate::aws::tests::fake::FakeAnswer;

fn identity() -> Identity {
    Identity::from_body_id("news", "7")
}

fn request() -> MarkRequest {
    MarkRequest {
        identity: identity(),
        token: "mine".to_owned(),
        pass: 2,
        now: Timestamp::from_millis(1_795_207_000_250),
        kept: Duration::from_hours(24),
        replaces: None,
    }
}

fn item(token: &str, state: &str) -> Value {
    json!({
        "pk": {"S": "mail#…"}, "state": {"S": state}, "token": {"S": token},
        "pass": {"N": "1"}, "since": {"N": "1795206000125"}, "expires_at": {"N": "1795293400"},
    })
}

#[tokio::test]
async fn a_mail_is_marked_where_no_mark_stands_or_one_that_has_expired() {
    let (fake, ledger) = ledger([ok(&json!({}))]);
    assert_eq!(ledger.mark(&request()).await.unwrap(), MarkResult::Ours);
    let asked = fake.seen().remove(0).body;
    // The digest was computed with `printf 'news/id/7' | sha256sum`.
    let key = "mail#b61e93ee2b18b90c8cfe75f2eb1e500b3901b617b7bdf733f34ad37e1bef4d89";
    assert_eq!(asked["Key"], json!({"pk": {"S": key}}));
    assert_eq!(asked["ConditionExpression"], "attribute_not_exists(pk) OR expires_at <= :now");
    let values = json!({
        ":sending": {"S": "sending"}, ":token": {"S": "mine"}, ":pass": {"N": "2"},
        ":since": {"N": "1795207000250"}, ":now": {"N": "1795207000"},
        ":expires_at": {"N": "1795293400"},
    });
    assert_eq!(asked["ExpressionAttributeValues"], values);
}

#[tokio::test]
async fn a_mark_that_stands_is_shown_and_ones_own_is_ones_own() {
    for (text, state) in
        [("sending", MarkState::Sending), ("sent", MarkState::Sent), ("parked", MarkState::Parked)]
    {
        let (_, ledger) = ledger([condition_failed(&item("another's", text))]);
        let since = EpochMillis::new(1_795_206_000_125);
        let found = Mark { state, token: "another's".to_owned(), pass: 1, since, accepted: None };
        assert_eq!(ledger.mark(&request()).await.unwrap(), MarkResult::Found(found));
    }
    let (fake, ledger) = ledger([FakeAnswer::Break, condition_failed(&item("mine", "sending"))]);
    assert_eq!(ledger.mark(&request()).await.unwrap(), MarkResult::Ours);
    assert_eq!(fake.seen().len(), 2);
}

#[tokio::test]
async fn a_mark_takes_the_place_of_the_one_that_was_found() {
    let (fake, ledger) = ledger([ok(&json!({}))]);
    let request = MarkRequest { replaces: Some("crashed".to_owned()), ..request() };
    assert_eq!(ledger.mark(&request).await.unwrap(), MarkResult::Ours);
    let asked = fake.seen().remove(0).body;
    let condition = "attribute_not_exists(pk) OR expires_at <= :now OR #token = :replaced";
    assert_eq!(asked["ConditionExpression"], condition);
    assert_eq!(asked["ExpressionAttributeValues"][":replaced"], json!({"S": "crashed"}));
}

#[tokio::test]
async fn sent_is_set_whoever_marked_it_and_parked_by_its_own_marker_only() {
    let failed = condition_failed(&item("another's", "sending"));
    let (fake, ledger) = ledger([ok(&json!({})), ok(&json!({})), failed]);
    let at = EpochMillis::new(1_795_207_001_500);
    let accepted = Acceptance { at, ses_message_id: "0102018f-1".to_owned() };
    assert!(ledger.set_sent(&identity(), &accepted).await.unwrap());
    assert!(ledger.set_parked(&identity(), "mine", 65_535).await.unwrap());
    assert!(!ledger.set_parked(&identity(), "mine", 65_535).await.unwrap());
    let seen = fake.seen();
    assert_eq!(seen[0].body["ConditionExpression"], "attribute_exists(pk)");
    let values = json!({
        ":sent": {"S": "sent"}, ":at": {"N": "1795207001500"}, ":ses_id": {"S": "0102018f-1"},
    });
    assert_eq!(seen[0].body["ExpressionAttributeValues"], values);
    assert_eq!(seen[1].body["ConditionExpression"], "#token = :token");
    let values = json!({
        ":parked": {"S": "parked"}, ":pass": {"N": "65535"}, ":token": {"S": "mine"},
    });
    assert_eq!(seen[1].body["ExpressionAttributeValues"], values);
}

#[tokio::test]
async fn a_mark_is_taken_away_while_it_is_ones_own_and_sending() {
    let failed = condition_failed(&item("another's", "sending"));
    let (fake, ledger) = ledger([ok(&json!({})), failed]);
    assert!(ledger.unmark(&identity(), "mine").await.unwrap());
    assert!(!ledger.unmark(&identity(), "mine").await.unwrap());
    let asked = fake.seen().remove(0).body;
    assert_eq!(asked["ConditionExpression"], "#token = :token AND #state = :sending");
    let values = json!({":token": {"S": "mine"}, ":sending": {"S": "sending"}});
    assert_eq!(asked["ExpressionAttributeValues"], values);
}

#[tokio::test]
async fn a_mark_that_cannot_be_read_is_an_error_with_the_attributes_name() {
    for name in ["state", "token", "pass", "since"] {
        let mut broken = item("another's", "sending");
        broken[name] = json!({"BOOL": true});
        let (_, ledger): (_, DynamoLedger) = ledger([condition_failed(&broken)]);
        let error = ledger.mark(&request()).await.unwrap_err();
        assert!(matches!(error.kind, FailureKind::Refused(_)), "{error}");
        assert!(error.to_string().contains(&format!("attribute {name} is")), "{error}");
    }
}

/// An answer of `BatchGetItem` with these items and these unprocessed keys.
fn batch(items: &[Value], rest: &[Value]) -> FakeAnswer {
    let unprocessed = if rest.is_empty() { json!({}) } else { json!({"tidegate": {"Keys": rest}}) };
    ok(&json!({"Responses": {"tidegate": items}, "UnprocessedKeys": unprocessed}))
}

fn keyed(id: &str, token: &str, state: &str) -> (Value, Value) {
    let key = json!({"S": super::marks::key_of(&Identity::from_body_id("news", id))});
    let mut item = item(token, state);
    item["pk"] = key.clone();
    (json!({"pk": key}), item)
}

#[tokio::test(start_paused = true)]
async fn marks_are_found_in_the_order_asked_and_keys_left_over_are_asked_for_again() {
    let ((key1, item1), (key2, item2)) = (keyed("1", "a", "sent"), keyed("2", "b", "parked"));
    let rest = [key1.clone()];
    let (fake, ledger) = ledger([batch(&[item2], &rest), batch(&[], &rest), batch(&[item1], &[])]);
    let asked: Vec<_> =
        ["2", "none", "1", "2"].map(|id| Identity::from_body_id("news", id)).to_vec();
    let found = ledger.find(&asked).await.unwrap();
    let tokens: Vec<_> = found.iter().map(|mark| mark.as_ref().map(|m| m.token.as_str())).collect();
    assert_eq!(tokens, [Some("b"), None, Some("a"), Some("b")]);
    assert_eq!(found[0].as_ref().map(|mark| mark.state), Some(MarkState::Parked));
    let seen = fake.seen();
    assert_eq!(seen[0].target.as_deref(), Some("DynamoDB_20120810.BatchGetItem"));
    let table = |n: usize| seen[n].body["RequestItems"]["tidegate"].clone();
    // DynamoDB refuses a batch with a repeated key. The read must be consistent.
    let keys = table(0)["Keys"].as_array().unwrap().clone();
    assert!(keys.len() == 3 && keys.contains(&key1) && keys.contains(&key2), "{keys:?}");
    assert_eq!(table(0)["ConsistentRead"], true);
    assert_eq!((table(1)["Keys"].clone(), table(2)["Keys"].clone()), (json!(rest), json!(rest)));
}

#[tokio::test(start_paused = true)]
async fn a_throttled_table_that_processes_some_keys_of_each_call_gives_all_in_the_end() {
    let all: Vec<_> = (0..20).map(|id| keyed(&id.to_string(), "a", "sent")).collect();
    let keys: Vec<Value> = all.iter().map(|(key, _)| key.clone()).collect();
    let answers = all
        .iter()
        .enumerate()
        .map(|(n, (_, item))| batch(std::slice::from_ref(item), &keys[n + 1..]));
    let (fake, ledger) = ledger(answers);
    let asked: Vec<_> = (0..20).map(|id| Identity::from_body_id("news", &id.to_string())).collect();
    assert!(ledger.find(&asked).await.unwrap().iter().all(Option::is_some));
    assert_eq!(fake.seen().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_never_processed_and_marks_that_cannot_be_read_are_errors() {
    let (key, mut broken) = keyed("7", "a", "sent");
    let (fake, never): (_, DynamoLedger) =
        ledger((0..9).map(|_| batch(&[], std::slice::from_ref(&key))));
    let error = never.find(&[identity()]).await.unwrap_err();
    assert!(error.to_string().ends_with("refused (1 keys were never processed)"), "{error}");
    assert_eq!(fake.seen().len(), 6);
    broken["state"] = json!({"S": "lost"});
    let (_, unreadable) = ledger([batch(&[broken], &[])]);
    let error = unreadable.find(&[identity()]).await.unwrap_err();
    assert!(error.to_string().contains("attribute state is a text of 4 bytes"), "{error}");
}
