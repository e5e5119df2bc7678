//! The JSON Schema against the parser: the schema takes every message that the parser takes, and refuses every
//! other, but for the rules that it states as unsaid.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use boon::{CompileError, Compiler, SchemaIndex, Schemas};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tidegate_core::compression::decompress;
use tidegate_core::email::{Email, EmailErrorKind};

/// Judges messages by a schema.
pub(crate) struct Validator {
    schemas: Schemas,
    message: SchemaIndex,
}

impl Validator {
    /// By the schema of this name in the docs.
    pub(crate) fn of(file: &str) -> Result<Self, Box<CompileError>> {
        let path = format!("{}/../../docs/{file}", env!("CARGO_MANIFEST_DIR"));
        let mut schemas = Schemas::new();
        let message = Compiler::new().compile(&path, &mut schemas)?;
        Ok(Self { schemas, message })
    }

    pub(crate) fn judge(&self, message: &Value) -> Result<(), String> {
        self.schemas.validate(message, self.message).map_err(|error| error.to_string())
    }

    pub(crate) fn is_valid(&self, message: &Value) -> bool {
        self.judge(message).is_ok()
    }
}

/// The parser's error about a body in either form of storage; none if it takes the body.
fn refusal(body: &str) -> Option<(EmailErrorKind, String)> {
    let text = match decompress(body) {
        None => body.to_owned(),
        Some(Ok(text)) => text,
        Some(Err(error)) => return Some((EmailErrorKind::NotJson, error.to_string())),
    };
    Email::parse(&text).err().map(|error| (error.kind, error.to_string()))
}

/// True for an error by a rule that the schema's `$comment` lists: JSON Schema has no words for it.
fn is_unsaid(kind: EmailErrorKind, error: &str) -> bool {
    const RULES: [&str; 16] = [
        "must be a time with its zone",
        // Addresses.
        "must be one address like ada@example.com or Ada",
        "must have its display name in double quotes",
        "must be at most 320 characters",
        "must have an ASCII local part",
        "must have its domain in ASCII",
        "must have a local part of at most 64 characters",
        "must be a mailto: address",
        // Sums.
        "must be 1 to 50 recipients",
        "at most 996 with the name",
        "must be at most 980 characters altogether",
        // Attachments.
        "SES takes no file with this one",
        "must not have one content_id twice",
        "for each image cid:",
        // MIME messages.
        "must be a MIME message",
        "header field",
    ];
    kind == EmailErrorKind::DuplicateMember
        || error.contains("must not stand twice")
        || RULES.iter().any(|rule| error.contains(rule))
}

fn judge(validator: &Validator, message: &Value) -> Result<(), TestCaseError> {
    let body = message.to_string();
    let valid = validator.is_valid(message);
    match refusal(&body) {
        None => prop_assert!(
            valid,
            "the parser takes {body}; the schema: {:?}",
            validator.judge(message)
        ),
        Some((kind, error)) if is_unsaid(kind, &error) => {}
        Some((_, error)) => prop_assert!(!valid, "the schema takes {body}; the parser: {error}"),
    }
    Ok(())
}

/// Any of these values, the first ones more often.
fn one_of(values: Vec<Value>) -> BoxedStrategy<Value> {
    let first = values[0].clone();
    prop_oneof![4 => Just(first), 3 => proptest::sample::select(values), 1 => odd()].boxed()
}

/// A value of any type.
fn odd() -> impl Strategy<Value = Value> {
    proptest::sample::select(vec![
        Value::Null,
        json!(true),
        json!(7),
        json!(""),
        json!("text"),
        json!("a\nb"),
        json!("\u{85}"),
        json!([]),
        json!([null]),
        json!(["text"]),
        json!({}),
        json!({ "x": 1 }),
    ])
}

fn address() -> Vec<Value> {
    vec![
        json!("ada@example.com"),
        json!("Ada <ada@example.com>"),
        json!("\"Ada, L.\" <ada@example.com>"),
        json!(" ada@example.com "),
        json!("<ada@example.com>"),
        json!("\"a b\"@example.com"),
        json!("ada@example"),
        json!("ada"),
        json!("a@b.c, d@e.f"),
        json!("ada@example.com\n"),
        json!("@example.com"),
    ]
}

fn addresses() -> Vec<Value> {
    let many = |count: usize| json!(vec!["ada@example.com"; count]);
    let mut values = address();
    values.extend([
        json!(["ada@example.com"]),
        json!([]),
        many(2),
        many(50),
        many(51),
        json!(["ada@example.com", 7]),
    ]);
    values
}

fn text_of(lengths: [usize; 4]) -> Vec<Value> {
    let mut values = vec![json!("Hello")];
    values.extend(lengths.map(|length| json!("é".repeat(length))));
    values
}

