//! A message body: what SES is given is legal, what is refused is named without its values.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tidegate_core::email::{
    Address, AllowedSenders, Content, Email, EmailError, EmailErrorKind, addressed_to,
    header_fields, ses_tag_value,
};

use crate::mark::{shows_mark, with_break_out, with_mark};
use crate::written;

/// The members that `docs/messages.md` names; all others are unknown.
const KNOWN: [&str; 22] = [
    "stored",
    "not_before",
    "to_address",
    "from_address",
    "body",
    "to",
    "cc",
    "bcc",
    "from",
    "reply_to",
    "text",
    "html",
    "template",
    "raw",
    "headers",
    "attachments",
    "configuration_set",
    "list_unsubscribe",
    "subject",
    "id",
    "priority",
    "tags",
];
/// Texts in one body that are marked, one after the other.
const MARKED: usize = 24;
/// Bytes that an error may have beside its field: what is allowed, and 60 characters, escaped.
const MAX_ERROR: usize = 1_200;
/// Bytes of the longest field: as many names as JSON may be deep, 60 characters each.
const MAX_FIELD: usize = 128 * 64;

/// Any bytes as a message body.
pub fn message(bytes: &[u8]) {
    let Ok(body) = std::str::from_utf8(bytes) else { return };
    let _ = addressed_to(body);
    let read = Email::parse(body);
    // serde_json reads an object that begins so as another value than its text says.
    let value: Option<Value> =
        if body.contains("$serde_json") { None } else { serde_json::from_str(body).ok() };
    match &read {
        Ok(email) => {
            legal(email);
            reads_back(email);
            if let Some(value) = &value {
                nothing_unknown(value);
                as_written(body, value, email);
                changed(body, value, email);
                one_too_many(value, email);
            }
        }
        Err(error) => named(error),
    }
    // A fuzzer learns the mark from the comparisons, and would put it anywhere.
    let Some(value) = value.filter(|value| !shows_mark(&value.to_string())) else { return };
    for broken in (0..MARKED).map_while(|nth| with_break_out(&value, nth)) {
        match Email::parse(&broken.to_string()) {
            Ok(email) => legal(&email),
            Err(error) => named(&error),
        }
    }
    for nth in 0..MARKED {
        let Some((marked, path)) = with_mark(&value, nth) else { return };
        match Email::parse(&marked.to_string()) {
            Ok(email) => legal(&email),
            Err(error) => keeps_to_itself(&error, &path),
        }
    }
}

/// Nothing in it can break out of a header line, and every number is one that SES takes.
fn legal(email: &Email) {
    assert!((1..=50).contains(&email.recipients()), "{} recipients", email.recipients());
    let recipients = [&email.to[..], &email.cc, &email.bcc].concat();
    assert_eq!(recipients.len(), usize::try_from(email.recipients()).unwrap());
    for address in recipients.iter().chain(&email.reply_to).chain([&email.from]) {
        let header = address.header_value();
        assert!(is_printable_ascii(&header) && header.len() <= 320, "{header:?}");
        assert_eq!(Address::parse(&address.to_string()).as_ref(), Ok(address));
        assert!(address.addr_spec().ends_with(&format!("@{}", address.domain())));
    }
    let headers: Vec<_> = email.headers().collect();
    assert!(headers.len() <= 15, "{} headers", headers.len());
    for (name, value) in headers {
        assert!(is_printable_ascii(name) && !name.contains([' ', ':']), "{name:?}");
        assert!(is_printable_ascii(value) && name.len() + value.len() <= 996, "{value:?}");
    }
    for tag in email.tags.iter().flat_map(|(name, value)| [name, value]) {
        assert_eq!(ses_tag_value(tag), tag.as_str());
    }
    assert!(email.tags.len() <= 48);
    let files = email.attachments.iter();
    let texts = files.flat_map(|file| [Some(file.name.as_str()), file.content_type.as_deref()]);
    let texts = texts.chain([email.id.as_deref(), email.configuration_set.as_deref()]).flatten();
    let texts = texts.chain(match &email.content {
        Content::Simple { subject, text, html } => {
            assert!(text.is_some() || html.is_some());
            [subject.as_str()]
        }
        Content::Template { name, data } => {
            assert!(data.len() <= 262_144 && data.starts_with('{'));
            [name.as_str()]
        }
        Content::Raw(raw) => {
            legal_mime(&STANDARD.decode(raw.base64()).unwrap());
            [raw.base64()]
        }
        Content::Stored(stored) => {
            assert!(stored.bytes > 0 && stored.name.bytes().all(|b| b.is_ascii_alphanumeric()));
            [stored.name.as_str()]
        }
    });
    for text in texts {
        assert!(!text.is_empty() && !text.contains(char::is_control), "{text:?}");
    }
}

/// One `From`, and nothing that steers SES, tells of other recipients or is read in different ways.
fn legal_mime(mime: &[u8]) {
    let fields = header_fields(mime).unwrap();
    let names: Vec<_> = fields.iter().map(|field| field.name.to_ascii_lowercase()).collect();
    assert_eq!(names.iter().filter(|name| *name == "from").count(), 1);
    let steers = |name: &String| name.starts_with("x-ses-") || name.starts_with("x-tidegate-");
    let never = |name: &String| name == "bcc" || name == "resent-bcc" || steers(name);
    assert!(!names.iter().any(never), "{names:?}");
    for line in mime.split(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        assert!(text.len() <= 998 && !text.contains(&0), "{} bytes", text.len());
        assert!(!text.contains(&b'\r'));
    }
    assert!(!mime.ends_with(b"\r"));
}

