//! Properties of every message: writing and reading gives the same mail, and no text makes the parser
//! panic.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tidegate_core::email::{
    Address, AllowedSenders, Content, Email, TextLiteral, addressed_to, id_of, ses_tag_value, split,
};

use super::written;

fn addresses() -> impl Strategy<Value = String> {
    let spec = "[a-z0-9!#$%&'*+/=?^_`{|}~-]{1,12}(\\.[a-z0-9]{1,5})?@[a-z0-9]{1,8}\\.(org|example)";
    let bare = "[A-Za-z0-9 ]{0,12}|[a-zé中 ]{1,40}";
    let quoted = "[A-Za-z ,.<>@()é;:-]{1,20}";
    prop_oneof![
        spec.prop_map(|spec| spec),
        (bare, spec).prop_map(|(name, spec)| format!("{name} <{spec}>")),
        (quoted, spec).prop_map(|(name, spec)| format!("\"{name}\\\"\\\\\" <{spec}>")),
    ]
}

/// A single string or a list of strings.
fn address_list(max: usize) -> impl Strategy<Value = Value> {
    prop_oneof![
        addresses().prop_map(Value::from),
        proptest::collection::vec(addresses(), 0..max).prop_map(Value::from),
    ]
}

fn content() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let text = "(\\PC|\n){1,40}";
    prop_oneof![
        ("\\PC{1,30}", text, text, 0..3).prop_map(|(subject, text, html, which)| {
            let mut members = vec![("subject", subject.into())];
            if which != 1 {
                members.push(("text", text.into()));
            }
            if which != 0 {
                members.push(("html", html.into()));
            }
            members
        }),
        ("[A-Za-z0-9_-]{1,20}", any_object())
            .prop_map(|(name, data)| vec![("template", json!({"name": name, "data": data}))]),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map(any::<String>(), any_json(), 0..4)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

fn extras() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let headers = proptest::collection::btree_map("X-[A-Z]{1,8}", "[ -~]{1,40}", 0..5);
    let tags =
        proptest::collection::btree_map("[a-s][A-Za-z0-9_-]{0,9}", "[A-Za-z0-9_-]{1,9}", 0..5);
    let file = ("[A-Za-zé0-9 .]{1,20}[.]pdf", proptest::collection::vec(any::<u8>(), 1..60));
    let files = proptest::collection::vec(file, 0..3).prop_map(|files| {
        use base64::Engine as _;
        let encode = |bytes| base64::engine::general_purpose::STANDARD.encode(bytes);
        let file =
            |(name, bytes)| json!({"name": name, "content": encode(bytes), "content_type": "a/b"});
        Value::from(files.into_iter().map(file).collect::<Vec<_>>())
    });
    let members = (
        headers.prop_map(|m| json!(m)),
        tags.prop_map(|m| json!(m)),
        files,
        "\\PC{1,64}".prop_map(Value::from),
        proptest::sample::select(vec!["critical", "high", "normal", "low"]).prop_map(Value::from),
        "https://[a-z]{1,9}/[a-z?=&]{0,20}".prop_map(Value::from),
    );
    (members, any::<u8>()).prop_map(|((headers, tags, files, id, priority, unsubscribe), used)| {
        [
            ("headers", headers),
            ("tags", tags),
            ("attachments", files),
            ("id", id),
            ("priority", priority),
            ("list_unsubscribe", unsubscribe),
        ]
        .into_iter()
        .enumerate()
        .filter(|(bit, _)| used & (1 << bit) != 0)
        .map(|(_, member)| member)
        .collect()
    })
}

prop_compose! {
    fn long_forms()(
        from in addresses(),
        first in addresses(),
        cc in address_list(20),
        bcc in address_list(20),
        reply_to in address_list(4),
        content in content(),
        extras in extras(),
    ) -> String {
        let mut members = Map::new();
        members.insert("from".to_owned(), from.into());
        members.insert("to".to_owned(), first.into());
        let lists = [("cc", cc), ("bcc", bcc), ("reply_to", reply_to)];
        for (name, value) in lists.into_iter().chain(content).chain(extras) {
            members.insert(name.to_owned(), value);
        }
        Value::Object(members).to_string()
    }
}

prop_compose! {
    fn short_forms()(
        (to, from) in (addresses(), addresses()),
        (subject, body) in ("\\PC{1,30}", "(\\PC|\n){1,60}"),
        id in proptest::option::of("\\PC{1,256}"),
    ) -> String {
        json!({"to_address": to, "from_address": from, "subject": subject, "body": body, "id": id})
            .to_string()
    }
}

