use serde_json::{Value, json};
use tidegate_core::ses_request::read_send_email;

use super::*;

fn kept(content: &Value, tenant: Option<&str>) -> MailFields {
    let mut request = json!({
        "FromEmailAddress": "News <news@example.org>",
        "Destination": {"ToAddresses": ["ada@example.com"], "CcAddresses": ["b@x", "c@x"]},
        "Content": content,
        "EmailTags": [{"Name": "tidegate_campaign", "Value": "big"}],
        "ConfigurationSetName": "default",
        "FeedbackForwardingEmailAddress": "ignored@example.org",
    });
    if let Some(tenant) = tenant {
        request["TenantName"] = json!(tenant);
    }
    read_send_email(request.to_string().as_bytes()).expect("a request").into()
}

#[test]
fn a_mail_keeps_what_the_mailbox_shows() {
    let simple =
        json!({"Simple": {"Subject": {"Data": "Hello"}, "Body": {"Text": {"Data": "Text."}}}});
    let mail = kept(&simple, None);
    assert_eq!(mail.from, "News <news@example.org>");
    assert_eq!((mail.subject.as_str(), mail.kind), ("Hello", MailKind::Simple));
    assert_eq!(mail.recipients(), 3);
    assert_eq!(mail.tag("tidegate_campaign"), Some("big"));
    assert_eq!(mail.used, [""; 0]);
    // "Subject: Raw" and a body.
    let raw = kept(&json!({"Raw": {"Data": "U3ViamVjdDogUmF3Cgpib2R5"}}), None);
    assert_eq!((raw.subject.as_str(), raw.kind), ("Raw", MailKind::Raw));
}

#[test]
fn a_template_stands_for_the_subject_and_is_used_by_a_tenants_mail() {
    let template = json!({"Template": {"TemplateName": "welcome", "TemplateData": "{}"}});
    let mail = kept(&template, Some("acme"));
    assert_eq!((mail.subject.as_str(), mail.kind), ("[welcome]", MailKind::Template));
    assert_eq!(mail.used, ["configuration-set/default", "template/welcome"]);
    let inline = json!({"Template": {"TemplateContent": {"Subject": "Hello"}}});
    assert_eq!(kept(&inline, None).subject, "[inline template]");
}