fn words(most: usize) -> Vec<Value> {
    let long = |length: usize| json!("a".repeat(length));
    vec![json!("word_1-a"), long(most), long(most + 1), json!("a b"), json!("é"), json!("a\n")]
}

fn templates() -> Vec<Value> {
    vec![
        json!({ "name": "t", "data": { "a": [1, null, "x"] } }),
        json!({ "name": "t" }),
        json!({ "name": "t", "data": null, "metadata": 1, "x_a": 2 }),
        json!({ "name": null }),
        json!({ "data": {} }),
        json!({ "name": "é".repeat(256) }),
        json!({ "name": "é".repeat(257) }),
        json!({ "name": "a\nb" }),
        json!({ "name": "t", "data": [] }),
        json!({ "name": "t", "more": 1 }),
    ]
}

fn raws() -> Vec<Value> {
    let mimes = [
        "From: news@example.org\r\n\r\nText.",
        "From: news@example.org\nBcc: eve@example.com\n\n",
        "Subject: Hello\r\n\r\n",
        "From: news@example.org\r\nX-SES-Tenant: a\r\n\r\n",
        "From: news@example.org\r\n",
    ];
    let mut values = mimes.map(|mime| json!(STANDARD.encode(mime))).to_vec();
    values.extend([json!("QUFB\n"), json!("QUFBQQ"), json!("=")]);
    values
}

fn headers() -> Vec<Value> {
    let many = |count: usize| {
        let all = (0..count).map(|n| (format!("X-{n}"), json!("v")));
        Value::Object(all.collect::<Map<_, _>>())
    };
    let mut values = vec![json!({ "X-A": "v" }), json!({}), many(13), many(14), many(15), many(16)];
    let names = [
        "Subject",
        "SUBJECT",
        "Subjects",
        "x-ses-tag",
        "List-Unsubscribe",
        "list-unsubscribe-post",
        "List",
        "a:b",
        "a b",
        "é",
        "",
    ];
    values.extend(names.map(|name| json!({ name: "v" })));
    values.push(json!({ "a".repeat(126): "v" }));
    values.push(json!({ "a".repeat(127): "v" }));
    let contents = [
        json!(""),
        json!("é"),
        json!("a\r\nb"),
        json!(" "),
        json!(null),
        json!(1),
        json!("v".repeat(995)),
        json!("v".repeat(996)),
    ];
    values.extend(contents.map(|content| json!({ "A": content })));
    values.push(json!({ "X-A": "v", "x-a": "w" }));
    values
}

fn attachments() -> Vec<Value> {
    let file = |name: &str, content: &str| json!([{ "name": name, "content": content }]);
    let typed = |text: &str| json!([{ "name": "a.b", "content": "QQ==", "content_type": text }]);
    let mut values = vec![
        file("a.txt", "QQ=="),
        json!([]),
        json!([null]),
        json!([{}]),
        json!([{ "name": "a" }]),
    ];
    values.extend(
        ["", "QQ==", "QR==", "QUE=", "QUF=", "QUFB", "QUFBQQ", "=", "Q Q=", "QUFB\n", "____"]
            .map(|content| file("a.b", content)),
    );
    values.extend(
        [
            "a",
            "a/b.c",
            "a\\b.c",
            "a\"b.c",
            "",
            "a\n.b",
            "a.b\u{202e}",
            ".b",
            "a.",
            "a.b ",
            "a.b.c",
            "..b",
            "a.exe",
        ]
        .map(|name| file(name, "QQ==")),
    );
    values.extend([
        file(&format!("{}.b", "é".repeat(253)), "QQ=="),
        file(&format!("{}.b", "é".repeat(254)), "QQ=="),
    ]);
    values.extend(
        [
            "text/plain",
            "text/plain; charset=utf-8",
            "text/plain ;x",
            "text",
            "text/",
            "/x",
            "a b/c",
            "text/é",
            "text/plain  ",
            " text/plain",
            "text/plain;é",
            "text/a/b",
        ]
        .map(typed),
    );
    values
        .extend([typed(&format!("a/{}", "b".repeat(76))), typed(&format!("a/{}", "b".repeat(77)))]);
    values.push(json!([{ "name": "a.b", "content": "QQ==", "content_type": null, "x_y": 1 }]));
    values.push(json!([{ "name": "a.b", "content": "QQ==", "size": 1 }]));
    let shown =
        |member: &str, value: &str| json!([{ "name": "a.b", "content": "QQ==", member: value }]);
    values.extend(["logo", "a@b.c", "<a>", "", "é"].map(|id| shown("content_id", id)));
    values.extend(["a".repeat(78), "a".repeat(79)].map(|id| shown("content_id", &id)));
    values.extend(["inline", "attachment", "INLINE", ""].map(|text| shown("disposition", text)));
    values
}

