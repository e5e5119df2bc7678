//! Tests of each member of the long form, and of the values that errors show.

use tidegate_core::email::{addressed_to, id_of, ses_tag_value};

use super::{long_with, parse, refused, written};

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
    let again = parse(&written::write(&email).unwrap()).unwrap();
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
        format!(
            r#"[{{"name": "a.b", "content": "YQ=="}}, {{"name": "{name}", "content": "{content}"}}]"#
        )
    };
    let long = format!("{}.pdf", "n".repeat(252));
    for name in ["", "../a.b", "a/b.c", "a\\\\b.c", "a\\nb.c", "a\\\"b.c", "a\u{202e}fdp.b", &long]
    {
        refused("attachments", &file(name, "YQ=="), "attachments[1].name", "file name of 1 to 255");
    }
    for content in ["", "*", "YQ", "YQ=", "YQ==\\n", "Y Q=="] {
        let body = long_with("attachments", &file("a.b", content));
        let error = parse(&body).unwrap_err();
        assert_eq!(error.field, "attachments[1].content");
        assert!(error.to_string().contains("must be base64"), "{error}");
        assert!(!error.to_string().contains("not \""), "content is not shown: {error}");
    }
    refused("attachments", r#"[{"name": "a.b"}]"#, "attachments[0].content", "base64");
    refused("attachments", "{}", "attachments", "must be a list of objects");
    refused("attachments", "[7]", "attachments[0]", "must be a JSON object, not 7");
    let kind = r#"[{"name": "a.b", "content": "YQ==", "content_type": "text/plain\r\nX: y"}]"#;
    refused("attachments", kind, "attachments[0].content_type", "like application/pdf");
    // Two of one name are two files; a name is kept in whatever form of Unicode it comes.
    for name in ["Zoë 1.pdf", "a.b", "Résumé – 履歴書 😀.pdf", "U\u{308}bersicht.pdf", "a.tar.gz"]
    {
        let email = parse(&long_with("attachments", &file(name, "AAH/"))).unwrap();
        assert_eq!(email.attachments[1].name, name);
        assert_eq!(email.attachments[1].content, [0, 1, 255]);
        assert_eq!(email.attachments[1].content_type, None);
    }
}

#[test]
fn a_file_that_ses_refuses_by_its_extension_is_refused() {
    let file = |name: &str| format!(r#"[{{"name": "{name}", "content": "YQ=="}}]"#);
    for name in ["setup.exe", "a.pdf.EXE", "a.Js", "a.vbs", "a.ade", "a.xnk", "a.msh2xml", "a.url"]
    {
        refused("attachments", &file(name), "attachments[0].name", "must have another extension");
    }
    for name in ["README", "setup.exe.", "setup.exe ", ".pdf", "Re. your order", "a."] {
        refused("attachments", &file(name), "attachments[0].name", "must have an extension");
    }
    for name in ["a.pdf", "a.exe.zip", "a.jsx", "exe.txt", "..pdf", "a.ics", "a.é"] {
        assert!(parse(&long_with("attachments", &file(name))).is_ok(), "{name}");
    }
}

fn with_image(html: &str, files: &str) -> String {
    let html = serde_json::Value::from(html);
    long_with("attachments", &format!("[{files}], \"html\": {html}"))
}

#[test]
fn an_image_of_the_html_is_an_attachment_with_its_id() {
    let file =
        |id: &str| format!(r#"{{"name": "a.png", "content": "YQ==", "content_id": "{id}"}}"#);
    for html in [
        "<img src=\"cid:logo@x\">",
        "<img src='cid:logo%40x' alt='a cid: b'>",
        "<img src=CID:logo@x>",
        "<p style=\"background:url(cid:logo@x)\">acid:no and cid:no</p>",
    ] {
        let email = parse(&with_image(html, &file("logo@x"))).unwrap();
        let image = &email.attachments[0];
        let shown = (image.content_id.as_deref(), image.disposition.as_deref());
        assert_eq!(shown, (Some("logo@x"), Some("inline")));
        for files in ["", &file("logo"), &file("LOGO@x")] {
            let error = parse(&with_image(html, files)).unwrap_err().to_string();
            assert!(error.starts_with("html: must have an attachment with its"), "{html}: {error}");
        }
    }
    let twice = format!("{}, {}", file("a"), file("a"));
    let error = parse(&with_image("<p>", &twice)).unwrap_err().to_string();
    assert_eq!(error, "attachments: must not have one content_id twice, not \"a\"");
    for id in ["", "<logo>", "a b", "é", &"a".repeat(79)] {
        let field = "attachments[0].content_id";
        refused("attachments", &format!("[{}]", file(id)), field, "must be 1 to 78 letters");
    }
}

#[test]
fn a_disposition_is_inline_or_attachment_and_ses_s_default_without_an_id() {
    let file = |more: &str| format!(r#"[{{"name": "a.png", "content": "YQ=="{more}}}]"#);
    for (more, expected) in [
        ("", None),
        (r#", "disposition": "inline""#, Some("inline")),
        (r#", "content_id": "a""#, Some("inline")),
        (r#", "content_id": "a", "disposition": "attachment""#, Some("attachment")),
    ] {
        let email = parse(&long_with("attachments", &file(more))).unwrap();
        assert_eq!(email.attachments[0].disposition.as_deref(), expected, "{more}");
        assert_eq!(parse(&written::write(&email).unwrap()).unwrap(), email);
    }
    let odd = file(r#", "disposition": "INLINE""#);
    refused("attachments", &odd, "attachments[0].disposition", "must be inline or attachment");
}

#[test]
fn nul_and_overrides_of_direction_are_refused_in_every_text_and_other_marks_are_not() {
    for hidden in ["\\u0000", "\u{202e}", "\\u202e", "\\u202E", "\u{202d}", "\\u202d", "\\u202D"] {
        for field in ["text", "html", "subject", "id"] {
            let body = format!(
                r#"{{"to": "ada@example.com", "from": "a@example.org", "id": "1", "subject": "Hi", "text": "T", "html": "H", "{field}": "a{hidden}b"}}"#
            )
            .replacen(&format!("\"{field}\": "), "\"x_other\": ", 1);
            assert_eq!(parse(&body).unwrap_err().field, field, "{body}");
        }
        let short = format!(
            r#"{{"to_address": "ada@example.com", "from_address": "a@example.org", "subject": "Hi", "body": "{hidden}"}}"#
        );
        let error = parse(&short).unwrap_err();
        assert_eq!(
            error.to_string(),
            "body: must hold neither NUL nor an override of direction (U+202D, U+202E)"
        );
        refused(
            "reply_to",
            &format!("\"A{hidden} <a@example.org>\""),
            "reply_to",
            "the invisible character",
        );
    }
    for text in [
        "\\\\u0000",
        "\\\\u202e",
        "\\u202c\\u2066\\u200f \u{202b}שלום\u{202c} \\u2026",
        "\\t\\n\\u0007",
    ] {
        let html = format!("\"<p>{text}</p>\"");
        assert!(parse(&long_with("html", &html)).is_ok(), "{text}");
    }
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
        assert_eq!(error.field, field, "{error}");
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
        assert_eq!(error.field, name);
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
