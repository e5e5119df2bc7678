use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn simple() -> Value {
    json!({
        "FromEmailAddress": "News <news@example.org>",
        "Destination": {"ToAddresses": ["ada@example.com"]},
        "Content": {"Simple": {
            "Subject": {"Data": "Hello", "Charset": "ISO-8859-1"},
            "Body": {"Text": {"Data": "Text.", "Charset": "UTF-8"}},
        }},
        "EmailTags": [{"Name": "tidegate_campaign", "Value": "big"}],
        "ConfigurationSetName": "default",
    })
}

fn raw(mime: &str) -> Value {
    json!({"Content": {"Raw": {"Data": STANDARD.encode(mime)}}})
}

fn read(request: &Value) -> Result<SesRequest, Failure> {
    read_send_email(request.to_string().as_bytes())
}

fn said(failure: Failure) -> String {
    let refused = (failure.code.as_deref(), failure.http_status);
    assert_eq!(refused, (Some("BadRequestException"), Some(400)));
    failure.message
}

fn refusal(request: &Value) -> String {
    said(read(request).expect_err("refused"))
}

/// A request with one value changed.
fn with(pointer: &str, value: Value) -> Value {
    let mut request = simple();
    *request.pointer_mut(pointer).expect(pointer) = value;
    request
}

fn template_data(mail: &SesRequest) -> &str {
    match &mail.content {
        SesContent::Template(template) => &template.template_data,
        other => panic!("no template: {other:?}"),
    }
}

fn headers(mail: &SesRequest) -> Vec<(&str, &str)> {
    match &mail.content {
        SesContent::Template(template) => {
            template.headers.iter().map(|it| (&*it.name, &*it.value)).collect()
        }
        other => panic!("no template: {other:?}"),
    }
}

#[test]
fn a_simple_mail_is_read_whole() {
    let mut request = simple();
    request["Destination"]["CcAddresses"] = json!(["b@x", "c@x"]);
    request["ReplyToAddresses"] = json!(["reply@example.org"]);
    request["TenantName"] = json!("acme");
    request["Content"]["Simple"]["Headers"] = json!([{"Name": "X-A", "Value": "1"}]);
    request["Content"]["Simple"]["Attachments"] = json!([{
        "FileName": "a.txt", "RawContent": "aGk=", "ContentType": "text/plain",
        "ContentTransferEncoding": "BASE64",
    }]);
    let mail = read(&request).expect("simple");
    let text = |text: &str| Some(SesText { data: text.to_owned() });
    let name = |text: &str| Some(text.to_owned());
    let expected = SesRequest {
        from: "News <news@example.org>".to_owned(),
        destination: SesDestination {
            to: vec!["ada@example.com".to_owned()],
            cc: vec!["b@x".to_owned(), "c@x".to_owned()],
            bcc: Vec::new(),
        },
        reply_to: vec!["reply@example.org".to_owned()],
        content: SesContent::Simple(SesSimple {
            subject: SesText { data: "Hello".to_owned() },
            body: SesBody { text: text("Text."), html: None },
            headers: vec![NameValue { name: "X-A".to_owned(), value: "1".to_owned() }],
            attachments: vec![SesAttachment {
                raw_content: "aGk=".to_owned(),
                file_name: "a.txt".to_owned(),
                content_type: name("text/plain"),
                content_id: None,
                content_disposition: None,
            }],
        }),
        tags: [("tidegate_campaign".to_owned(), "big".to_owned())].into(),
        configuration_set: name("default"),
        tenant: name("acme"),
        others: Vec::new(),
    };
    assert_eq!(mail, expected);
}

#[test]
fn a_raw_mail_takes_from_its_header_only_what_the_call_leaves_out() {
    let mime = "From: News <a@example.org>\r\nTo: b@x, c@x\r\nBcc: d@x\r\nSubject: Raw\r\n\r\nHi";
    let mut request = raw(mime);
    let mail = read(&request).expect("raw");
    assert_eq!((mail.from.as_str(), mail.destination.all().count()), ("a@example.org", 3));
    assert_eq!(mail.content, SesContent::Raw(mime.as_bytes().to_vec()));
    request["Destination"] = json!({"BccAddresses": ["only@x"]});
    request["FromEmailAddress"] = json!("other@example.org");
    let mail = read(&request).expect("raw with destination");
    assert_eq!((mail.from.as_str(), mail.destination.all().count()), ("other@example.org", 1));
    assert!(refusal(&raw("To: b@x\r\n\r\nHi")).contains("'From'"));
    assert!(refusal(&raw("From: b@x\r\n\r\nHi")).contains("'To'"));
}

