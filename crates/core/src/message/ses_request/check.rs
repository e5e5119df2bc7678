//! The checks of SES on what a request holds, in SES's words where they are known.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{
    NameValue, SesAttachment, SesContent, SesRequest, SesSimple, SesTemplate, bad_request,
};
use crate::email::{MAX_RECIPIENTS, file_name_fault};
use crate::outcome::Failure;
use crate::text::is_word_of;

/// Most tags of one mail.
const MOST_TAGS: usize = 50;
/// Most characters of a tag's name, and of its value.
const MOST_TAG_CHARS: usize = 256;
/// Most bytes of template data that SES takes (256 KiB).
const MOST_TEMPLATE_DATA: usize = 262_144;

/// The address in `Name <address>`, or the whole where there are no angle brackets.
///
/// ```
/// use tidegate_core::ses_request::address_of;
/// assert_eq!(address_of("\"<odd>\" <ada@example.com>"), "ada@example.com");
/// assert_eq!(address_of(" ada@example.com "), "ada@example.com");
/// ```
pub fn address_of(mailbox: &str) -> &str {
    let mailbox = mailbox.trim();
    let inner = mailbox.strip_suffix('>').and_then(|rest| rest.rsplit_once('<'));
    inner.map_or(mailbox, |(_, address)| address)
}

/// Checks what each mail of a bulk has of its own.
pub(super) fn check(mail: &SesRequest) -> Result<(), Failure> {
    match mail.destination.all().count() {
        0 => return Err(bad_request("Missing required header 'To'.")),
        1..=MAX_RECIPIENTS => mail.destination.all().try_for_each(check_address)?,
        _ => return Err(bad_request(format!("Recipient count exceeds {MAX_RECIPIENTS}."))),
    }
    if mail.tags.len() > MOST_TAGS {
        return Err(bad_request(format!("Tag count exceeds {MOST_TAGS}.")));
    }
    match &mail.content {
        SesContent::Simple(SesSimple { headers, .. })
        | SesContent::Template(SesTemplate { headers, .. }) => {
            headers.iter().try_for_each(check_header)
        }
        SesContent::Raw(_) => Ok(()),
    }
}

/// Checks what the mails of a bulk share.
pub(super) fn check_shared(mail: &SesRequest) -> Result<(), Failure> {
    if mail.from.is_empty() {
        return Err(bad_request("Missing required header 'From'."));
    }
    check_address(&mail.from)?;
    mail.reply_to.iter().map(String::as_str).try_for_each(check_address)?;
    match &mail.content {
        SesContent::Raw(_) => Ok(()),
        SesContent::Simple(SesSimple { body, attachments, .. }) => {
            if body.text.is_none() && body.html.is_none() {
                return Err(bad_request("Body: Text or Html must be given."));
            }
            attachments.iter().try_for_each(check_attachment)
        }
        SesContent::Template(template) => {
            let names = [&template.template_name, &template.template_arn].into_iter().flatten();
            if names.count() + usize::from(template.template_content.is_some()) != 1 {
                let message =
                    "Exactly one of TemplateName, TemplateArn and TemplateContent must be given.";
                return Err(bad_request(message));
            }
            check_data(&template.template_data, "TemplateData")?;
            template.attachments.iter().try_for_each(check_attachment)
        }
    }
}

fn check_address(mailbox: &str) -> Result<(), Failure> {
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

fn check_header(NameValue { name, value }: &NameValue) -> Result<(), Failure> {
    let printable = |byte: u8| byte.is_ascii_graphic() && byte != b':';
    if name.is_empty() || !name.bytes().all(printable) {
        return Err(bad_request(format!("Invalid header name <{name}>.")));
    }
    if value.contains(['\r', '\n']) {
        let message = format!("Invalid value of header <{name}>: it contains a line break.");
        return Err(bad_request(message));
    }
    Ok(())
}

fn check_attachment(file: &SesAttachment) -> Result<(), Failure> {
    let content = decode(&file.raw_content, "Attachments.RawContent")?;
    let id = file.content_id.as_ref().map_or(1, String::len);
    let shown = file.content_disposition.as_deref().unwrap_or("INLINE");
    let wrong = [
        (file_name_fault(&file.file_name).is_some() || content.is_empty(), "file"),
        (!(1..=78).contains(&id), "ContentId"),
        (!["ATTACHMENT", "INLINE"].contains(&shown), "ContentDisposition"),
    ];
    match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
        Some((_, member)) => Err(bad_request(format!("Attachments: invalid {member}."))),
        None => Ok(()),
    }
}

pub(super) fn decode(data: &str, member: &str) -> Result<Vec<u8>, Failure> {
    STANDARD.decode(data).map_err(|error| bad_request(format!("{member} is not base64: {error}.")))
}

/// A value that nests deeper than 128 levels is refused, too: merging data relies on it.
pub(super) fn check_data(data: &str, member: &str) -> Result<(), Failure> {
    let is_object = data.is_empty() || serde_json::from_str::<Map<String, Value>>(data).is_ok();
    if is_object && data.len() <= MOST_TEMPLATE_DATA {
        return Ok(());
    }
    Err(bad_request(format!(
        "{member} must be a JSON object of at most {MOST_TEMPLATE_DATA} bytes."
    )))
}

/// The tags of a list by name.
pub(super) fn tags(list: Vec<NameValue>) -> Result<BTreeMap<String, String>, Failure> {
    let mut tags = BTreeMap::new();
    for NameValue { name, value } in list {
        for (which, text) in [("name", &name), ("value", &value)] {
            if !is_word_of(text, MOST_TAG_CHARS, "_-") {
                return Err(bad_request(format!(
                    "Invalid tag {which} <{text}>: only alphanumeric ASCII characters, '_', and '-' \
                     are allowed, 1 to {MOST_TAG_CHARS} of them."
                )));
            }
        }
        if tags.contains_key(&name) {
            return Err(bad_request(format!("Duplicate tag name <{name}>.")));
        }
        tags.insert(name, value);
    }
    Ok(tags)
}
