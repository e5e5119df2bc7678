use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::identity::Identity;

/// `MaximumMessageSize` of the campaign queues: the length of the longest body.
const LONGEST_BODY: usize = 1_032_192;

fn letter(message: String) -> DeadLetter {
    DeadLetter {
        message_id: "5f0a1c1e-7f7e-4a83-9d0b-0a2e1d1f7c11".to_owned(),
        campaign: "news".to_owned(),
        to: vec!["ada@example.com".to_owned()],
        first_attempt_at: None,
        last_attempt_at: None,
        attempts: 0,
        last_error: LastError {
            code: Some("MessageRejected".to_owned()),
            http_status: Some(400),
            provider_message: "Address blacklisted.".to_owned(),
        },
        message,
    }
}

fn envelope() -> Envelope {
    Envelope::fresh("news", Identity::from_body_id("news", "7"), EpochMillis::new(0))
        .put_back_failed(EpochMillis::new(1), "503")
}

fn read(message: &DeadLetterMessage) -> Result<DeadLetter, DeadLetterError> {
    let attributes: HashMap<_, _> = message.attributes.iter().cloned().collect();
    DeadLetter::from_queue_message(&message.body, |n| attributes.get(n).map(String::as_str))
}

#[test]
fn the_example_in_events_is_an_entry_as_it_is_written() {
    let json = include_str!("../../../../../events/dead_letter.json");
    let entry: DeadLetter = serde_json::from_str(json).unwrap();
    assert_eq!(entry.message, include_str!("../../../../../events/message_short.json").trim_end());
    let written = entry.clone().into_queue_message(None, SQS_LIMIT_BYTES).unwrap();
    let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
    assert_eq!(value(&written.body), value(json));
    assert_eq!(read(&written).unwrap(), entry);
}

#[test]
fn every_member_is_written_even_where_nothing_is_known() {
    let mut entry = letter("not json".to_owned());
    entry.last_error.code = None;
    entry.last_error.http_status = None;
    let written = entry.into_queue_message(None, SQS_LIMIT_BYTES).unwrap();
    assert_eq!(
        written.body,
        concat!(
            r#"{"message_id":"5f0a1c1e-7f7e-4a83-9d0b-0a2e1d1f7c11","campaign":"news","#,
            r#""to":["ada@example.com"],"first_attempt_at":null,"last_attempt_at":null,"#,
            r#""attempts":0,"last_error":{"code":null,"http_status":null,"#,
            r#""provider_message":"Address blacklisted."},"message":"not json"}"#
        )
    );
}

#[test]
fn the_longest_body_stands_untouched_with_entry_and_envelope_beside_it() {
    let original = "\"\n".repeat(LONGEST_BODY / 2);
    let mut entry = letter(original.clone());
    entry.to = vec![format!("\"{}\" <a@example.com>", "é\\".repeat(100)); 50];
    entry.last_error.provider_message = "\u{1}\"".repeat(5_000);
    let written = entry.into_queue_message(Some(&envelope()), SQS_LIMIT_BYTES).unwrap();
    assert_eq!(written.body, original);
    assert!(written.bytes() <= SQS_LIMIT_BYTES);
    let names: Vec<_> = written.attributes.iter().map(|(name, _)| *name).collect();
    assert!(names.contains(&"identity") && names.contains(&ENTRY_ATTRIBUTE), "{names:?}");
    let back = read(&written).unwrap();
    assert_eq!((back.campaign.as_str(), back.message), ("news", original));
    assert!(!back.to.is_empty() && back.to.len() < 50);
}

#[test]
fn recipients_without_end_cost_neither_envelope_nor_reason() {
    let mut entry = letter("\"".repeat(LONGEST_BODY));
    entry.to = vec![String::new(); LONGEST_BODY / 3];
    let written = entry.into_queue_message(Some(&envelope()), SQS_LIMIT_BYTES).unwrap();
    let names: Vec<_> = written.attributes.iter().map(|(name, _)| *name).collect();
    assert!(names.contains(&"identity") && names.contains(&ENTRY_ATTRIBUTE), "{names:?}");
    assert_eq!(read(&written).unwrap().last_error.provider_message, "Address blacklisted.");
}

