//! Tests of the raw form: a whole MIME message with its envelope.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use tidegate_core::compression::{compress, decompress};
use tidegate_core::email::{
    AllowedSenders, Email, EmailError, EmailErrorKind, header_fields, without_fields,
};

use super::{parse, written};

fn body(mime: &[u8]) -> Value {
    json!({ "from": "news@example.org", "to": "ada@example.com", "raw": STANDARD.encode(mime) })
}

fn read(mime: impl AsRef<[u8]>) -> Result<Email, EmailError> {
    parse(&body(mime.as_ref()).to_string())
}

fn mime_of(email: &Email) -> Vec<u8> {
    STANDARD.decode(email.raw().unwrap().base64()).unwrap()
}

#[test]
fn the_raw_form_in_events_is_a_mail_whose_base64_stays_as_it_is() {
    let text = include_str!("../../../../events/message_raw.json");
    let email = parse(text).unwrap();
    assert_eq!((email.recipients(), email.id.as_deref()), (2, Some("raw-4711")));
    assert_eq!(email.to[1].header_value(), "Grace <grace@example.com>");
    assert_eq!((email.from.addr_spec(), email.headers().count()), ("news@example.org", 0));
    let raw = serde_json::from_str::<Value>(text).unwrap()["raw"].take();
    assert_eq!(email.raw().unwrap().base64(), raw);
    // As PHP writes it.
    let escaped = text.replace('/', "\\/");
    assert_eq!(parse(&escaped), Ok(email));
}

#[test]
fn nothing_that_the_message_says_itself_stands_beside_it() {
    for (name, value) in [
        ("cc", json!("a@example.com")),
        ("bcc", json!([])),
        ("reply_to", json!("a@example.com")),
        ("subject", json!("s")),
        ("text", json!("t")),
        ("html", json!("h")),
        ("template", json!({ "name": "t" })),
        ("headers", json!({})),
        ("attachments", json!([])),
        ("list_unsubscribe", json!("https://example.org")),
    ] {
        let mut body = body(b"From: news@example.org\n\n");
        body[name] = value;
        let error = parse(&body.to_string()).unwrap_err();
        assert_eq!((error.kind, error.field.as_str()), (EmailErrorKind::Invalid, name));
        assert!(error.problem.contains("must not stand with raw"), "{error}");
        body[name] = Value::Null;
        assert!(parse(&body.to_string()).is_ok());
    }
    let mut all = body(b"From: news@example.org\n\n");
    for (name, value) in [
        ("id", json!("7")),
        ("priority", json!("high")),
        ("tags", json!({ "a": "b" })),
        ("configuration_set", json!("news")),
        ("metadata", json!(1)),
        ("x_own", json!(2)),
    ] {
        all[name] = value;
    }
    let email = parse(&all.to_string()).unwrap();
    assert_eq!(
        (email.id.as_deref(), email.configuration_set.as_deref()),
        (Some("7"), Some("news"))
    );
    all["to_address"] = json!("ada@example.com");
    assert_eq!(parse(&all.to_string()).unwrap_err().kind, EmailErrorKind::MixedForms);
    let mut none = body(b"From: news@example.org\n\n");
    none["to"] = json!([]);
    assert_eq!(parse(&none.to_string()).unwrap_err().field, "to");
    none["to"] = json!(vec!["ada@example.com"; 51]);
    assert!(parse(&none.to_string()).unwrap_err().to_string().ends_with("not 51"));
}