#[test]
fn a_header_gives_every_address_unfolded_and_decoded() {
    let message = b"From: \"News, Daily\" <news@example.org>\r\n\
        To: Ada <ada@example.com>,\r\n bob@example.com\r\n\
        Cc: team: c@example.com, d@example.com;\r\n\
        Bcc: e@example.com\r\n\
        Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=\r\n\r\nTo: not@a.header\r\n";
    let header = RawHeader::read(message);
    assert_eq!(header.from, "news@example.org");
    assert_eq!(header.destination.to, ["ada@example.com", "bob@example.com"]);
    assert_eq!(header.destination.cc, ["c@example.com", "d@example.com"]);
    assert_eq!(header.destination.bcc, ["e@example.com"]);
    assert_eq!(header.subject, "Grüße");
    assert_eq!(RawHeader::read(b""), RawHeader::default());
    assert_eq!(RawHeader::read(b"\xff\xfe\x00nothing"), RawHeader::default());
}

#[test]
fn a_template_is_taken_by_name_arn_or_content_with_data_as_it_was_written() {
    let template = |template: Value| with("/Content", json!({"Template": template}));
    let data = "{ \"price\": 19.90 }";
    let named = read(&template(json!({"TemplateName": "welcome", "TemplateData": data})));
    assert_eq!(template_data(&named.expect("by name")), data);
    let arn = read(&template(json!({"TemplateArn": "arn:aws:ses:x"}))).expect("by ARN");
    assert_eq!(template_data(&arn), "");
    let inline = json!({"TemplateContent": {"Subject": "Hi {{name}}", "Html": "<p>"}});
    read(&template(inline)).expect("inline");
    let wrong = json!({"TemplateName": "a", "TemplateData": "{oops"});
    assert!(refusal(&template(wrong)).starts_with("TemplateData must be a JSON"));
    let deep = format!("{}{}", "{\"a\":".repeat(40_000), "1".to_owned() + &"}".repeat(40_000));
    let deep = json!({"TemplateName": "a", "TemplateData": deep});
    assert!(refusal(&template(deep)).contains("TemplateData"));
    for several in [json!({}), json!({"TemplateName": "a", "TemplateArn": "b"})] {
        assert!(refusal(&template(several)).starts_with("Exactly one of TemplateName"));
    }
}

#[test]
fn what_ses_would_refuse_is_refused_with_the_place_named() {
    let many: Vec<String> = (0..51).map(|i| format!("r{i}@x")).collect();
    let tags: Vec<Value> =
        (0..51).map(|i| json!({"Name": format!("t{i}"), "Value": "a"})).collect();
    for (request, named) in [
        (with("/FromEmailAddress", json!("")), "'From'"),
        (with("/FromEmailAddress", Value::Null), "'From'"),
        (with("/Destination", json!({})), "'To'"),
        (with("/Destination/ToAddresses", json!([])), "'To'"),
        (with("/Destination/ToAddresses", json!(many)), "exceeds 50"),
        (with("/Destination/ToAddresses", json!(["nobody"])), "final '@domain'"),
        (with("/Destination/ToAddresses", json!(["a b@x"])), "Local address"),
        (with("/Destination/ToAddresses", json!(["ä@x"])), "Local address"),
        (with("/Destination/ToAddresses", json!(["a@x\r\nBcc: b@x"])), "Local address"),
        (with("/Destination/ToAddresses", json!(["a@x y"])), "Domain"),
        (with("/Destination/ToAddresses", json!([7])), "Destination.ToAddresses[0]: invalid type"),
        (with("/Content", json!({})), "exactly one of"),
        (with("/Content/Simple/Body", json!({})), "Body: Text or Html"),
        (
            with("/Content/Simple/Subject", json!({})),
            "Content.Simple.Subject: missing field `Data`",
        ),
        (with("/EmailTags/0/Value", json!("a b")), "Invalid tag value <a b>"),
        (with("/EmailTags/0/Name", json!("a:b")), "Invalid tag name <a:b>"),
        (with("/EmailTags/0/Value", json!("x".repeat(257))), "1 to 256"),
        (with("/EmailTags/0", json!({"Name": "a"})), "EmailTags[0]: missing field `Value`"),
        (with("/EmailTags", json!(tags)), "Tag count exceeds 50"),
        (json!(["a@x"]), "not a JSON object"),
    ] {
        let message = refusal(&request);
        assert!(message.contains(named), "{named}: {message}");
    }
    assert!(read_send_email(with("/EmailTags", json!(tags[1..])).to_string().as_bytes()).is_ok());
    let twice = json!([{"Name": "a", "Value": "1"}, {"Name": "a", "Value": "2"}]);
    assert!(refusal(&with("/EmailTags", twice)).contains("Duplicate tag name <a>"));
    for (body, named) in [(&b"{\"Content\":"[..], "not JSON"), (b"{} {}", "trailing characters")] {
        let message = said(read_send_email(body).expect_err("no request"));
        assert!(message.contains(named), "{message}");
    }
    let long = refusal(&with("/EmailTags", json!("x".repeat(100_000))));
    assert!(long.chars().count() <= 301, "{}", long.len());
}