fn is_printable_ascii(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

fn reads_back(email: &Email) {
    let json = written::write(email).unwrap();
    let again = Email::parse(&json);
    assert_eq!(again.as_ref(), Ok(email), "{json}");
    assert_eq!(written::write(&again.unwrap()).unwrap(), json);
}

fn nothing_unknown(body: &Value) {
    let check = |value: &Value, known: &[&str]| {
        let members = value.as_object().into_iter().flatten().map(|(name, _)| name);
        for name in members.filter(|name| *name != "metadata" && !name.starts_with("x_")) {
            assert!(known.contains(&name.as_str()), "{name:?} is taken for known");
        }
    };
    assert!(body.is_object());
    check(body, &KNOWN);
    check(&body["template"], &["name", "data"]);
    check(&body["list_unsubscribe"], &["url", "mailto"]);
    check(&body["stored"], &["name", "bytes"]);
    for file in body["attachments"].as_array().into_iter().flatten() {
        check(file, &["name", "content_type", "content", "content_id", "disposition"]);
    }
}

/// The mail goes to whom the body names, and to nobody else.
fn as_written(body: &str, value: &Value, email: &Email) {
    let read = |text: &str| Address::parse(text).unwrap();
    let addresses = |name: &str| match &value[name] {
        Value::String(text) => vec![read(text)],
        Value::Array(items) => items.iter().map(|item| read(item.as_str().unwrap())).collect(),
        _ => Vec::new(),
    };
    let to = [addresses("to_address"), addresses("to")].concat();
    assert_eq!(to, email.to);
    assert_eq!((addresses("cc"), addresses("bcc")), (email.cc.clone(), email.bcc.clone()));
    let told: Vec<_> = addressed_to(body).iter().map(|text| read(text)).collect();
    assert_eq!(told, to);
    let domain = match email.raw() {
        // Its header may name senders of other domains.
        Some(_) => AllowedSenders::everyone(),
        None => email.from.domain().parse().unwrap(),
    };
    assert_eq!(domain.admit(email.clone()).as_ref(), Ok(email));
    let other: AllowedSenders = "oracle.invalid".parse().unwrap();
    let refused = other.admit(email.clone()).is_err_and(|error| !error.redacted().contains('@'));
    assert!(refused || email.from.domain().eq_ignore_ascii_case("oracle.invalid"));
}

/// Compares a mail with the same mail after one member was added.
fn changed(body: &str, value: &Value, email: &Email) {
    let with = |member: &str| Email::parse(&body.replacen('{', &format!("{{{member},"), 1));
    let names: BTreeSet<_> =
        value.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    let refused = |member: &str, kind| {
        let found = with(member).map_err(|error| error.kind);
        assert_eq!(found.err(), Some(kind), "{member}");
    };
    refused("\"tempalte\":null", EmailErrorKind::UnknownMember);
    for name in &names {
        refused(&format!("{}:null", Value::from(name.as_str())), EmailErrorKind::DuplicateMember);
    }
    if !names.iter().any(|name| *name == "x_oracle") {
        assert_eq!(with(r#""x_oracle":[{"to":"a"}]"#).as_ref(), Ok(email));
    }
}

/// Fifty recipients over to, cc and bcc, and never one more.
fn one_too_many(value: &Value, email: &Email) {
    if email.raw().is_some() {
        let with = |recipients: usize| {
            let mut value = value.clone();
            value["to"] = vec!["ada@example.com"; recipients].into();
            Email::parse(&value.to_string()).is_ok()
        };
        assert!(with(50) && !with(51));
        return;
    }
    let short = !value["to_address"].is_null();
    let with = |recipients: usize| {
        let mut bcc: Vec<String> = email.bcc.iter().map(ToString::to_string).collect();
        let others = email.to.len() + email.cc.len();
        bcc.resize(recipients.saturating_sub(others), "ada@example.com".to_owned());
        let mut value = value.clone();
        value["bcc"] = bcc.into();
        Email::parse(&value.to_string())
    };
    let error = with(51).err().map(|error| error.kind);
    let expected = if short { EmailErrorKind::MixedForms } else { EmailErrorKind::Invalid };
    assert_eq!(error, Some(expected));
    assert!(short || with(50).is_ok_and(|email| email.recipients() == 50));
}

/// A refusal names a field, and does not outgrow a log line.
fn named(error: &EmailError) {
    let (text, redacted) = (error.to_string(), error.redacted());
    let in_path = |c: char| c.is_ascii_alphanumeric() || "_-.[]?".contains(c);
    assert!(!error.field.is_empty() && error.field.chars().all(in_path), "{}", error.field);
    assert!(text.starts_with(&redacted) && redacted.starts_with(&error.field), "{text}");
    assert!(error.field.len() <= MAX_FIELD, "{} bytes of field", error.field.len());
    assert!(text.len() <= error.field.len() + MAX_ERROR, "{} bytes: {text}", text.len());
    // The only addresses are those of the examples, the only lone @ is in a list of characters.
    let rest = redacted
        .replace("ada@example.com", "")
        .replace(": ; @ \\", "")
        .replace(". _ @ + and -", "");
    assert!(!rest.contains('@'), "{redacted}");
}

/// No value in what is logged, no content even in the dead letter.
fn keeps_to_itself(error: &EmailError, path: &[String]) {
    named(error);
    assert!(!shows_mark(&error.redacted()), "{}", error.redacted());
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let content = matches!(
        path.as_slice(),
        ["body" | "text" | "html" | "raw"] | ["template", "data", ..] | ["attachments", "content"]
    );
    assert!(!content || !shows_mark(&error.to_string()), "{error}");
}
