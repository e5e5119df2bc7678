//! Reading and checking a `SendEmail` request as SES does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail_parser::{Address, MessageParser};
use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_core::email::file_name_fault;
use tidegate_core::outcome::Failure;

use crate::sandbox::mailbox::{MailFields, MailKind, address_of};
use crate::ses::failures::answered;

/// The most bytes of a request: SES takes mails of 40 MiB after base64.
pub(crate) const MOST_BYTES: usize = 40 * 1024 * 1024;

/// The most recipients, and the most tags, of one mail.
const MOST_RECIPIENTS: u32 = 50;
const MOST_TAGS: usize = 50;

pub(super) fn bad_request(message: impl Into<String>) -> Failure {
    answered(400, "BadRequestException", message)
}

// Members that are not read here are ignored, as the protocol wants.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SendEmail {
    #[serde(default)]
    from_email_address: String,
    #[serde(default)]
    destination: DestinationJson,
    #[serde(default)]
    content: ContentJson,
    #[serde(default)]
    email_tags: Vec<NameValue>,
    configuration_set_name: Option<String>,
    tenant_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
#[expect(clippy::struct_field_names, reason = "these are the API's member names")]
struct DestinationJson {
    to_addresses: Vec<String>,
    cc_addresses: Vec<String>,
    bcc_addresses: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NameValue {
    name: String,
    value: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct ContentJson {
    simple: Option<SimpleJson>,
    raw: Option<TextJson>,
    template: Option<TemplateJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SimpleJson {
    subject: TextJson,
    body: BodyJson,
    #[serde(default)]
    headers: Vec<NameValue>,
    #[serde(default)]
    attachments: Vec<AttachmentJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TextJson {
    data: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BodyJson {
    text: Option<TextJson>,
    html: Option<TextJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AttachmentJson {
    raw_content: String,
    file_name: String,
    content_id: Option<String>,
    content_disposition: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TemplateJson {
    template_name: Option<String>,
    template_arn: Option<String>,
    template_content: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    template_data: String,
    #[serde(default)]
    headers: Vec<NameValue>,
    #[serde(default)]
    attachments: Vec<AttachmentJson>,
}

/// Reads a request's body and checks it as SES would.
pub(crate) fn parse_send_email(body: &[u8]) -> Result<MailFields, Failure> {
    // A list in a struct's place would be read as its members in order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad_request("The request is not a JSON object."));
    }
    let request: SendEmail =
        serde_json::from_slice(body).map_err(|error| bad_request(fault_in(body, &error)))?;
    let mut draft = MailFields {
        from: request.from_email_address,
        to: request.destination.to_addresses,
        cc: request.destination.cc_addresses,
        bcc: request.destination.bcc_addresses,
        tags: tags(request.email_tags)?,
        tenant: request.tenant_name,
        ..MailFields::default()
    };
    if draft.tenant.is_some() {
        let set = request.configuration_set_name.map(|set| format!("configuration-set/{set}"));
        let template = request.content.template.as_ref().and_then(|it| it.template_name.as_ref());
        let template = template.map(|name| format!("template/{name}"));
        draft.used = set.into_iter().chain(template).collect();
    }
    match request.content {
        ContentJson { simple: Some(simple), raw: None, template: None } => {
            simple.fill(&mut draft)?;
        }
        ContentJson { simple: None, raw: Some(raw), template: None } => {
            let header = read_header(&decode(&raw.data, "Content.Raw.Data")?);
            (draft.kind, draft.subject) = (MailKind::Raw, header.subject);
            if draft.from.is_empty() {
                draft.from = header.from;
            }
            // The destination decides who gets the mail; the header only where there is none.
            if draft.recipients() == 0 {
                (draft.to, draft.cc, draft.bcc) = (header.to, header.cc, header.bcc);
            }
        }
        ContentJson { simple: None, raw: None, template: Some(template) } => {
            template.fill(&mut draft)?;
        }
        _ => {
            let message = "Content: exactly one of Simple, Raw and Template must be given.";
            return Err(bad_request(message));
        }
    }
    addresses(&draft)?;
    Ok(draft)
}

impl SimpleJson {
    fn fill(self, draft: &mut MailFields) -> Result<(), Failure> {
        if self.body.text.is_none() && self.body.html.is_none() {
            return Err(bad_request("Content.Simple.Body: Text or Html must be given."));
        }
        (draft.kind, draft.subject) = (MailKind::Simple, self.subject.data);
        headers(&self.headers)?;
        attachments(&self.attachments)
    }
}

impl TemplateJson {
    fn fill(self, draft: &mut MailFields) -> Result<(), Failure> {
        let named = self.template_name.or(self.template_arn);
        if named.is_none() && self.template_content.is_none() {
            let message =
                "Content.Template: TemplateName, TemplateArn or TemplateContent must be given.";
            return Err(bad_request(message));
        }
        let data = &self.template_data;
        if !data.is_empty() && serde_json::from_str::<Map<String, Value>>(data).is_err() {
            let message = "Content.Template.TemplateData must be a JSON object.";
            return Err(bad_request(message));
        }
        let named = named.as_deref().unwrap_or("inline template");
        (draft.kind, draft.subject) = (MailKind::Template, format!("[{named}]"));
        headers(&self.headers)?;
        attachments(&self.attachments)
    }
}

fn attachments(attachments: &[AttachmentJson]) -> Result<(), Failure> {
    for attachment in attachments {
        let content = decode(&attachment.raw_content, "Attachments.RawContent")?;
        let id = attachment.content_id.as_ref().map_or(1, String::len);
        let shown = attachment.content_disposition.as_deref().unwrap_or("INLINE");
        let wrong = [
            (file_name_fault(&attachment.file_name).is_some() || content.is_empty(), "file"),
            (!(1..=78).contains(&id), "ContentId"),
            (!["ATTACHMENT", "INLINE"].contains(&shown), "ContentDisposition"),
        ];
        if let Some((_, what)) = wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            return Err(bad_request(format!("Attachments: invalid {what}.")));
        }
    }
    Ok(())
}

fn decode(data: &str, member: &str) -> Result<Vec<u8>, Failure> {
    STANDARD.decode(data).map_err(|error| bad_request(format!("{member} is not base64: {error}.")))
}

/// Names the member at which a body fails to be a request. It parses the body a second time,
/// because tracking the path would slow down every valid request.
fn fault_in(body: &[u8], error: &serde_json::Error) -> String {
    if !error.is_data() {
        return format!("The request is not JSON: {error}");
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let placed = serde_path_to_error::deserialize::<_, SendEmail>(&mut json);
    placed.err().map_or_else(|| error.to_string(), |placed| placed.to_string())
}

fn addresses(draft: &MailFields) -> Result<(), Failure> {
    if draft.from.is_empty() {
        return Err(bad_request("Missing required header 'From'."));
    }
    let recipients = draft.recipients();
    if recipients == 0 {
        return Err(bad_request("Missing required header 'To'."));
    }
    if recipients > MOST_RECIPIENTS {
        return Err(bad_request(format!("Recipient count exceeds {MOST_RECIPIENTS}.")));
    }
    std::iter::once(draft.from.as_str()).chain(draft.all_recipients()).try_for_each(address)
}

fn address(mailbox: &str) -> Result<(), Failure> {
    let address = address_of(mailbox);
    let Some((local, domain)) = address.rsplit_once('@').filter(|(_, domain)| !domain.is_empty())
    else {
        return Err(bad_request("Missing final '@domain'"));
    };
    let odd = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || !byte.is_ascii();
    if local.is_empty() || local.bytes().any(odd) {
        return Err(bad_request("Local address contains control, whitespace or non-ASCII"));
    }
    if domain.bytes().any(odd) {
        return Err(bad_request("Domain contains control, whitespace or non-ASCII"));
    }
    Ok(())
}

fn tags(tags: Vec<NameValue>) -> Result<Vec<(String, String)>, Failure> {
    if tags.len() > MOST_TAGS {
        return Err(bad_request(format!("Tag count exceeds {MOST_TAGS}.")));
    }
    let plain = |text: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        !text.is_empty() && text.len() <= 256 && text.bytes().all(known)
    };
    let mut read: Vec<(String, String)> = Vec::with_capacity(tags.len());
    for NameValue { name, value } in tags {
        for (what, text) in [("name", &name), ("value", &value)] {
            if !plain(text) {
                return Err(bad_request(format!(
                    "Invalid tag {what} <{text}>: only alphanumeric ASCII characters, '_', and \
                     '-' are allowed, 1 to 256 of them."
                )));
            }
        }
        if read.iter().any(|(known, _)| *known == name) {
            return Err(bad_request(format!("Duplicate tag name <{name}>.")));
        }
        read.push((name, value));
    }
    Ok(read)
}

fn headers(headers: &[NameValue]) -> Result<(), Failure> {
    for NameValue { name, value } in headers {
        let printable = |byte: u8| byte.is_ascii_graphic() && byte != b':';
        if name.is_empty() || !name.bytes().all(printable) {
            return Err(bad_request(format!("Invalid header name <{name}>.")));
        }
        if value.bytes().any(|byte| byte == b'\r' || byte == b'\n') {
            let message = format!("Invalid value of header <{name}>: it contains a line break.");
            return Err(bad_request(message));
        }
    }
    Ok(())
}

/// Sender, recipients and subject, as a message's header names them; what is not there stays empty.
pub(crate) fn read_header(raw: &[u8]) -> MailFields {
    let Some(message) = MessageParser::default().parse_headers(raw) else {
        return MailFields::default();
    };
    MailFields {
        from: addresses_in(message.from()).into_iter().next().unwrap_or_default(),
        to: addresses_in(message.to()),
        cc: addresses_in(message.cc()),
        bcc: addresses_in(message.bcc()),
        subject: message.subject().unwrap_or_default().to_owned(),
        ..MailFields::default()
    }
}

/// Every address of a field, those in groups too.
fn addresses_in(field: Option<&Address<'_>>) -> Vec<String> {
    let all = field.into_iter().flat_map(Address::iter);
    all.filter_map(|address| address.address.as_deref().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod mime_tests {
    use super::*;

    #[test]
    fn a_header_gives_every_address_unfolded_and_decoded() {
        let raw = b"From: \"News, Daily\" <news@example.org>\r\n\
            To: Ada <ada@example.com>,\r\n bob@example.com\r\n\
            Cc: team: c@example.com, d@example.com;\r\n\
            Bcc: e@example.com\r\n\
            Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=\r\n\r\nTo: not@a.header\r\n";
        let header = read_header(raw);
        assert_eq!(header.from, "news@example.org");
        assert_eq!(header.to, ["ada@example.com", "bob@example.com"]);
        assert_eq!(header.cc, ["c@example.com", "d@example.com"]);
        assert_eq!(header.bcc, ["e@example.com"]);
        assert_eq!(header.subject, "Grüße");
    }

    #[test]
    fn what_is_no_message_has_an_empty_header() {
        assert_eq!(read_header(b""), MailFields::default());
        assert_eq!(read_header(b"\xff\xfe\x00nothing"), MailFields::default());
    }
}