#[test]
fn headers_and_attachments_are_checked() {
    let simple = |member: &str, value: Value| {
        let mut request = simple();
        request["Content"]["Simple"][member] = value;
        request
    };
    let headers =
        |name: &str, value: &str| simple("Headers", json!([{"Name": name, "Value": value}]));
    assert!(refusal(&headers("X", "a\r\nBcc: b@x")).contains("line break"));
    assert!(refusal(&headers("X:", "a")).contains("header name"));
    let file = json!({"FileName": "a.b", "RawContent": "YQ==", "ContentId": "a", "ContentDisposition": "INLINE"});
    for (member, value, named) in [
        ("RawContent", "%", "RawContent is not base64"),
        ("FileName", "a", "invalid file"),
        ("FileName", "a.exe", "invalid file"),
        ("RawContent", "", "invalid file"),
        ("ContentId", "", "invalid ContentId"),
        ("ContentDisposition", "inline", "invalid ContentDisposition"),
    ] {
        let mut attachments = json!([file]);
        attachments[0][member] = json!(value);
        let message = refusal(&simple("Attachments", attachments));
        assert!(message.contains(named), "{member} {value}: {message}");
    }
    read(&simple("Attachments", json!([file]))).expect("an inline image");
    let request = json!({"Content": {"Raw": {"Data": "***"}}});
    assert!(refusal(&request).contains("Content.Raw.Data is not base64"));
}

/// Every member of the API that has no field, from the model of version 2.
#[test]
fn members_that_are_not_carried_are_named_and_no_other_is() {
    let mut request = simple();
    for member in [
        "ConfigurationOverrides",
        "EndpointId",
        "FeedbackForwardingEmailAddress",
        "FeedbackForwardingEmailAddressIdentityArn",
        "FromEmailAddressIdentityArn",
    ] {
        request[member] = json!("x");
    }
    request["ListManagementOptions"] = json!({"ContactListName": "a", "TopicName": "b"});
    request["Content"]["Simple"]["Attachments"] =
        json!([{"FileName": "a.txt", "RawContent": "aGk=", "ContentDescription": "a"}]);
    request["Destination"]["ada@example.com"] = json!(1);
    let mut others = read(&request).expect("a mail").others;
    others.sort();
    let expected = [
        "ConfigurationOverrides",
        "Content.Simple.Attachments.0.ContentDescription",
        "Destination.?.com",
        "EndpointId",
        "FeedbackForwardingEmailAddress",
        "FeedbackForwardingEmailAddressIdentityArn",
        "FromEmailAddressIdentityArn",
        "ListManagementOptions",
    ];
    assert_eq!(others, expected);
    for i in 0..100 {
        request[format!("X{i}")] = json!(1);
    }
    assert_eq!(read(&request).expect("a mail").others.len(), MOST_OTHERS);
}

