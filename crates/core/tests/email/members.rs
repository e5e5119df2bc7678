//! Tests of each member of the long form, and of the values that errors show.

use tidegate_core::email::{addressed_to, id_of, ses_tag_value};

use super::{long_with, parse, refused};

#[test]
fn header_names_and_values_must_not_break_out_or_take_what_is_reserved() {
    for (headers, field, expected) in [
        (r#"{"X-A": "b\r\nBcc: eve@example.com"}"#, "headers.X-A", "no CR or LF"),
        (r#"{"X-A": "b\u0000"}"#, "headers.X-A", "printable ASCII"),
        (r#"{"X-A": "Zoë"}"#, "headers.X-A", "RFC 2047"),
        (r#"{"X-A": ""}"#, "headers.X-A", "1 to 995"),
        (r#"{"X-A": 7}"#, "headers.X-A", "must be a string, not 7"),
        (r#"{"X A": "b"}"#, "headers.?", "not \"X A\""),
        (r#"{"X-A:": "b"}"#, "headers.?", "without colon or space"),
        (r#"{"X-A\r\nBcc": "b"}"#, "headers.?", "printable ASCII"),
        (r#"{"": "b"}"#, "headers.?", "1 to 126"),
        (r#"{"X-A": "b", "x-a": "c"}"#, "headers.x-a", "must not stand twice"),
        ("[]", "headers", "must be a JSON object, not a list"),
    ] {
        refused("headers", headers, field, expected);
    }
    for name in [
        "To",
        "FROM",
        "subject",
        "Bcc",
        "Cc",
        "Content-Type",
        "Sender",
        "Reply-To",
        "Return-Path",
        "Date",
        "Message-ID",
        "MIME-Version",
        "X-SES-CONFIGURATION-SET",
    ] {
        let field = format!("headers.{name}");
        refused("headers", &format!("{{\"{name}\": \"x\"}}"), &field, "sets itself");
    }
    let value = |n: usize| format!("{{\"X-A\": \"{}\"}}", "v".repeat(n));
    assert!(parse(&long_with("headers", &value(993))).is_ok());
    refused("headers", &value(994), "headers.X-A", "at most 996");
    let many = |n: usize| {
        let items: Vec<_> = (0..n).map(|i| format!("\"X-{i}\": \"v\"")).collect();
        format!("{{{}}}", items.join(","))
    };
    assert!(parse(&long_with("headers", &many(15))).is_ok());
    refused("headers", &many(16), "headers", "at most 15");
    // The number is checked before the headers: a body has room for so many that checking them takes
    // seconds.
    let first_is_odd = many(16).replacen("X-0", "X 0", 1);
    refused("headers", &first_is_odd, "headers", "at most 15");
}

#[test]
fn headers_keep_their_order_in_the_json_that_is_written() {
    let email = parse(&long_with("headers", r#"{"X-B": "1", "X-A": "2", "X-C": "3"}"#)).unwrap();
    let again = parse(&email.to_json().unwrap()).unwrap();
    let names: Vec<_> = again.headers().map(|(name, _)| name).collect();
    assert_eq!(names, ["X-B", "X-A", "X-C"]);
}

#[test]
fn list_unsubscribe_is_one_click_over_https_and_owns_its_headers() {
    let email = parse(&long_with("list_unsubscribe", "\"https://example.org/u?a=1\"")).unwrap();
    let headers: Vec<_> = email.headers().collect();
    assert_eq!(
        headers,
        [
            ("List-Unsubscribe", "<https://example.org/u?a=1>"),
            ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
        ]
    );
    for (value, field, expected) in [
        (r#""http://example.org""#, "list_unsubscribe", "must be an https address"),
        (r#""https:///u""#, "list_unsubscribe", "must be an https address"),
        (r#""https://example.org/a b""#, "list_unsubscribe", "without spaces"),
        (r#""https://example.org/>\r\nX: y""#, "list_unsubscribe", "angle brackets"),
        (r#"{"mailto": "mailto:a@b.org"}"#, "list_unsubscribe.url", "https"),
        (r#"{"url": "https://b.org", "mailto": "a@b.org"}"#, "list_unsubscribe.mailto", "mailto:"),
        (r#"{"url": "https://b.org", "mailto": "mailto:b.org"}"#, "list_unsubscribe.mailto", "not"),
        ("7", "list_unsubscribe", "must be a JSON object, not 7"),
    ] {
        refused("list_unsubscribe", value, field, expected);
    }
    let long = format!("\"https://example.org/{}\"", "u".repeat(970));
    refused("list_unsubscribe", &long, "list_unsubscribe", "at most 980");
    let both = r#"{"List-Unsubscribe": "<https://b.org>"}, "list_unsubscribe": "https://b.org""#;
    refused("headers", both, "headers.List-Unsubscribe", "sets itself");
    assert!(parse(&long_with("headers", r#"{"List-Unsubscribe": "<https://b.org>"}"#)).is_ok());
}

#[test]
fn attachments_are_base64_with_a_plain_file_name() {
    let file = |name: &str, content: &str| {
        format!(r#"[{{"name": "a", "content": ""}}, {{"name": "{name}", "content": "{content}"}}]"#)
    };
    for name in ["", "../a", "a/b", "a\\\\b", "a\\nb", "a\\\"b", &"n".repeat(256)] {
        refused("attachments", &file(name, ""), "attachments[1].name", "file name of 1 to 255");
    }
    for content in ["*", "YQ", "YQ=", "YQ==\\n", "Y Q=="] {
        let body = long_with("attachments", &file("a", content));
        let error = parse(&body).unwrap_err();
        assert_eq!(error.field(), "attachments[1].content");
        assert!(error.to_string().contains("must be base64"), "{error}");
        assert!(!error.to_string().contains("not \""), "content is not shown: {error}");
    }
    refused("attachments", r#"[{"name": "a"}]"#, "attachments[0].content", "base64");
    refused("attachments", "{}", "attachments", "must be a list of objects");
    refused("attachments", "[7]", "attachments[0]", "must be a JSON object, not 7");
    let kind = r#"[{"name": "a", "content": "", "content_type": "text/plain\r\nX: y"}]"#;
    refused("attachments", kind, "attachments[0].content_type", "like application/pdf");
    let email = parse(&long_with("attachments", &file("Zoë 1.pdf", "AAH/"))).unwrap();
    assert_eq!(email.attachments()[1].content, [0, 1, 255]);
    assert_eq!(email.attachments()[1].content_type, None);
}

#[test]
fn a_template_stands_alone_with_an_object_of_data() {
    let with = |template: &str, more: &str| {
        parse(&format!(r#"{{"to": "a@b.org", "from": "c@d.org", "template": {template}{more}}}"#))
    };
    assert!(with(r#"{"name": "t"}"#, "").is_ok());
    for (template, more, field, expected) in [
        (r#"{"name": "t", "data": "{}"}"#, "", "template.data", "a JSON object, not a string"),
        (r#"{"name": "t", "data": []}"#, "", "template.data", "a JSON object, not a list"),
        (r#"{"data": {}}"#, "", "template.name", "name of an SES template"),
        (r#"{"name": "a\nb"}"#, "", "template.name", "no control"),
        (r#""t""#, "", "template", "must be a JSON object, not a string"),
        (r#"{"name": "t"}"#, r#", "subject": "s""#, "subject", "must not stand with template"),
        (r#"{"name": "t"}"#, r#", "html": "s""#, "html", "must not stand with template"),
    ] {
        let error = with(template, more).unwrap_err();
        assert_eq!(error.field(), field, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let data = |n: usize| format!(r#"{{"name": "t", "data": {{"a":"{}"}}}}"#, "x".repeat(n));
    assert!(with(&data(262_144 - 8), "").is_ok());
    let error = with(&data(262_144 - 7), "").unwrap_err();
    assert!(error.to_string().contains("at most 262144 bytes"), "{error}");
}

#[test]
fn the_small_members_say_what_they_take() {
    for (name, value, field, expected) in [
        (
            "priority",
            r#""urgent""#,
            "priority",
            "one of critical, high, normal, low, not \"urgent\"",
        ),
        ("priority", "1", "priority", "must be a string, not 1"),
        ("id", r#""""#, "id", "1 to 256 characters"),
        ("id", r#""a\nb""#, "id", "no control characters"),
        ("id", "7", "id", "must be a string, not 7"),
        ("subject", r#""a\r\nBcc: b""#, "subject", "must not hold CR, LF"),
        ("subject", "true", "subject", "must be a string, not true"),
        ("configuration_set", r#""a b""#, "configuration_set", "letters, digits"),
        ("configuration_set", r#""""#, "configuration_set", "1 to 64"),
        ("tags", r#"{"a b": "c"}"#, "tags.?", "letters, digits"),
        ("tags", r#"{"a": "c d"}"#, "tags.a", "letters, digits, _ and -, not \"c d\""),
        ("tags", r#"{"a": ""}"#, "tags.a", "1 to 256"),
        ("tags", r#"{"a": 1}"#, "tags.a", "must be a string, not 1"),
        ("tags", r#"{"tidegate_id": "c"}"#, "tags.tidegate_id", "must not begin with tidegate_"),
        ("tags", r#"{"Tidegate_x": "c"}"#, "tags.Tidegate_x", "must not begin with tidegate_"),
        ("tags", r#"["a"]"#, "tags", "must be a JSON object, not a list"),
    ] {
        refused(name, value, field, expected);
    }
    let id = |n: usize| format!("\"{}\"", "é".repeat(n));
    assert!(parse(&long_with("id", &id(256))).is_ok());
    refused("id", &id(257), "id", "1 to 256 characters");
    let tags = |n: usize| {
        let items: Vec<_> = (0..n).map(|i| format!("\"t{i}\": \"v\"")).collect();
        format!("{{{}}}", items.join(","))
    };
    assert!(parse(&long_with("tags", &tags(48))).is_ok());
    refused("tags", &tags(49), "tags", "at most 48");
}

#[test]
fn an_error_shows_at_most_sixty_characters_of_the_value_and_redacted_none() {
    let secret = format!("ada.lovelace {}", "x".repeat(500));
    let error = parse(&long_with("to", &format!("\"{secret}\""))).unwrap_err();
    assert!(error.to_string().contains("ada.lovelace") && error.to_string().len() < 200, "{error}");
    assert!(!error.redacted().contains("lovelace"), "{}", error.redacted());
    assert!(error.redacted().starts_with("to: must be one address"));
    // A producer's member names may be addresses too.
    for body in [
        r#"{"ada@example.com": 1}"#.to_owned(),
        r#"{"x_a": {"ada@example.com": 1, "ada@example.com": 2}}"#.to_owned(),
        long_with("tags", r#"{"ada@example.com": "b"}"#),
        long_with("headers", r#"{"ada@example.com ": "b"}"#),
    ] {
        let error = parse(&body).unwrap_err();
        assert!(error.to_string().contains("ada@example.com"), "{error}");
        assert!(!error.redacted().contains("ada@"), "{}", error.redacted());
    }
}

#[test]
fn content_never_stands_in_an_error() {
    for (name, value) in [("text", r#"["dear diary"]"#), ("html", r#"{"dear": "diary"}"#)] {
        let error = parse(&long_with(name, value)).unwrap_err();
        assert_eq!(error.field(), name);
        assert!(!error.to_string().contains("diary"), "{error}");
    }
}

#[test]
fn the_dead_letter_of_a_refused_body_still_says_to_whom_it_was() {
    assert_eq!(addressed_to(r#"{"to_address": "a@b.org", "tempalte": 1}"#), ["a@b.org"]);
    assert_eq!(addressed_to(r#"{"to": ["a@b.org", 7, "c"], "subject": 1}"#), ["a@b.org", "c"]);
    assert_eq!(addressed_to(r#"{"to": "a@b.org", "cc": ["#), ["a@b.org"]);
    assert!(addressed_to("not json").is_empty() && addressed_to("[]").is_empty());
}

#[test]
fn the_id_of_a_refused_body_is_read_wherever_it_can_be() {
    let long = |n| format!(r#"{{"id": "{}", "tempalte": 1}}"#, "é".repeat(n));
    for (body, id) in [
        (r#"{"id": "7", "tempalte": 1}"#, Some("7")),
        (r#"{"to": 7, "text": ["a", {"id": "8"}], "id": "7"}"#, Some("7")),
        (r#"{"subject": "half a pair: \ud83d", "id": "7"}"#, Some("7")),
        (r#"{"id": "7", "subject": "cut o"#, Some("7")),
        (r#"{"id": "7"} {"id": "8"}"#, Some("7")),
        (r#"{"id": "\u0037"}"#, Some("7")),
        (long(256).as_str(), Some("é".repeat(256).as_str())),
        // It is no id, or nobody knows which of them is meant.
        (long(257).as_str(), None),
        (r#"{"id": ""}"#, None),
        (r#"{"id": 7}"#, None),
        (r#"{"id": null}"#, None),
        (r#"{"id": ["7"]}"#, None),
        (r#"{"id": "a\nb"}"#, None),
        (r#"{"id": "\ud83d"}"#, None),
        (r#"{"id": "7", "id": "7"}"#, None),
        (r#"{"metadata": {"id": "7"}}"#, None),
        (r#"{"subject": cut, "id": "7"}"#, None),
        (r#"[{"id": "7"}]"#, None),
        (r#""id""#, None),
        ("", None),
    ] {
        assert!(parse(body).is_err(), "{body}");
        assert_eq!(id_of(body).as_deref(), id, "{body}");
    }
}

#[test]
fn a_tag_value_is_legal_and_tells_texts_apart() {
    assert_eq!(ses_tag_value("spring-2026_a"), "spring-2026_a");
    assert_ne!(ses_tag_value("a b"), ses_tag_value("a/b"));
    assert_ne!(ses_tag_value(&"é".repeat(300)), ses_tag_value(&"é".repeat(301)));
    assert_eq!(ses_tag_value(&"a".repeat(257)).len(), 256);
    assert_eq!(ses_tag_value("").len(), 17);
}