fn unsubscribes() -> Vec<Value> {
    let url = |length: usize| format!("https://{}", "a".repeat(length - "https://".len()));
    let mut values =
        vec![json!("https://example.org/u?x=1#y"), json!({ "url": "https://example.org" })];
    let urls = [
        "http://example.org",
        "https://",
        "https:///a",
        "https://?a",
        "https://a b",
        "https://a,b",
        "https://a<b",
        "https://a\"b",
        "https://é",
        "HTTPS://a",
    ];
    values.extend(urls.map(|url| json!(url)));
    values.extend([
        json!(url(978)),
        json!(url(979)),
        json!({ "url": url(978) }),
        json!({ "url": null }),
        json!({ "mailto": "mailto:a@b.cc" }),
    ]);
    let mailtos = [
        json!("mailto:a@b.cc"),
        json!("mailto:a@b.cc?subject=x"),
        json!("a@b.cc"),
        json!("mailto:"),
        json!("mailto:x"),
        json!(null),
        json!(1),
    ];
    values.extend(mailtos.map(|mailto| json!({ "url": "https://example.org", "mailto": mailto })));
    values.push(json!({ "url": url(960), "mailto": "mailto:abcdefgh@example.com" }));
    values.push(json!({ "url": "https://example.org", "post": 1 }));
    values
}

fn tags() -> Vec<Value> {
    let many = |count: usize| {
        Value::Object((0..count).map(|n| (format!("t{n}"), json!("v"))).collect::<Map<_, _>>())
    };
    let mut values = vec![json!({ "a": "b" }), json!({}), many(48), many(49)];
    values.extend(
        ["a b", "", "tidegate_x", "TideGate_x", "tidegate", "x_tidegate_"]
            .map(|name| json!({ name: "v" })),
    );
    values.extend([json!({ "a".repeat(256): "v" }), json!({ "a".repeat(257): "v" })]);
    values.extend(
        [
            json!(null),
            json!(1),
            json!(""),
            json!("v".repeat(256)),
            json!("v".repeat(257)),
            json!("ä"),
        ]
        .map(|value| json!({ "a": value })),
    );
    values
}

fn stored() -> Vec<Value> {
    vec![
        json!({ "name": "0a1B", "bytes": 10 }),
        json!({ "name": "a".repeat(64), "bytes": 56_623_104, "x_a": 1, "metadata": 2 }),
        json!({ "name": "a".repeat(65), "bytes": 1 }),
        json!({ "name": "a", "bytes": 56_623_105 }),
        json!({ "name": "a", "bytes": 0 }),
        json!({ "name": "a", "bytes": "1" }),
        json!({ "name": "a", "bytes": 1.5 }),
        json!({ "name": "a", "bytes": null }),
        json!({ "name": "../a", "bytes": 1 }),
        json!({ "name": "a" }),
        json!({ "bytes": 1 }),
        json!({ "name": "a", "bytes": 1, "bucket": "b" }),
    ]
}

/// Values of each member, allowed and not; the first is allowed.
fn values() -> Vec<(&'static str, Vec<Value>)> {
    let bodies = || {
        vec![
            json!("Text.\n\u{7}"),
            json!(""),
            json!("é"),
            json!("a\u{0}"),
            json!("\u{202e}"),
            json!("\u{202a}"),
            json!("<img src=\"cid:logo\">"),
        ]
    };
    vec![
        ("to_address", address()),
        ("from_address", address()),
        ("body", bodies()),
        ("to", addresses()),
        ("cc", addresses()),
        ("bcc", addresses()),
        ("from", address()),
        ("reply_to", addresses()),
        ("text", bodies()),
        ("html", bodies()),
        ("template", templates()),
        ("raw", raws()),
        ("stored", stored()),
        ("headers", headers()),
        ("attachments", attachments()),
        ("configuration_set", words(64)),
        ("list_unsubscribe", unsubscribes()),
        ("subject", text_of([1, 998, 5_000, 0])),
        ("id", text_of([1, 256, 257, 0])),
        (
            "priority",
            ["high", "critical", "normal", "low", "High", "urgent"].map(|p| json!(p)).to_vec(),
        ),
        ("tags", tags()),
        ("metadata", vec![json!({ "any": [1] })]),
        ("x_own", vec![json!(null), json!(1)]),
        ("tempalte", vec![json!({ "name": "t" })]),
    ]
}