fn bulk_request() -> Value {
    json!({
        "FromEmailAddress": "news@example.org",
        "DefaultContent": {"Template": {
            "TemplateName": "welcome",
            "TemplateData": r#"{"name": "you", "price": 19.90, "shop": {"city": "Bern", "open": [1, 2]}}"#,
            "Headers": [{"Name": "X-A", "Value": "shared"}, {"Name": "X-B", "Value": "shared"}],
        }},
        "DefaultEmailTags": [{"Name": "kind", "Value": "shared"}, {"Name": "list", "Value": "all"}],
        "BulkEmailEntries": [
            {"Destination": {"ToAddresses": ["a@x"]}},
            {
                "Destination": {"ToAddresses": ["b@x"], "BccAddresses": ["c@x"]},
                "ReplacementEmailContent": {"ReplacementTemplate": {
                    "ReplacementTemplateData": r#"{"name": "Bo", "shop": {"open": [3]}}"#,
                }},
                "ReplacementTags": [{"Name": "kind", "Value": "own"}],
                "ReplacementHeaders": [{"Name": "x-a", "Value": "own"}],
            },
            {"Destination": {"ToAddresses": ["nobody"]}},
        ],
        "EndpointId": "x",
    })
}

fn bulk(request: &Value) -> Result<Vec<Result<SesRequest, Failure>>, Failure> {
    read_send_bulk_email(request.to_string().as_bytes()).map(|bulk| bulk.into_mails().collect())
}

#[test]
fn a_bulk_is_a_mail_per_entry_with_its_own_before_the_shared() {
    let mails = bulk(&bulk_request()).expect("bulk");
    let first = mails[0].as_ref().expect("first");
    assert!(template_data(first).contains("19.90"));
    assert_eq!((headers(first).len(), first.tags["kind"].as_str()), (2, "shared"));
    let second = mails[1].as_ref().expect("second");
    assert_eq!(
        template_data(second),
        r#"{"name":"Bo","price":19.90,"shop":{"city":"Bern","open":[3]}}"#
    );
    assert_eq!(headers(second), [("X-B", "shared"), ("x-a", "own")]);
    assert_eq!((second.tags["kind"].as_str(), second.tags["list"].as_str()), ("own", "all"));
    assert_eq!(
        (second.destination.all().count(), &second.others[..]),
        (2, &["EndpointId".to_owned()][..])
    );
    let third = mails[2].clone().expect_err("third");
    assert_eq!(said(third), "Missing final '@domain'");
}

#[test]
fn what_concerns_all_entries_of_a_bulk_refuses_the_call() {
    let change = |pointer: &str, value: Value| {
        let mut request = bulk_request();
        *request.pointer_mut(pointer).expect(pointer) = value;
        request
    };
    let entry = json!({"Destination": {"ToAddresses": ["a@x"]}});
    for (request, named) in [
        (change("/FromEmailAddress", Value::Null), "'From'"),
        (change("/DefaultContent", json!({})), "exactly one of Simple, Raw and Template"),
        (
            change("/DefaultContent", simple()["Content"].clone()),
            "DefaultContent: Template must be given",
        ),
        (change("/DefaultContent/Template/TemplateData", json!("[]")), "TemplateData must be"),
        (change("/BulkEmailEntries", json!([])), "1 to 50 entries are allowed, not 0"),
        (change("/BulkEmailEntries", json!(vec![entry; 51])), "not 51"),
        (change("/BulkEmailEntries/1", json!({})), "BulkEmailEntries[1]: missing field"),
    ] {
        let message = said(bulk(&request).expect_err(named));
        assert!(message.contains(named), "{named}: {message}");
    }
    let data =
        "/BulkEmailEntries/1/ReplacementEmailContent/ReplacementTemplate/ReplacementTemplateData";
    let mails = bulk(&change(data, json!("7"))).expect("a bulk");
    assert!(said(mails[1].clone().expect_err("no object")).contains("ReplacementTemplateData"));
}

fn form(parameters: &[(&str, &str)]) -> Vec<u8> {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs = parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
    pairs.collect::<Vec<_>>().join("&").into_bytes()
}

fn one(parameters: &[(&str, &str)]) -> Result<SesRequest, Failure> {
    match QueryCall::read(&form(parameters))?.mails()? {
        Some(SesMails::One(mail)) => Ok(mail),
        other => panic!("not one mail: {other:?}"),
    }
}

