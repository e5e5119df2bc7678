//! Tests of the short and the long form: their common members, and unknown members.

use tidegate_core::email::{Content, EmailErrorKind, Priority};

use super::{long_with, parse, refused};

#[test]
fn the_short_form_in_events_is_a_mail() {
    let email = parse(include_str!("../../../../events/message_short.json")).unwrap();
    assert_eq!(email.to[0].addr_spec(), "ada@example.com");
    assert_eq!(email.from.addr_spec(), "news@example.org");
    let text = Some("Text.".into());
    let expected = Content::Simple { subject: "Hello".to_owned(), text, html: None };
    assert_eq!(&email.content, &expected);
    assert_eq!(
        (email.recipients(), email.id.as_deref(), email.priority),
        (1, None, Priority::Normal)
    );
}

#[test]
fn the_long_form_in_events_is_a_mail_with_all_its_members() {
    let email = parse(include_str!("../../../../events/message_long.json")).unwrap();
    assert_eq!(email.id.as_deref(), Some("order-2026-11-20/7"));
    assert_eq!((email.priority, email.recipients()), (Priority::High, 4));
    assert_eq!(email.to[1].name(), Some("Hopper, Grace"));
    assert_eq!(email.to[1].header_value(), "\"Hopper, Grace\" <grace@example.com>");
    assert_eq!(email.cc[0].addr_spec(), "alan@example.net");
    assert_eq!(email.bcc[0].domain(), "example.org");
    assert_eq!(email.reply_to[0].header_value(), "=?UTF-8?B?Wm/Dqw==?= <zoe@example.org>");
    assert_eq!(email.configuration_set.as_deref(), Some("news"));
    assert_eq!(email.attachments[0].content, b"Thank you.\n");
    let text = parse(&long_with("text", r#""Text.""#)).unwrap();
    let html = parse(&long_with("html", r#""<p>Text.</p>""#)).unwrap();
    assert_eq!(html.content_bytes() - text.content_bytes(), r#""<p>Text.</p>""#.len());
    assert_eq!(email.attachments[0].content_type.as_deref(), Some("text/plain"));
    assert_eq!(email.tags["shop"], "de-1");
    let headers: Vec<_> = email.headers().collect();
    assert_eq!(headers[0], ("X-Order", "7"));
    let unsubscribe = "<https://example.org/unsubscribe?t=c2VjcmV0>, \
                       <mailto:unsubscribe@example.org?subject=unsubscribe>";
    assert_eq!(headers[2], ("List-Unsubscribe", unsubscribe));
    assert_eq!(headers[3], ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"));
}

#[test]
fn the_template_in_events_keeps_its_data_as_written() {
    let email = parse(include_str!("../../../../events/message_template.json")).unwrap();
    let data = r#"{"name":"Ada","price":19.90,"items":["book","pen"]}"#.to_owned();
    assert_eq!(&email.content, &Content::Template { name: "welcome".to_owned(), data });
}

#[test]
fn template_data_keeps_the_white_space_and_escapes_within_its_strings() {
    let data = r#"{ "a b" : "x \" y\\" ,"n":[ 1.50 , 1e30,12345678901234567890123 ] }"#;
    let body = format!(
        r#"{{"to": "a@b.org", "from": "c@d.org", "template": {{"name": "t", "data": {data}}}}}"#
    );
    let email = parse(&body).unwrap();
    let Content::Template { data, .. } = &email.content else { panic!("{email:?}") };
    assert_eq!(data, r#"{"a b":"x \" y\\","n":[1.50,1e30,12345678901234567890123]}"#);
}

#[test]
fn both_forms_may_hold_id_priority_tags_and_what_is_ignored() {
    let body = r#"{"to_address": "a@b.org", "from_address": "c@d.org", "subject": "s", "body": "t",
        "id": "7", "priority": "critical", "tags": {"a": "b"}, "metadata": [1], "x_y": {"z": null}}"#;
    let email = parse(body).unwrap();
    assert_eq!((email.id.as_deref(), email.priority), (Some("7"), Priority::Critical));
    assert_eq!(email.tags["a"], "b");
}

#[test]
fn a_body_that_is_no_json_names_line_and_column() {
    let error = parse("{\n  \"to\": \"a@b.org\",,\n}").unwrap_err();
    assert_eq!((error.kind, error.field.as_str()), (EmailErrorKind::NotJson, "body"));
    assert!(error.to_string().contains("line 2 column 19"), "{error}");
    for (body, found) in [("[]", "not a list"), ("null", "not null"), ("7", "not 7")] {
        let error = parse(body).unwrap_err();
        assert_eq!(error.kind, EmailErrorKind::NotJson);
        assert!(error.to_string().ends_with(found), "{error}");
    }
    for body in ["", "{", "{}x", "\u{feff}{}", "{\"a\": \"\u{1}\"}", r#"{"a": "\ud800"}"#] {
        assert_eq!(parse(body).unwrap_err().kind, EmailErrorKind::NotJson, "{body}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(parse(&deep).unwrap_err().kind, EmailErrorKind::NotJson);
}

#[test]
fn an_unknown_member_is_refused_with_what_was_meant() {
    for (name, value, field, hint) in [
        ("tempalte", r#"{"name": "t"}"#, "tempalte", "did you mean \"template\"?"),
        ("Subject", r#""s""#, "Subject", "did you mean \"subject\"?"),
        ("colour", r#""red""#, "colour", "known: to_address"),
        ("xy", "1", "xy", "ignored: metadata, x_…"),
    ] {
        refused(name, value, field, hint);
        let error = parse(&long_with(name, value)).unwrap_err();
        assert_eq!(error.kind, EmailErrorKind::UnknownMember);
    }
    assert!(!parse(&long_with("colour", "1")).unwrap_err().to_string().contains("mean"));
    let file = r#"[{"name": "a", "content": "", "contnet": ""}]"#;
    refused("attachments", file, "attachments[0].contnet", "did you mean \"content\"?");
    refused("list_unsubscribe", r#"{"uri": "x"}"#, "list_unsubscribe.uri", "mean \"url\"");
    let body = r#"{"to": "a@b.org", "from": "c@d.org", "template": {"nmae": "t"}}"#;
    let error = parse(body).unwrap_err();
    assert_eq!(error.field, "template.nmae");
    assert!(error.to_string().contains("did you mean \"name\"?"), "{error}");
}

#[test]
fn a_member_that_stands_twice_is_refused_at_any_depth() {
    for (body, field) in [
        (r#"{"to": "a@b.org", "to": "c@d.org"}"#, "to"),
        (r#"{"x_a": 1, "x_a": 2}"#, "x_a"),
        (r#"{"template": {"data": {"n": [{"a": 1, "a": 2}]}}}"#, "template.data.n[0].a"),
        (r#"{"headers": {"X-A": "1", "X-A": "2"}}"#, "headers.X-A"),
        (r#"{"attachments": [{}, {"name": "a", "name": "b"}]}"#, "attachments[1].name"),
    ] {
        let error = parse(body).unwrap_err();
        assert_eq!((error.kind, error.field.as_str()), (EmailErrorKind::DuplicateMember, field));
    }
}

#[test]
fn both_forms_together_are_refused_with_a_member_of_each() {
    let body = r#"{"to_address": "a@b.org", "cc": "c@d.org", "subject": "s", "body": "t"}"#;
    let error = parse(body).unwrap_err();
    assert_eq!((error.kind, error.field.as_str()), (EmailErrorKind::MixedForms, "to_address"));
    assert!(error.to_string().contains("cc"), "{error}");
    // A null counts as absent, because serialisers write it for every unset field.
    let body = r#"{"to_address": "a@b.org", "from_address": "c@d.org", "subject": "s", "body": "t",
        "cc": null, "id": null, "tags": null, "template": null}"#;
    assert!(parse(body).is_ok());
}

#[test]
fn what_is_missing_is_named_with_what_is_needed() {
    for (body, field, expected) in [
        ("{}", "to", "to_address"),
        (r#"{"to": "a@b.org"}"#, "from", "one address"),
        (r#"{"to": "a@b.org", "from": "c@d.org"}"#, "subject", "text and html"),
        (r#"{"to": "a@b.org", "from": "c@d.org", "subject": ""}"#, "subject", "SES needs"),
        (r#"{"to": "a@b.org", "from": "c@d.org", "subject": "s"}"#, "text", "text and html"),
        (r#"{"to": "a@b.org", "from": "c@d.org", "subject": "s", "html": ""}"#, "text", "html"),
        (r#"{"to_address": "a@b.org", "subject": "s"}"#, "from_address", "one address"),
        (r#"{"from_address": "a@b.org", "body": "s"}"#, "to_address", "one address"),
        (r#"{"to_address": "a@b.org", "from_address": "c@d.org", "subject": "s"}"#, "body", "SES"),
        (r#"{"to_address": "a@b.org", "from_address": "c@d.org", "body": "s"}"#, "subject", "SES"),
    ] {
        let error = parse(body).unwrap_err();
        assert_eq!((error.kind, error.field.as_str()), (EmailErrorKind::Missing, field), "{body}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_mail_has_one_to_fifty_recipients_over_to_cc_and_bcc() {
    let list = |n: usize| {
        let items: Vec<_> = (0..n).map(|i| format!("\"a{i}@b.org\"")).collect();
        format!("[{}]", items.join(","))
    };
    let fifty = long_with("bcc", &list(49));
    assert_eq!(parse(&fifty).unwrap().recipients(), 50);
    let error = parse(&long_with("cc", &list(50))).unwrap_err();
    assert_eq!(error.field, "to");
    assert!(error.to_string().ends_with("counted over to, cc and bcc, not 51"), "{error}");
    let only_bcc =
        parse(&long_with("to", "[]").replace("\"text\"", "\"bcc\": \"x@y.org\", \"text\""));
    assert_eq!(only_bcc.unwrap().recipients(), 1);
    refused("to", "[]", "to", "1 to 50 recipients");
}

#[test]
fn an_escape_that_is_half_a_character_is_no_text() {
    let body = |text: &str| {
        format!(
            r#"{{"to_address":"ada@example.com","from_address":"news@example.org","subject":"s","body":{text}}}"#
        )
    };
    for half in [r#""\ud83d""#, r#""\uDE00 later""#, r#""\ud83d\u0041""#] {
        let error = parse(&body(half)).unwrap_err();
        assert_eq!(error.kind, EmailErrorKind::NotJson, "{half}");
    }
    for (literal, text) in [(r#""\ud83d\ude00""#, "\u{1f600}"), (r#""\\ud83d""#, r"\ud83d")] {
        let email = parse(&body(literal)).unwrap();
        let Content::Simple { text: Some(found), .. } = &email.content else { panic!("{literal}") };
        assert_eq!((found.literal(), found.decode()), (literal, text.to_owned()));
    }
}