#[test]
fn what_programs_read_in_different_ways_is_refused_with_its_line() {
    let long =
        |length: usize| ["From: a@example.org\r\n\r\n", &"x".repeat(length), "\r\n"].concat();
    assert!(read(long(998)).is_ok());
    for (mime, said) in [
        (&*long(999), "line 3 has 999 bytes: SES takes at most 998"),
        ("From: a@example.org\n\na\0", "line 3 has a NUL"),
        ("From: a@example.org\nX: a\rFrom: b@example.org\n\n", "line 2 has a CR without LF"),
        ("From: a@example.org\n\nText.\r", "line 3 has a CR without LF"),
        ("From: a@example.org\n\nText.\r\r\n", "line 3 has a CR without LF"),
        ("From: a@example.org\r\n\nFrom: b@example.org\r\n\r\n", "line 2 ends otherwise"),
        ("From: a@example.org\nX: a\r\n\r\n", "line 2 ends otherwise"),
        (" From: a@example.org\n\n", "line 1 is no header field"),
        ("From a@example.org Sat Nov 28 00:00:00\nFrom: a@example.org\n\n", "line 1 is no header"),
        ("From: a@example.org\nBcc : b@example.org\n\n", "line 2 is no header field"),
        ("From: a@example.org\nGr\u{fc}n: b\n\n", "line 2 is no header field"),
        ("From: a@example.org\n: b\n\n", "line 2 is no header field"),
        ("From: a@example.org\nSubject: a\n \t \n\n", "line 3 is no header field"),
        ("From: a@example.org\r\nTo: b@example.org\r\n", "with a blank line between"),
        ("From: a@example.org", "with a blank line between"),
        ("", "with a blank line between"),
        ("From: a@example.org\nx-Ses-Tenant: b\n\n", "must not have header fields X-SES-…"),
    ] {
        let error = read(mime).unwrap_err();
        assert_eq!((error.kind, error.field.as_str()), (EmailErrorKind::Invalid, "raw"));
        assert!(error.problem.contains(said), "{error} of {mime:?}");
    }
    let mut unpadded = body(b"From: a@example.org\n\n");
    unpadded["raw"] = json!("RnJvbTogYQ");
    let error = parse(&unpadded.to_string()).unwrap_err();
    assert!(error.to_string().starts_with("raw: must be base64"), "{error}");
    unpadded["raw"] = json!(["From: a@example.org"]);
    assert!(parse(&unpadded.to_string()).unwrap_err().to_string().contains("must be a string"));
}

#[test]
fn a_header_has_one_sender_which_is_an_address_that_ses_takes() {
    for (from, said) in [
        ("Subject: a", "one header field From, with one address"),
        ("From: a@example.org\nFROM: a@example.org", "one header field From, with one address"),
        ("From: a@example.org, b@example.org", "one header field From, with one address"),
        ("From: all: a@example.org;", "one header field From, with one address"),
        ("From:", "one header field From, with one address"),
        ("From: News", "header field From"),
        ("From: <a@example.org> <b@example.org>", "(header field From)"),
        ("From: <a@example.org> b@example.org", "(header field From)"),
        ("From: root", "(header field From)"),
        ("From: a@ex\u{e4}mple.org", "punycode"),
        ("From: a@example.org\nSender: b@example.org, c@example.org", "one header field Sender"),
        ("From: a@example.org\nSender: b", "(header field Sender)"),
    ] {
        let error = read(format!("{from}\n\n")).unwrap_err();
        assert!(error.field == "raw" && error.to_string().contains(said), "{from}: {error}");
    }
    for from in [
        "From: a@example.org",
        "from:News <a@example.org>",
        "From: \"b@example.net, c\" <a@example.org>",
        "From: =?UTF-8?B?Wm/Dqw==?=\n =?UTF-8?Q?_b=40example.net?= <a@example.org>",
        "From: a@example.org (b@example.net)",
        "From: Zo\u{eb}\n\t<a@example.org>",
        "From: b@example.net <a@example.org>",
    ] {
        let email = read(format!("{from}\n\n")).unwrap();
        let only: AllowedSenders = "a@example.org, news@example.org".parse().unwrap();
        assert!(only.admit(email.clone()).is_ok(), "{from}");
        let other: AllowedSenders = "example.net, news@example.org".parse().unwrap();
        assert_eq!(other.admit(email).unwrap_err().kind, EmailErrorKind::SenderNotAllowed);
    }
}

#[test]
fn the_list_of_senders_holds_for_the_envelope_and_for_every_sender_in_the_header() {
    let mime = "From: a@one.example\nSender: b@two.example\nResent-From: c@three.example\n\n";
    let email = read(mime).unwrap();
    let all = "example.org, one.example, two.example, three.example";
    let allowed = |list: &str| list.parse::<AllowedSenders>().unwrap().admit(email.clone());
    assert_eq!(allowed(all), Ok(email.clone()));
    for (missing, field, said) in [
        ("example.org, ", "from", "must be a sender"),
        ("one.example, ", "raw", "a From in its header"),
        ("two.example, ", "raw", "a Sender in its header"),
        (", three.example", "raw", "a Resent-From in its header"),
    ] {
        let error = allowed(&all.replacen(missing, "", 1)).unwrap_err();
        assert_eq!((error.kind, &*error.field), (EmailErrorKind::SenderNotAllowed, field));
        assert!(error.problem.contains(said) && !error.redacted().contains('@'), "{error}");
    }
    // The envelope's sender gets the list's spelling; the message stays as it is.
    let admitted = allowed(&all.replace("example.org", "News@Example.org")).unwrap();
    assert_eq!(admitted.from.addr_spec(), "News@Example.org");
    assert_eq!(admitted.content, email.content);
}