#[test]
fn the_same_mail_of_both_versions_is_read_alike() {
    let mail = one(&[
        ("Action", "SendEmail"),
        ("Version", "2010-12-01"),
        ("Source", "News <news@example.org>"),
        ("Destination.ToAddresses.member.1", "ada@example.com"),
        ("Destination.CcAddresses", ""),
        ("ReplyToAddresses", ""),
        ("Message.Subject.Data", "Hello"),
        ("Message.Subject.Charset", "UTF-8"),
        ("Message.Body.Text.Data", "Text."),
        ("Tags.member.1.Name", "tidegate_campaign"),
        ("Tags.member.1.Value", "big"),
        ("ConfigurationSetName", "default"),
    ]);
    assert_eq!(mail.expect("version 1"), read(&simple()).expect("version 2"));
}

#[test]
fn a_raw_mail_and_a_templated_one_of_version_1_are_read() {
    let mime = "From: a@example.org\r\nTo: b@x\r\n\r\nHi";
    let data = STANDARD.encode(mime);
    let raw = [("Action", "SendRawEmail"), ("RawMessage.Data", &*data)];
    let mail = one(&raw).expect("raw");
    assert_eq!(
        (mail.from.as_str(), mail.destination.to),
        ("a@example.org", vec!["b@x".to_owned()])
    );
    let own = [("Source", "c@example.org"), ("Destinations.member.1", "d@x"), ("SourceArn", "x")];
    let mail = one(&[&raw[..], &own].concat()).expect("raw with destination");
    assert_eq!(
        (mail.from.as_str(), mail.destination.to),
        ("c@example.org", vec!["d@x".to_owned()])
    );
    assert_eq!(mail.others, ["SourceArn"]);
    let mail = one(&[
        ("Action", "SendTemplatedEmail"),
        ("Source", "c@example.org"),
        ("Destination.BccAddresses.member.1", "d@x"),
        ("Template", "welcome"),
        ("TemplateArn", "arn:aws:ses:x"),
        ("TemplateData", r#"{"a":1.0}"#),
        ("ReturnPath", "r@x"),
        ("ReturnPathArn", "x"),
    ]);
    let mail = mail.expect("templated");
    assert_eq!(template_data(&mail), r#"{"a":1.0}"#);
    assert_eq!(mail.others, ["ReturnPath", "ReturnPathArn", "TemplateArn"]);
}

#[test]
fn a_bulk_of_version_1_merges_data_and_tags_as_that_of_version_2() {
    let call = QueryCall::read(&form(&[
        ("Action", "SendBulkTemplatedEmail"),
        ("Source", "c@example.org"),
        ("Template", "welcome"),
        ("DefaultTemplateData", r#"{"a":1.0,"b":2}"#),
        ("Destinations.member.1.Destination.ToAddresses.member.1", "d@x"),
        ("Destinations.member.1.ReplacementTemplateData", r#"{"b":3}"#),
        ("Destinations.member.1.ReplacementTags.member.1.Name", "kind"),
        ("Destinations.member.1.ReplacementTags.member.1.Value", "own"),
        ("Destinations.member.2.Destination.CcAddresses.member.1", "e@x"),
        ("DefaultTags.member.1.Name", "kind"),
        ("DefaultTags.member.1.Value", "shared"),
    ]));
    let Some(SesMails::Bulk(bulk)) = call.expect("a form").mails().expect("mails") else {
        panic!("no bulk")
    };
    let mails: Vec<_> = bulk.into_mails().map(|mail| mail.expect("a mail")).collect();
    assert_eq!(template_data(&mails[0]), r#"{"a":1.0,"b":3}"#);
    assert_eq!(template_data(&mails[1]), r#"{"a":1.0,"b":2}"#);
    assert_eq!([&mails[0].tags["kind"], &mails[1].tags["kind"]], ["own", "shared"]);
    assert_eq!(mails[1].destination.cc, ["e@x"]);
}

#[test]
fn a_form_that_is_none_is_refused_with_the_parameter_named() {
    let refused = |body: &[u8]| QueryCall::read(body).expect_err("refused");
    assert_eq!(refused(b"Version=2010-12-01").code.as_deref(), Some("MissingAction"));
    assert_eq!(refused(b"Action=").code.as_deref(), Some("MissingAction"));
    assert_eq!(
        said(refused(b"Action=SendEmail&Source=%ff")),
        "The request is not a form in UTF-8."
    );
    for (body, named) in [
        (&b"Action=SendEmail&Source=a&Source=b"[..], "Source: must stand once"),
        (b"Action=SendEmail&Tags.member.2.Name=a", "Tags.member.2.Name: "),
        (b"Action=SendEmail&Tags.member.0.Name=a", "count from 1"),
        (b"Action=SendEmail&Source=a&Source.X=b", "Source.X"),
    ] {
        let message = said(refused(body));
        assert!(message.contains(named), "{message}");
    }
    let many = "a=1&".repeat(10_001);
    assert!(said(refused(many.as_bytes())).contains("10000 parameters"));
    let call = QueryCall::read(b"Action=VerifyEmailIdentity&EmailAddress=a%40x").expect("a form");
    assert!(call.mails().expect("no mail").is_none());
    assert_eq!(
        (call.action.as_str(), &call.body[..]),
        ("VerifyEmailIdentity", &br#"{"EmailAddress":"a@x"}"#[..])
    );
    for (parameters, named) in [
        (&[("Action", "SendEmail"), ("Source", "a@x")][..], "Message must be given."),
        (&[("Action", "SendBulkTemplatedEmail"), ("Source", "a@x")], "Template must be given."),
        (
            &[("Action", "SendEmail"), ("Source", "a@x"), ("Message.Body", "x")],
            "Message.Body: invalid type: string",
        ),
        (
            &[("Action", "SendEmail"), ("Message.Body.Text.Data", "x")],
            "Message: missing field `Subject`",
        ),
        (&[("Action", "SendEmail"), ("Tags.member.1.Name", "x")], "Tags[0]: missing field `Value`"),
    ] {
        let message = said(one(parameters).expect_err("refused"));
        assert!(message.starts_with(named), "{named}: {message}");
    }
}

#[test]
fn answers_have_the_shapes_of_their_versions() {
    let write = |protocol, reply| write_answer(protocol, &reply, "r-1");
    let results = vec![Ok("m-1".to_owned()), Err(bad_request("a < b & c\u{1}"))];
    let answer = write(SesProtocol::Json, Ok(SesReply::Bulk(results.clone())));
    let told: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!((answer.status, answer.content_type), (200, "application/json"));
    assert_eq!(
        told["BulkEmailEntryResults"],
        json!([
            {"Status": "SUCCESS", "MessageId": "m-1"},
            {"Status": "INVALID_PARAMETER", "Error": "a < b & c\u{1}"},
        ])
    );
    let answer = write(SesProtocol::Query("SendBulkTemplatedEmail"), Ok(SesReply::Bulk(results)));
    assert_eq!((answer.status, answer.content_type), (200, "text/xml"));
    assert_eq!(
        answer.body,
        "<SendBulkTemplatedEmailResponse xmlns=\"http://ses.amazonaws.com/doc/2010-12-01/\">\
         <SendBulkTemplatedEmailResult><Status><member><Status>Success</Status><MessageId>m-1</MessageId></member>\
         <member><Status>InvalidParameterValue</Status><Error>a &lt; b &amp; c\u{fffd}</Error></member></Status>\
         </SendBulkTemplatedEmailResult><ResponseMetadata><RequestId>r-1</RequestId></ResponseMetadata>\
         </SendBulkTemplatedEmailResponse>"
    );
    let account = SesAccount {
        max_24_hour_send: -1.0,
        max_send_rate: 14.0,
        sent_last_24_hours: 3.0,
        sending_enabled: true,
    };
    let answer = write(SesProtocol::Query("GetSendQuota"), Ok(SesReply::Account(account)));
    assert!(answer.body.contains(
        "<GetSendQuotaResult><Max24HourSend>-1.0</Max24HourSend><MaxSendRate>14.0</MaxSendRate>\
         <SentLast24Hours>3.0</SentLast24Hours></GetSendQuotaResult>"
    ));
}

#[test]
fn an_error_has_the_code_and_status_of_its_version() {
    for (status, code, in_query, query_status, kind) in [
        (400, "BadRequestException", "InvalidParameterValue", 400, "Sender"),
        (429, "TooManyRequestsException", "Throttling", 400, "Sender"),
        (400, "MessageRejected", "MessageRejected", 400, "Sender"),
        (403, "UnrecognizedClientException", "InvalidClientTokenId", 403, "Sender"),
        (503, "ServiceUnavailable", "ServiceUnavailable", 503, "Receiver"),
    ] {
        let failure = Err(answered(status, code, "said & done"));
        let answer = write_answer(SesProtocol::Json, &failure, "r-1");
        assert_eq!((answer.status, answer.error_type.as_deref()), (status, Some(code)));
        assert_eq!(answer.body, r#"{"message":"said & done"}"#);
        let answer = write_answer(SesProtocol::Query(""), &failure, "r-1");
        assert_eq!((answer.status, answer.error_type), (query_status, None));
        assert_eq!(
            answer.body,
            format!(
                "<ErrorResponse xmlns=\"http://ses.amazonaws.com/doc/2010-12-01/\"><Error><Type>{kind}</Type>\
                 <Code>{in_query}</Code><Message>said &amp; done</Message></Error><RequestId>r-1</RequestId>\
                 </ErrorResponse>"
            )
        );
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any::<i32>().prop_map(Value::from), ".{0,3}".prop_map(Value::from)];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-c]", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn json_object() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[a-c]", json_value(), 0..3)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

fn merged(default: &Value, own: &Value) -> Value {
    match (default, own) {
        (Value::Object(default), Value::Object(own)) => {
            let mut all = default.clone();
            for (name, value) in own {
                let before = default.get(name).unwrap_or(&Value::Null);
                all.insert(name.clone(), merged(before, value));
            }
            Value::Object(all)
        }
        _ => own.clone(),
    }
}

proptest! {
    #[test]
    fn whatever_comes_is_a_mail_or_a_clear_failure(body: Vec<u8>, text in "\\PC{0,200}") {
        for body in [&body[..], text.as_bytes()] {
            for failure in [read_send_email(body).err(), read_send_bulk_email(body).err()] {
                prop_assert!(!said(failure.expect("no request")).is_empty());
            }
            if let Err(failure) = QueryCall::read(body).and_then(|call| call.mails()) {
                prop_assert!(failure.http_status == Some(400) && !failure.message.is_empty());
            }
        }
    }

    #[test]
    fn the_order_of_a_forms_parameters_does_not_matter(
        names in proptest::collection::vec("[a-z]{1,8}@x", 1..30).prop_shuffle(),
        order in any::<prop::sample::Index>(),
    ) {
        let mut parameters = vec!["Action=SendEmail".to_owned()];
        parameters.extend((1..).zip(&names).map(|(number, name)| {
            format!("Destination.ToAddresses.member.{number}={name}")
        }));
        let sorted = QueryCall::read(parameters.join("&").as_bytes()).expect("in order");
        let middle = order.index(parameters.len());
        parameters.rotate_left(middle);
        let rotated = QueryCall::read(parameters.join("&").as_bytes()).expect("rotated");
        parameters.sort();
        let by_name = QueryCall::read(parameters.join("&").as_bytes()).expect("by name");
        let body: Value = serde_json::from_slice(&sorted.body).expect("JSON");
        prop_assert_eq!(&body["Destination"]["ToAddresses"], &json!(names));
        prop_assert_eq!(&sorted, &rotated);
        prop_assert_eq!(&sorted, &by_name);
    }

    #[test]
    fn data_is_merged_member_by_member(default in json_object(), own in json_object()) {
        let mut request = bulk_request();
        request["DefaultContent"]["Template"]["TemplateData"] = json!(default.to_string());
        let replacement = json!({"ReplacementTemplateData": own.to_string()});
        request["BulkEmailEntries"][0]["ReplacementEmailContent"] = json!({"ReplacementTemplate": replacement});
        let mails = bulk(&request).expect("bulk");
        let data: Value = serde_json::from_str(template_data(mails[0].as_ref().expect("mail"))).expect("JSON");
        prop_assert_eq!(data, merged(&default, &own));
    }
}
