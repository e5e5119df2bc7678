use serde_json::json;

use super::*;

fn simple() -> Value {
    json!({
        "FromEmailAddress": "News <news@example.org>",
        "Destination": {"ToAddresses": ["ada@example.com"]},
        "Content": {"Simple": {
            "Subject": {"Data": "Hello", "Charset": "UTF-8"},
            "Body": {"Text": {"Data": "Text."}},
        }},
        "EmailTags": [{"Name": "tidegate_campaign", "Value": "big"}],
        "ConfigurationSetName": "default",
    })
}

fn raw(mime: &str) -> Value {
    json!({"Content": {"Raw": {"Data": STANDARD.encode(mime)}}})
}

fn parse(request: &Value) -> Result<MailFields, Failure> {
    parse_send_email(request.to_string().as_bytes())
}

fn refusal(request: &Value) -> String {
    let error = parse(request).expect_err("refused");
    assert_eq!(
        (error.code.as_deref(), error.http_status),
        (Some("BadRequestException"), Some(400))
    );
    error.message
}

#[test]
fn a_simple_mail_keeps_what_the_mailbox_shows() {
    let mut request = simple();
    request["Destination"]["CcAddresses"] = json!(["b@x", "c@x"]);
    request["Content"]["Simple"]["Headers"] = json!([{"Name": "X-A", "Value": "1"}]);
    request["Content"]["Simple"]["Attachments"] =
        json!([{"FileName": "a.txt", "RawContent": "aGk=", "ContentType": "text/plain"}]);
    let draft = parse(&request).expect("simple");
    assert_eq!(draft.from, "News <news@example.org>");
    assert_eq!((draft.subject.as_str(), draft.kind), ("Hello", MailKind::Simple));
    assert_eq!(draft.recipients(), 3);
    assert_eq!(draft.tag("tidegate_campaign"), Some("big"));
}

#[test]
fn a_raw_mail_counts_its_header_only_without_a_destination() {
    let mime = "From: a@example.org\r\nTo: b@x, c@x\r\nBcc: d@x\r\nSubject: Raw\r\n\r\nHi";
    let mut request = raw(mime);
    let draft = parse(&request).expect("raw");
    assert_eq!((draft.from.as_str(), draft.recipients()), ("a@example.org", 3));
    assert_eq!((draft.subject.as_str(), draft.kind), ("Raw", MailKind::Raw));
    request["Destination"] = json!({"BccAddresses": ["only@x"]});
    request["FromEmailAddress"] = json!("other@example.org");
    let draft = parse(&request).expect("raw with destination");
    assert_eq!((draft.from.as_str(), draft.recipients()), ("other@example.org", 1));
}

#[test]
fn a_template_is_taken_by_name_with_data_that_is_json() {
    let mut request = simple();
    request["Content"] = json!({"Template": {"TemplateName": "welcome", "TemplateData": "{}"}});
    let draft = parse(&request).expect("template");
    assert_eq!((draft.subject.as_str(), draft.kind), ("[welcome]", MailKind::Template));
    request["Content"]["Template"]["TemplateData"] = json!("{oops");
    assert!(refusal(&request).contains("TemplateData"));
    request["Content"] = json!({"Template": {}});
    assert!(refusal(&request).contains("TemplateName"));
}

#[test]
fn what_ses_would_refuse_is_refused_with_the_place_named() {
    let change = |pointer: &str, value: Value| {
        let mut request = simple();
        *request.pointer_mut(pointer).expect(pointer) = value;
        request
    };
    let many: Vec<String> = (0..51).map(|i| format!("r{i}@x")).collect();
    for (request, named) in [
        (change("/FromEmailAddress", json!("")), "'From'"),
        (change("/Destination", json!({})), "'To'"),
        (change("/Destination/ToAddresses", json!([])), "'To'"),
        (change("/Destination/ToAddresses", json!(many)), "exceeds 50"),
        (change("/Destination/ToAddresses", json!(["nobody"])), "final '@domain'"),
        (change("/Destination/ToAddresses", json!(["a b@x"])), "Local address"),
        (change("/Destination/ToAddresses", json!(["ä@x"])), "Local address"),
        (change("/Destination/ToAddresses", json!(["a@x\r\nBcc: b@x"])), "Local address"),
        (change("/Destination/ToAddresses", json!(["a@x y"])), "Domain"),
        (change("/Content", json!({})), "exactly one of"),
        (change("/Content/Simple/Body", json!({})), "Text or Html"),
        (
            change("/Content/Simple/Subject", json!({})),
            "Content.Simple.Subject: missing field `Data`",
        ),
        (change("/EmailTags/0/Value", json!("a b")), "Invalid tag value <a b>"),
        (change("/EmailTags/0/Name", json!("a:b")), "Invalid tag name <a:b>"),
        (change("/EmailTags/0/Value", json!("x".repeat(257))), "1 to 256"),
        (change("/EmailTags/0", json!({"Name": "a"})), "EmailTags[0]: missing field `Value`"),
        (json!(["a@x"]), "not a JSON object"),
    ] {
        let message = refusal(&request);
        assert!(message.contains(named), "{named}: {message}");
    }
    let broken = parse_send_email(b"{\"Content\":").expect_err("broken").message;
    assert!(broken.contains("not JSON"), "{broken}");
    let trailing = parse_send_email(b"{} {}").expect_err("trailing").message;
    assert!(trailing.contains("not JSON: trailing characters"), "{trailing}");
}

#[test]
fn headers_attachments_and_raw_data_are_checked() {
    let mut request = simple();
    request["Content"]["Simple"]["Headers"] = json!([{"Name": "X", "Value": "a\r\nBcc: b@x"}]);
    assert!(refusal(&request).contains("line break"));
    request["Content"]["Simple"]["Headers"] = json!([{"Name": "X:", "Value": "a"}]);
    assert!(refusal(&request).contains("header name"));
    request["Content"]["Simple"]["Headers"] = json!([]);
    request["Content"]["Simple"]["Attachments"] = json!([{"FileName": "a.b", "RawContent": "%"}]);
    assert!(refusal(&request).contains("RawContent is not base64"));
    let file = json!({"FileName": "a.b", "RawContent": "YQ==", "ContentId": "a", "ContentDisposition": "INLINE"});
    for (member, value, named) in [
        ("FileName", "a", "file"),
        ("FileName", "a.exe", "file"),
        ("RawContent", "", "file"),
        ("ContentId", "", "ContentId"),
        ("ContentDisposition", "inline", "ContentDisposition"),
    ] {
        let attachments = &mut request["Content"]["Simple"]["Attachments"];
        *attachments = json!([file]);
        attachments[0][member] = json!(value);
        assert!(refusal(&request).contains(&format!("invalid {named}")), "{member} {value}");
    }
    request["Content"]["Simple"]["Attachments"] = json!([file]);
    parse(&request).expect("an inline image");
    let request = json!({"Content": {"Raw": {"Data": "***"}}});
    assert!(refusal(&request).contains("Content.Raw.Data is not base64"));
    assert!(refusal(&raw("To: b@x\r\n\r\nHi")).contains("'From'"));
}