proptest! {
    /// A text stays as it was written in JSON, whatever of it the producer escapes, and says the same.
    #[test]
    fn a_long_text_says_what_its_json_says(text in "(\\PC|[\"\\\\\n\t\u{7}\u{2028}😀]){1,40}") {
        let all: Vec<String> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        for literal in [serde_json::to_string(&text).unwrap(), format!("\"{}\"", all.concat())] {
            let body = format!(
                r#"{{"from":"a@example.org","to":"b@example.com","subject":"s","html":{literal}}}"#
            );
            let email = Email::parse(&body).unwrap();
            let Content::Simple { html: Some(html), .. } = &email.content else { panic!("{body}") };
            prop_assert_eq!((html.literal(), html.decode()), (literal.as_str(), text.clone()));
            prop_assert_eq!(html, &TextLiteral::from(text.as_str()));
        }
    }

    #[test]
    fn a_pointer_with_its_object_is_the_mail_of_the_whole_body(body in long_forms()) {
        let (text, object) = split(&body, "abc").unwrap();
        let (whole, pointer) = (Email::parse(&body).unwrap(), Email::parse(&text).unwrap());
        let stored = pointer.stored().unwrap();
        prop_assert_eq!((stored.key(), stored.bytes), (object.key, object.bytes.len() as u64));
        let found = (&pointer.id, pointer.priority, &pointer.from, pointer.recipients());
        prop_assert_eq!(found, (&whole.id, whole.priority, &whole.from, whole.recipients()));
        prop_assert_eq!(Email::with_object(&text, &object.bytes).unwrap(), whole);
    }

    #[test]
    fn no_object_makes_it_panic(object in any::<Vec<u8>>(), text in "[{}\\[\\]\",:a-z]{0,40}") {
        let pointer = r#"{"to":"a@b.cc","from":"a@b.cc","stored":{"name":"a","bytes":1}}"#;
        prop_assert!(Email::with_object(pointer, &object).is_err());
        let _ = Email::with_object(pointer, text.as_bytes());
    }

    #[test]
    fn a_mail_written_as_json_reads_back_the_same(
        body in prop_oneof![long_forms(), short_forms()],
    ) {
        let email = Email::parse(&body).map_err(|e| TestCaseError::fail(format!("{e}: {body}")))?;
        let id = id_of(&body);
        prop_assert_eq!(id.as_deref(), email.id.as_deref());
        let json = written::write(&email).unwrap();
        let again = Email::parse(&json);
        prop_assert_eq!(again.as_ref(), Ok(&email), "{}", json);
        prop_assert_eq!(written::write(&again.unwrap()).unwrap(), json);
        prop_assert!((1..=50).contains(&email.recipients()));
        for (name, value) in email.headers() {
            prop_assert!(name.bytes().chain(value.bytes()).all(|b| (b' '..=b'~').contains(&b)));
        }
    }

    #[test]
    fn template_data_means_what_its_author_wrote(data in any_object()) {
        let template = json!({"name": "t", "data": data});
        let body = json!({"to": "a@b.org", "from": "c@d.org", "template": template});
        let pretty = serde_json::to_string_pretty(&body).unwrap();
        let email = Email::parse(&pretty).unwrap();
        let tidegate_core::email::Content::Template { data: written, .. } = &email.content else {
            return Err(TestCaseError::fail("no template"));
        };
        prop_assert_eq!(written, &data.to_string());
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = Email::parse(&text);
        let _ = Address::parse(&text);
        let _ = (addressed_to(&text), id_of(&text));
        let _ = text.parse::<AllowedSenders>();
    }

    #[test]
    fn no_json_makes_the_parser_panic_and_every_error_names_a_field(
        members in proptest::collection::vec((member_names(), any_json()), 0..6),
    ) {
        let members: Vec<_> = members
            .iter()
            .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
            .collect();
        let body = format!("{{{}}}", members.join(","));
        let _ = (addressed_to(&body), id_of(&body));
        if let Err(error) = Email::parse(&body) {
            prop_assert!(!error.field.is_empty());
            prop_assert!(error.to_string().starts_with(error.redacted().as_str()));
        }
    }

    #[test]
    fn a_mangled_mail_is_refused_or_read_but_never_panics(
        body in long_forms(), at in any::<proptest::sample::Index>(), with in any::<char>(),
    ) {
        let mut chars: Vec<char> = body.chars().collect();
        let at = at.index(chars.len());
        chars[at] = with;
        let body: String = chars.into_iter().collect();
        if let Ok(email) = Email::parse(&body) {
            prop_assert_eq!(Email::parse(&written::write(&email).unwrap()), Ok(email));
        }
    }

    #[test]
    fn an_address_reads_back_and_its_header_is_ascii_without_line_breaks(text in addresses()) {
        let address = Address::parse(&text).map_err(|e| TestCaseError::fail(format!("{e}: {text}")))?;
        prop_assert_eq!(Address::parse(&address.to_string()), Ok(address.clone()));
        let header = address.header_value();
        prop_assert!(header.bytes().all(|b| (b' '..=b'~').contains(&b)), "{}", header);
        prop_assert!(header.len() <= 320);
    }

    #[test]
    fn every_text_has_a_tag_value_that_ses_takes(text in any::<String>()) {
        let value = ses_tag_value(&text);
        prop_assert!((1..=256).contains(&value.len()));
        prop_assert!(value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
        prop_assert_eq!(value == text, ses_tag_value(&value) == text);
    }
}

fn member_names() -> impl Strategy<Value = String> {
    let known = [
        "to",
        "cc",
        "bcc",
        "from",
        "reply_to",
        "subject",
        "text",
        "html",
        "template",
        "headers",
        "attachments",
        "configuration_set",
        "list_unsubscribe",
        "id",
        "priority",
        "tags",
        "to_address",
        "from_address",
        "body",
        "metadata",
    ];
    prop_oneof![
        4 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}
