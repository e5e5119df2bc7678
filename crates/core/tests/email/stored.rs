//! Large mail: a message that points to its content, and the content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidegate_core::email::{
    Content, Email, EmailErrorKind, MAX_MAIL_BYTES, MAX_STORED_BYTES, SizedBody, TooLarge, split,
};

use crate::parse;

const POINTER: &str = r#"{"to": "ada@example.com", "from": "news@example.org", "id": "7",
    "stored": {"name": "0a1B2c", "bytes": 35}}"#;

fn pointing(stored: &Value) -> String {
    json!({ "to": "ada@example.com", "from": "news@example.org", "stored": stored }).to_string()
}

#[test]
fn a_pointer_says_who_gets_the_mail_and_where_its_content_is() {
    let email = parse(POINTER).unwrap();
    assert_eq!((email.recipients(), email.id.as_deref()), (1, Some("7")));
    let stored = email.stored().unwrap();
    assert_eq!((stored.key().as_str(), stored.bytes), ("large/0a1B2c", 35));
    assert!(matches!(email.content, Content::Stored(_)));
}

#[test]
fn the_pointer_in_events_is_one() {
    let email = parse(include_str!("../../../../events/message_stored.json")).unwrap();
    assert_eq!(email.stored().map(|stored| stored.bytes), Some(10_485_760));
}

#[test]
fn a_pointer_points_into_the_stores_folder_and_nowhere_else() {
    let long = "a".repeat(65);
    for name in ["", ".", "..", "a/b", "../deferred", "a.b", "a b", "é", "%2e", "a\n", &long] {
        let error = parse(&pointing(&json!({ "name": name, "bytes": 1 }))).unwrap_err();
        assert_eq!(error.field, "stored.name", "{name:?}");
    }
    assert!(parse(&pointing(&json!({ "name": "a".repeat(64), "bytes": 1 }))).is_ok());
}

#[test]
fn a_pointer_names_a_size_that_a_mail_can_have() {
    for bytes in [json!(0), json!(-1), json!(1.5), json!("7"), json!(MAX_STORED_BYTES + 1)] {
        let error = parse(&pointing(&json!({ "name": "a", "bytes": bytes }))).unwrap_err();
        assert_eq!(error.field, "stored.bytes");
        assert!(error.problem.contains("1 to 56623104"), "{error}");
    }
    for stored in [json!({ "name": "a" }), json!({ "bytes": 1 })] {
        assert_eq!(parse(&pointing(&stored)).unwrap_err().kind, EmailErrorKind::Missing);
    }
    let more = json!({ "name": "a", "bytes": 1, "bucket": "theirs" });
    assert_eq!(parse(&pointing(&more)).unwrap_err().field, "stored.bucket");
}

#[test]
fn content_stands_in_the_object_alone() {
    for (name, value) in [("subject", json!("Hello")), ("raw", json!("QQ==")), ("html", json!(7))] {
        let mut body: Value = serde_json::from_str(POINTER).unwrap();
        body[name] = value;
        let error = parse(&body.to_string()).unwrap_err();
        assert_eq!((error.field.as_str(), error.kind), (name, EmailErrorKind::Invalid));
        assert!(error.problem.contains("must not stand with stored"), "{error}");
        let object = br#"{"subject": "Hello", "text": "Text."}"#;
        assert_eq!(Email::with_object(&body.to_string(), object), Err(error));
    }
}

#[test]
fn an_object_holds_content_and_nothing_else() {
    let fault = |object: &[u8]| Email::with_object(POINTER, object).unwrap_err();
    let unknown = fault(br#"{"subject": "Hello", "text": "Text.", "to": "eve@example.com"}"#);
    assert_eq!((unknown.field.as_str(), unknown.kind), ("to", EmailErrorKind::UnknownMember));
    let nested = fault(br#"{"stored": {"name": "a", "bytes": 1}}"#);
    assert_eq!(nested.field, "stored");
    let twice = fault(br#"{"subject": "Hello", "subject": "Bye", "text": "Text."}"#);
    assert_eq!(twice.kind, EmailErrorKind::DuplicateMember);
    for object in [&b""[..], b"[]", b"{\"subject\": ", b"\xff", b"null"] {
        let error = fault(object);
        assert_eq!(error.field, "stored", "{error}");
        assert!(error.problem.starts_with("must point to a JSON object"), "{error}");
    }
    assert_eq!(fault(br#"{"subject": "Hello"}"#).field, "text");
    let raw = r#"{"to": "ada@example.com", "cc": "bob@example.com", "from": "news@example.org",
        "stored": {"name": "a", "bytes": 1}}"#;
    let mime = STANDARD.encode("From: news@example.org\r\n\r\nText.");
    let object = json!({ "raw": mime }).to_string();
    assert_eq!(Email::with_object(raw, object.as_bytes()).unwrap_err().field, "cc");
    assert!(Email::with_object(POINTER, object.as_bytes()).is_ok());
}

#[test]
fn numbers_of_template_data_stay_as_they_were_written() {
    let object = br#"{"template": {"name": "t", "data": {"price": 19.90}}}"#;
    let email = Email::with_object(POINTER, object).unwrap();
    let data = r#"{"price":19.90}"#.to_owned();
    assert_eq!(email.content, Content::Template { name: "t".to_owned(), data });
}

#[test]
fn a_mail_above_what_ses_takes_is_refused() {
    let of = |bytes: usize| {
        let file = json!({ "name": "a.pdf", "content": STANDARD.encode(vec![0; bytes]) });
        let object = json!({ "subject": "Hello", "text": "T", "attachments": [file] }).to_string();
        assert!(object.len() as u64 <= MAX_STORED_BYTES);
        Email::with_object(POINTER, object.as_bytes())
    };
    assert!(of(MAX_MAIL_BYTES / 4 * 3 - 3).is_ok());
    let error = of(MAX_MAIL_BYTES / 4 * 3).unwrap_err();
    assert!(error.to_string().contains("must be at most 41943040 bytes"), "{error}");
}

#[test]
fn a_body_is_split_into_pointer_and_object_without_a_loss() {
    let body = r#"{"to": "ada@example.com", "from": "news@example.org", "metadata": {"run": "r", "row": 1},
        "x_own": 1e3, "template": {"name": "t", "data": {"n": 1.0}}}"#;
    let (pointer, object) = split(body, "abc").unwrap();
    assert_eq!(object.key, "large/abc");
    assert_eq!(object.bytes, br#"{"template":{"name": "t", "data": {"n": 1.0}}}"#);
    assert!(pointer.contains(r#""metadata":{"run": "r", "row": 1}"#), "{pointer}");
    assert!(pointer.contains(r#""x_own":1e3"#), "{pointer}");
    assert_eq!(split("[]", "abc"), None);
}

fn sized(letters: usize, has_store: bool) -> Result<SizedBody, TooLarge> {
    let text = "x".repeat(letters);
    let body = format!(
        r#"{{"to": "ada@example.com", "from": "news@example.org", "subject": "s", "text": "{text}"}}"#
    );
    SizedBody::of(body, "news", "7", has_store, "0a1b")
}

#[test]
fn a_body_is_split_only_if_it_does_not_fit() {
    let small = sized(1_000_000, true).unwrap();
    assert!(small.object.is_none() && small.body.len() > 1_000_000);
    assert!(sized(1_040_000, false).is_err());
    let large = sized(1_040_000, true).unwrap();
    assert!(Email::parse(&large.body).unwrap().stored().is_some());
    assert_eq!(large.object.unwrap().key, "large/0a1b");
}
