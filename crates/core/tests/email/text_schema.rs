//! The JSON Schema of text messages against their parser.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tidegate_core::email::EmailErrorKind;
use tidegate_core::text_message::TextMessage;

use crate::schema::Validator;

/// Schema and parser agree, but for what the schema's `$comment` lists.
fn judge(validator: &Validator, message: &Value) -> Result<bool, TestCaseError> {
    let valid = validator.is_valid(message);
    match TextMessage::parse(&message.to_string()) {
        Ok(_) => {
            prop_assert!(valid, "the parser takes {message}: {:?}", validator.judge(message));
        }
        Err(error) if error.kind == EmailErrorKind::DuplicateMember => {}
        Err(error) if error.to_string().starts_with("text: must be at most 1530") => {}
        Err(error) => prop_assert!(!valid, "the schema takes {message}; the parser: {error}"),
    }
    Ok(valid)
}

/// Values of each member, allowed and not; the first is allowed.
fn values() -> Vec<(&'static str, Vec<Value>)> {
    let names = |others: &[&str]| -> Vec<Value> {
        let all = [
            "a".repeat(256),
            "a".repeat(257),
            String::new(),
            "two words".to_owned(),
            "ä".to_owned(),
        ];
        others.iter().map(|name| json!(name)).chain(all.iter().map(|name| json!(name))).collect()
    };
    let many = |count: usize| {
        Value::Object((0..count).map(|n| (format!("t{n}"), json!("v"))).collect::<Map<_, _>>())
    };
    let phones = [
        "+12065550100",
        "+1206555",
        "+120655",
        "+123456789012345",
        "+1234567890123456",
        "12065550100",
        "+02065550100",
        "+1 2065550100",
        "+12065550100\n",
        "",
    ];
    let blanks = [" ", "\n\t", "\u{85}\u{2003}\u{3000}", "\u{feff}", "\u{200b}"];
    let texts =
        ["Hello, Grüße", "€[]", "ж", "🌊", ""].into_iter().chain(blanks).map(|text| json!(text));
    let long = ["a", "€", "ж", "🌊"]
        .into_iter()
        .flat_map(|c| [315, 630, 631, 765, 1_530, 1_531].map(|n| json!(c.repeat(n))));
    vec![
        ("to_phone", phones.map(|phone| json!(phone)).to_vec()),
        ("text", texts.chain(long).collect()),
        (
            "origination",
            names(&["+12065550100", "NEWS", "arn:aws:sms-voice:eu-west-1:1:pool/pool-1"]),
        ),
        (
            "type",
            ["promotional", "transactional", "Promotional", ""].map(|kind| json!(kind)).to_vec(),
        ),
        ("configuration_set", names(&["texts", "a+b"])),
        (
            "id",
            ["7", "", "a\nb"]
                .map(|id| json!(id))
                .into_iter()
                .chain([json!("é".repeat(256)), json!("é".repeat(257))])
                .collect(),
        ),
        ("priority", ["high", "High"].map(|priority| json!(priority)).to_vec()),
        (
            "tags",
            vec![
                json!({ "list": "a" }),
                json!({}),
                many(2),
                many(3),
                json!({ "tidegate_x": "v" }),
                json!({ "a b": "v" }),
                json!({ "a": "v w" }),
            ],
        ),
        ("metadata", vec![json!({ "any": [1] })]),
        ("x_own", vec![json!(null)]),
        ("to", vec![json!("+12065550100")]),
    ]
}

fn odd() -> [Value; 6] {
    [json!(null), json!(true), json!(7), json!([]), json!({}), json!({ "x": 1 })]
}

#[test]
fn every_value_of_every_member_is_judged_alike_by_schema_and_parser() {
    let validator = Validator::of("text.schema.json").unwrap();
    let start = json!({ "to_phone": "+12065550100", "text": "Hello" });
    let (mut taken, mut refused) = (0, 0);
    for (name, values) in values() {
        for value in values.into_iter().chain(odd()) {
            let mut message = start.clone();
            message[name] = value;
            *if judge(&validator, &message).unwrap() { &mut taken } else { &mut refused } += 1;
        }
    }
    assert!(taken > 50 && refused > 50, "{taken} taken, {refused} refused");
    for missing in ["to_phone", "text"] {
        let mut message = start.clone();
        message.as_object_mut().unwrap().remove(missing);
        assert!(!judge(&validator, &message).unwrap(), "{missing}");
    }
    let gzip = tidegate_core::compression::compress(
        &json!({ "to_phone": "+12065550100", "text": "Hello".repeat(2_000) }).to_string(),
    );
    assert!(validator.is_valid(&serde_json::from_str(&gzip.unwrap()).unwrap()));
}

/// Any members, each with any of its values.
fn messages() -> impl Strategy<Value = Value> {
    let member = |(name, values): (&'static str, Vec<Value>)| {
        let likely = values[0].clone();
        let value = prop_oneof![6 => Just(likely), 2 => proptest::sample::select(values), 1 => proptest::sample::select(odd().to_vec())];
        let share = if ["to_phone", "text"].contains(&name) { 0.95 } else { 0.3 };
        proptest::option::weighted(share, value)
            .prop_map(move |value| value.map(|value| (name.to_owned(), value)))
    };
    let members: Vec<_> = values().into_iter().map(member).collect();
    members.prop_map(|members| Value::Object(members.into_iter().flatten().collect()))
}

#[test]
fn the_schema_takes_what_the_parser_takes_and_nothing_else() {
    let validator = Validator::of("text.schema.json").unwrap();
    let config = ProptestConfig { cases: 5_000, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner.run(&messages(), |message| judge(&validator, &message).map(|_| ())).unwrap();
}