/// A message from one form's members with these and some others changed, added or taken away.
fn messages() -> impl Strategy<Value = Value> {
    const STARTS: [&[&str]; 7] = [
        &["to_address", "from_address", "subject", "body"],
        &["to", "from", "subject", "text"],
        &["bcc", "from", "subject", "html", "list_unsubscribe", "headers"],
        &["to", "from", "template", "tags"],
        &["to", "from", "raw", "id"],
        &["to", "from", "stored", "id"],
        &[],
    ];
    let (names, choices): (Vec<_>, Vec<_>) = values().into_iter().unzip();
    let first: Vec<Value> = choices.iter().map(|values: &Vec<Value>| values[0].clone()).collect();
    let count = names.len();
    let changes = prop_oneof![3 => Just(0_usize..1), 4 => Just(1..2), 3 => Just(2..4)]
        .prop_flat_map(move |range| {
            let change = (0..count).prop_flat_map({
                let choices = choices.clone();
                move |at| (Just(at), proptest::option::weighted(0.85, one_of(choices[at].clone())))
            });
            proptest::collection::vec(change, range)
        });
    (proptest::sample::select(STARTS.to_vec()), changes).prop_map(move |(start, changes)| {
        let mut message = Map::new();
        for (name, value) in names.iter().zip(&first).filter(|(name, _)| start.contains(name)) {
            message.insert((*name).to_owned(), value.clone());
        }
        for (at, value) in changes {
            match value {
                Some(value) => message.insert(names[at].to_owned(), value),
                None => message.remove(names[at]),
            };
        }
        Value::Object(message)
    })
}

#[test]
fn the_schema_takes_what_the_parser_takes_and_nothing_else() {
    let validator = Validator::of("message.schema.json").unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 20_000,
        ..ProptestConfig::default()
    });
    runner.run(&messages(), |message| judge(&validator, &message)).unwrap();
}

/// The generated cases above may miss one: each value of each member, beside a message's others.
#[test]
fn every_value_of_every_member_is_judged_alike_by_schema_and_parser() {
    let validator = Validator::of("message.schema.json").unwrap();
    let short = json!({ "to_address": "ada@example.com", "from_address": "news@example.org", "subject": "Hello", "body": "Text." });
    let long = json!({ "to": "ada@example.com", "from": "news@example.org", "subject": "Hello", "text": "Text." });
    let templated =
        json!({ "to": "ada@example.com", "from": "news@example.org", "template": { "name": "t" } });
    let raw = json!({ "to": "ada@example.com", "from": "news@example.org", "raw": raws()[0] });
    let large =
        json!({ "to": "ada@example.com", "from": "news@example.org", "stored": stored()[0] });
    let unsubscribing = json!({ "to": "a@example.com", "from": "b@example.org", "subject": "s", "html": "h", "list_unsubscribe": "https://example.org" });
    let (mut taken, mut refused) = (0, 0);
    for start in [&short, &long, &templated, &raw, &large, &unsubscribing] {
        assert!(validator.is_valid(start) && refusal(&start.to_string()).is_none());
        for (name, values) in values() {
            for value in values {
                let mut message = start.clone();
                message[name] = value;
                judge(&validator, &message).unwrap();
                *if validator.is_valid(&message) { &mut taken } else { &mut refused } += 1;
            }
        }
    }
    assert!(taken > 200 && refused > 200, "{taken} taken, {refused} refused");
}

#[test]
fn what_is_no_object_is_no_message() {
    let validator = Validator::of("message.schema.json").unwrap();
    for body in [json!(null), json!(7), json!("text"), json!([]), json!({})] {
        assert!(!validator.is_valid(&body), "{body}");
        assert!(refusal(&body.to_string()).is_some(), "{body}");
    }
}

#[test]
fn the_compressed_form_is_a_message_and_has_no_other_member() {
    let validator = Validator::of("message.schema.json").unwrap();
    let mail = json!({ "to": "ada@example.com", "from": "news@example.org", "subject": "Hello", "text": "Text. ".repeat(1_000) });
    let body = tidegate_core::compression::compress(&mail.to_string()).unwrap();
    let mut compressed: Value = serde_json::from_str(&body).unwrap();
    judge(&validator, &compressed).unwrap();
    assert!(validator.is_valid(&compressed));
    compressed["id"] = json!("7");
    assert!(!validator.is_valid(&compressed) && refusal(&compressed.to_string()).is_some());
    for gzip in [json!("Q"), json!("Q_=="), json!(7), json!(null)] {
        let message = json!({ "gzip": gzip });
        assert!(!validator.is_valid(&message), "{message}");
        assert!(refusal(&message.to_string()).is_some(), "{message}");
    }
}

#[test]
fn the_examples_in_events_are_judged_alike() {
    let validator = Validator::of("message.schema.json").unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../events");
    let mut messages = 0;
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for path in paths.filter(|path| path.is_file()) {
        let text = fs::read_to_string(path).unwrap();
        let Ok(message) = serde_json::from_str::<Value>(&text) else { continue };
        messages += usize::from(validator.is_valid(&message));
        judge(&validator, &message).unwrap();
    }
    assert_eq!(messages, 5);
}