#[test]
fn a_large_text_crosses_in_the_compressed_form() {
    let lines = (0..16_000)
        .map(|n| format!("Line {n} of the newsletter, which tells of this and that.\r\n"));
    let mime =
        ["From: news@example.org\r\n\r\n".to_owned()].into_iter().chain(lines).collect::<String>();
    let body = body(&mime.as_bytes()[..675_000]).to_string();
    assert!(body.len() > 900_000);
    let compressed = compress(&body).unwrap();
    assert!(compressed.len() < body.len() * 3 / 4, "{} bytes", compressed.len());
    let email = parse(&decompress(&compressed).unwrap().unwrap()).unwrap();
    assert_eq!(mime_of(&email), &mime.as_bytes()[..675_000]);
}

/// A field with its lines, the last without its end.
fn field() -> impl Strategy<Value = (bool, Vec<String>)> {
    let names = vec![
        ("Bcc", true),
        ("bCC", true),
        ("Resent-Bcc", true),
        ("X-Tidegate-Campaign", true),
        ("x-tidegate-", true),
        ("Bcc-Count", false),
        ("X-Tidegate", false),
        ("X-Bcc", false),
        ("Subject", false),
        ("To", false),
    ];
    let folded = proptest::collection::vec("[ \t][ -~]{0,5}[!-~]{1,9}", 0..3);
    (select(names), "[ -~]{0,20}", folded).prop_map(|((name, is_out), value, folded)| {
        (is_out, [vec![format!("{name}:{value}")], folded].concat())
    })
}

proptest! {
    #[test]
    fn what_never_leaves_is_taken_out_with_all_its_lines_and_all_else_stays_byte_for_byte(
        before in proptest::collection::vec(field(), 0..5),
        after in proptest::collection::vec(field(), 0..5),
        end in select(vec!["\r\n", "\n"]),
        rest in "((Bcc: )?[ -~é]{0,30}(\r\n|\n)){0,6}[ -~]{0,9}",
    ) {
        let from = (false, vec!["From: News".to_owned(), " <news@example.org>".to_owned()]);
        let fields: Vec<_> = before.into_iter().chain([from]).chain(after).collect();
        let message = |all: bool| {
            let kept = fields.iter().filter(|(is_out, _)| all || !is_out);
            let lines = kept.flat_map(|(_, lines)| lines).map(|line| format!("{line}{end}"));
            lines.chain([end.to_owned(), rest.clone()]).collect::<String>()
        };
        let email = read(message(true)).unwrap();
        prop_assert_eq!(mime_of(&email), message(false).into_bytes());
        let again = parse(&written::write(&email).unwrap());
        prop_assert_eq!(again.as_ref(), Ok(&email));
        let whole = message(true);
        let none = without_fields(whole.as_bytes(), |_| false).unwrap();
        prop_assert_eq!(&*none, whole.as_bytes());
        let bare = without_fields(whole.as_bytes(), |_| true).unwrap();
        prop_assert_eq!(String::from_utf8_lossy(&bare), format!("{end}{rest}"));
        prop_assert_eq!(header_fields(whole.as_bytes()).unwrap().len(), fields.len());
    }

    #[test]
    fn any_bytes_are_a_mail_or_an_error_that_names_raw(
        mime in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            "(From|Sender|Bcc|X)?: ?([a-c<>@.,;:()\"\\\\= ?\t]|\r\n ?|\n ?|\r|\u{0}|é){0,60}"
                .prop_map(String::into_bytes),
        ],
    ) {
        match read(&mime) {
            Ok(email) => {
                let left = mime_of(&email);
                prop_assert!(left.len() <= mime.len());
                prop_assert_eq!(read(&left).map(|again| mime_of(&again)), Ok(left));
            }
            Err(error) => prop_assert_eq!(error.field, "raw"),
        }
    }

    #[test]
    fn no_field_is_read_as_two_senders_or_as_one_that_is_not_in_it(
        value in "([ab]@[cd]\\.ef|[<>,;:()\"\\\\ ]|\n ){1,6}",
    ) {
        let Ok(email) = read(format!("From:{value}\n\n")) else { return Ok(()) };
        let spellings = ["a@c.ef", "a@d.ef", "b@c.ef", "b@d.ef"];
        let admitted: Vec<_> = spellings
            .into_iter()
            .filter(|sender| {
                let list: AllowedSenders = format!("{sender}, example.org").parse().unwrap();
                list.admit(email.clone()).is_ok()
            })
            .collect();
        prop_assert!(admitted.len() <= 1, "{:?}", value);
        prop_assert!(admitted.iter().all(|sender| value.contains(sender)), "{:?}", value);
    }
}
