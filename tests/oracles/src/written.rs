//! Writes a mail as JSON in the long form, without unused members: what was read is read again the same.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use tidegate_core::email::{
    Address, Attachment, Content, Email, Header, Priority, RawMail, TextLiteral,
};

#[derive(Serialize)]
// More than 12 fields: one for each member of a message.
struct Long<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<&'static str>,
    from: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    to: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cc: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bcc: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reply_to: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<Template<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stored: Option<Stored<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    #[serde(skip_serializing_if = "<[Header]>::is_empty", serialize_with = "in_order")]
    headers: &'a [Header],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<File<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration_set: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    list_unsubscribe: Option<Unsubscribe<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Template<'a> {
    name: &'a str,
    data: Box<RawValue>,
}

#[derive(Serialize)]
struct Stored<'a> {
    name: &'a str,
    bytes: u64,
}

#[derive(Serialize)]
struct File<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disposition: Option<&'a str>,
}

#[derive(Serialize)]
struct Unsubscribe<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mailto: Option<&'a str>,
}

/// Writes the headers as an object in their original order, which a map would lose.
fn in_order<S: Serializer>(headers: &[Header], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|h| (&h.name, &h.value)))
}

fn texts(addresses: &[Address]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

pub(crate) fn write(email: &Email) -> Result<String, serde_json::Error> {
    let (subject, text, html, template) = match &email.content {
        Content::Simple { subject, text, html } => (
            Some(subject.as_str()),
            text.as_ref().map(TextLiteral::decode),
            html.as_ref().map(TextLiteral::decode),
            None,
        ),
        Content::Template { name, data } => {
            let data = RawValue::from_string(data.clone())?;
            (None, None, None, Some(Template { name, data }))
        }
        Content::Raw(_) | Content::Stored(_) => (None, None, None, None),
    };
    serde_json::to_string(&Long {
        id: email.id.as_deref(),
        priority: (email.priority != Priority::Normal).then_some(email.priority.as_str()),
        from: email.from.to_string(),
        to: texts(&email.to),
        cc: texts(&email.cc),
        bcc: texts(&email.bcc),
        reply_to: texts(&email.reply_to),
        subject,
        text,
        html,
        template,
        raw: email.raw().map(RawMail::base64),
        stored: match &email.content {
            Content::Stored(stored) => Some(Stored { name: &stored.name, bytes: stored.bytes }),
            _ => None,
        },
        not_before: email.not_before.map(|at| at.to_string()),
        headers: &email.own_headers,
        attachments: email.attachments.iter().map(file).collect(),
        configuration_set: email.configuration_set.as_deref(),
        list_unsubscribe: email
            .list_unsubscribe
            .as_ref()
            .map(|u| Unsubscribe { url: &u.url, mailto: u.mailto.as_deref() }),
        tags: &email.tags,
    })
}

fn file(attachment: &Attachment) -> File<'_> {
    File {
        name: &attachment.name,
        content_type: attachment.content_type.as_deref(),
        content: STANDARD.encode(&attachment.content),
        content_id: attachment.content_id.as_deref(),
        disposition: attachment.disposition.as_deref(),
    }
}
