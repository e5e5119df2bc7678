//! Reading and checking a `SendEmail` request as SES does.

mod check;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use tidegate_core::email::file_name_fault;

use super::mime::read_header;
use crate::sandbox::mailbox::{MailFields, MailKind};
use crate::ses::SesError;

/// The most bytes of a request: SES takes mails of 40 MiB after base64.
pub(crate) const MOST_BYTES: usize = 40 * 1024 * 1024;

// Members that are not read here are ignored, as the protocol wants.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct SendEmail {
    from_email_address: Option<String>,
    destination: Option<DestinationJson>,
    content: Option<ContentJson>,
    email_tags: Option<Vec<NameValue>>,
    configuration_set_name: Option<String>,
    tenant_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
#[expect(clippy::struct_field_names, reason = "these are the API's member names")]
struct DestinationJson {
    to_addresses: Option<Vec<String>>,
    cc_addresses: Option<Vec<String>>,
    bcc_addresses: Option<Vec<String>>,
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
    raw: Option<RawJson>,
    template: Option<TemplateJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SimpleJson {
    subject: TextJson,
    body: BodyJson,
    headers: Option<Vec<NameValue>>,
    attachments: Option<Vec<AttachmentJson>>,
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
struct RawJson {
    data: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TemplateJson {
    template_name: Option<String>,
    template_arn: Option<String>,
    template_content: Option<serde::de::IgnoredAny>,
    template_data: Option<String>,
    headers: Option<Vec<NameValue>>,
    attachments: Option<Vec<AttachmentJson>>,
}

/// Reads a request's body and checks it as SES would.
pub(crate) fn parse_send_email(body: &[u8]) -> Result<MailFields, SesError> {
    // A list in a struct's place would be read as its members in order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(SesError::bad_request("The request is not a JSON object."));
    }
    let request: SendEmail = serde_json::from_slice(body)
        .map_err(|error| SesError::bad_request(fault_in(body, &error)))?;
    let tags = check::tags(request.email_tags.unwrap_or_default())?;
    let destination = request.destination.unwrap_or_default();
    let mut draft = MailFields {
        from: request.from_email_address.unwrap_or_default(),
        to: destination.to_addresses.unwrap_or_default(),
        cc: destination.cc_addresses.unwrap_or_default(),
        bcc: destination.bcc_addresses.unwrap_or_default(),
        tags,
        tenant: request.tenant_name,
        ..MailFields::default()
    };
    let content = request.content.unwrap_or_default();
    if draft.tenant.is_some() {
        let set = request.configuration_set_name.map(|set| format!("configuration-set/{set}"));
        let template = content.template.as_ref().and_then(|it| it.template_name.as_ref());
        let template = template.map(|name| format!("template/{name}"));
        draft.used = set.into_iter().chain(template).collect();
    }
    match content {
        ContentJson { simple: Some(simple), raw: None, template: None } => {
            simple.fill(&mut draft)?;
        }
        ContentJson { simple: None, raw: Some(raw), template: None } => raw.fill(&mut draft)?,
        ContentJson { simple: None, raw: None, template: Some(template) } => {
            template.fill(&mut draft)?;
        }
        _ => {
            let message = "Content: exactly one of Simple, Raw and Template must be given.";
            return Err(SesError::bad_request(message));
        }
    }
    check::addresses(&draft)?;
    Ok(draft)
}

impl SimpleJson {
    fn fill(self, draft: &mut MailFields) -> Result<(), SesError> {
        if self.body.text.is_none() && self.body.html.is_none() {
            return Err(SesError::bad_request("Content.Simple.Body: Text or Html must be given."));
        }
        check::headers(self.headers.as_deref().unwrap_or_default())?;
        attachments(self.attachments.as_deref().unwrap_or_default())?;
        draft.kind = MailKind::Simple;
        draft.subject = self.subject.data;
        Ok(())
    }
}

impl RawJson {
    fn fill(self, draft: &mut MailFields) -> Result<(), SesError> {
        let header = read_header(&decode(&self.data, "Content.Raw.Data")?);
        draft.kind = MailKind::Raw;
        draft.subject = header.subject;
        if draft.from.is_empty() {
            draft.from = header.from;
        }
        // The destination decides who gets the mail; the header only where there is none.
        if draft.recipients() == 0 {
            (draft.to, draft.cc, draft.bcc) = (header.to, header.cc, header.bcc);
        }
        Ok(())
    }
}

impl TemplateJson {
    fn fill(self, draft: &mut MailFields) -> Result<(), SesError> {
        let named = self.template_name.or(self.template_arn);
        if named.is_none() && self.template_content.is_none() {
            let message =
                "Content.Template: TemplateName, TemplateArn or TemplateContent must be given.";
            return Err(SesError::bad_request(message));
        }
        let data = self.template_data.unwrap_or_default();
        let is_object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&data);
        if !data.is_empty() && is_object.is_err() {
            let message = "Content.Template.TemplateData must be a JSON object.";
            return Err(SesError::bad_request(message));
        }
        check::headers(self.headers.as_deref().unwrap_or_default())?;
        attachments(self.attachments.as_deref().unwrap_or_default())?;
        draft.kind = MailKind::Template;
        draft.subject = format!("[{}]", named.as_deref().unwrap_or("inline template"));
        Ok(())
    }
}

fn attachments(attachments: &[AttachmentJson]) -> Result<(), SesError> {
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
            return Err(SesError::bad_request(format!("Attachments: invalid {what}.")));
        }
    }
    Ok(())
}

fn decode(data: &str, member: &str) -> Result<Vec<u8>, SesError> {
    STANDARD
        .decode(data)
        .map_err(|error| SesError::bad_request(format!("{member} is not base64: {error}.")))
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

#[cfg(test)]
mod tests;