#[test]
fn a_body_longer_than_queues_should_hold_loses_the_envelope_before_a_byte_of_its_own() {
    for (spare, names) in [(320, vec![ENTRY_ATTRIBUTE]), (10, vec![])] {
        let original = "x".repeat(SQS_LIMIT_BYTES - spare);
        let written = letter(original.clone())
            .into_queue_message(Some(&envelope()), SQS_LIMIT_BYTES)
            .unwrap();
        assert_eq!(written.body, original);
        let found: Vec<_> = written.attributes.iter().map(|(name, _)| *name).collect();
        assert_eq!(found, names, "{spare} bytes spare");
        if let Ok(entry) = read(&written) {
            assert_eq!(entry.last_error.provider_message, "Address blacklisted.");
        }
    }
}

#[test]
fn what_is_no_dead_letter_is_refused_with_its_reason() {
    let error = DeadLetter::from_queue_message("{}", |_| None).unwrap_err();
    assert!(matches!(error, DeadLetterError::Body(_)), "{error}");
    let headless = letter(String::new()).into_queue_message(None, SQS_LIMIT_BYTES).unwrap();
    assert!(matches!(read(&headless), Err(DeadLetterError::NoOriginal)));
    let error = DeadLetter::from_queue_message("x", |_| Some("{")).unwrap_err();
    assert!(matches!(error, DeadLetterError::Attribute(_)), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

/// Bodies of all lengths whose JSON form is one to six times as long.
fn bodies() -> impl Strategy<Value = String> {
    let piece = prop_oneof![Just("\""), Just("x"), Just("é"), Just("\\"), Just("\n{")];
    (piece, 0_usize..=LONGEST_BODY, any::<bool>()).prop_map(|(piece, length, near)| {
        let length = if near { LONGEST_BODY - length % 40_000 } else { length };
        piece.repeat(length / piece.len())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_original_comes_back_byte_for_byte_and_the_limit_holds(
        original in bodies(),
        to in proptest::collection::vec(any::<String>(), 0..50),
        (campaign, id) in ("\\PC{1,80}", "\\PC{1,256}"),
        (code, provider_message) in any::<(Option<String>, String)>(),
        repeat in 1_usize..200,
    ) {
        let mut entry = letter(original.clone());
        entry.to = to;
        entry.last_error.code = code;
        entry.last_error.provider_message = provider_message.repeat(repeat);
        let identity = Identity::from_body_id(&campaign, &id);
        let envelope = Envelope::fresh(&campaign, identity, EpochMillis::MAX)
            .put_back_failed(EpochMillis::MAX, &entry.last_error.provider_message);
        entry.campaign = campaign;
        let written = entry.into_queue_message(Some(&envelope), SQS_LIMIT_BYTES).unwrap();
        prop_assert!(written.bytes() <= SQS_LIMIT_BYTES);
        prop_assert!(written.attributes.len() <= 10);
        prop_assert!(written.attributes.iter().any(|(name, _)| *name == "identity"));
        prop_assert_eq!(read(&written).unwrap().message, original);
    }

    #[test]
    fn an_entry_that_fits_comes_back_whole(
        (message, campaign, code) in ("\\PC{1,200}", "\\PC{0,80}", proptest::option::of("\\PC*")),
        to in proptest::collection::vec("\\PC*", 0..50),
        (first, last, attempts) in any::<(Option<u64>, Option<u64>, u32)>(),
        http_status in any::<Option<u16>>(),
    ) {
        let mut entry = letter(message);
        (entry.campaign, entry.to, entry.attempts) = (campaign, to, attempts);
        entry.first_attempt_at = first.map(EpochMillis::new);
        entry.last_attempt_at = last.map(EpochMillis::new);
        (entry.last_error.code, entry.last_error.http_status) = (code, http_status);
        let written = entry.clone().into_queue_message(None, SQS_LIMIT_BYTES).unwrap();
        prop_assert_eq!(read(&written).unwrap(), entry);
    }
}
