//! The body of a `SendEmail` request of SES v2 for one mail.

use std::borrow::Cow;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use tidegate_core::email::{self, Address, Email, TextLiteral, ses_tag_value};
use tidegate_core::reputation::LIMIT_TAG;
use tidegate_delivery::ports::Mail;

use crate::aws::json::Text;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::aws) struct Request<'a> {
    from_email_address: String,
    destination: Destination,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reply_to_addresses: Vec<String>,
    content: SesContent<'a>,
    email_tags: Vec<NamedValue<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration_set_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_name: Option<&'a str>,
}

#[derive(Serialize)]
struct Destination {
    #[serde(rename = "ToAddresses", skip_serializing_if = "Vec::is_empty")]
    to: Vec<String>,
    #[serde(rename = "CcAddresses", skip_serializing_if = "Vec::is_empty")]
    cc: Vec<String>,
    #[serde(rename = "BccAddresses", skip_serializing_if = "Vec::is_empty")]
    bcc: Vec<String>,
}

#[derive(Serialize)]
enum SesContent<'a> {
    #[serde(rename_all = "PascalCase")]
    Simple {
        subject: TextPart<&'a str>,
        body: ContentBody<'a>,
        #[serde(flatten)]
        beside: HeadersAndAttachments<'a>,
    },
    #[serde(rename_all = "PascalCase")]
    Template {
        template_name: &'a str,
        template_data: Text<'a>,
        #[serde(flatten)]
        beside: HeadersAndAttachments<'a>,
    },
}

/// Members that simple and templated content share.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HeadersAndAttachments<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<NamedValue<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<AttachmentBody<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ContentBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextPart<&'a TextLiteral>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<TextPart<&'a TextLiteral>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TextPart<T> {
    data: T,
    charset: &'static str,
}

impl<'a, T: ?Sized> TextPart<&'a T> {
    fn of(data: &'a T) -> Self {
        // Without a charset SES assumes 7-bit ASCII.
        Self { data, charset: "UTF-8" }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct NamedValue<'a> {
    name: &'a str,
    value: Cow<'a, str>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AttachmentBody<'a> {
    file_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    content_transfer_encoding: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_disposition: Option<String>,
    #[serde(serialize_with = "base64")]
    raw_content: &'a [u8],
}

/// The request for the mail `email`; `configuration_set` is used if the mail names none.
pub(in crate::aws) fn request<'a>(
    mail: &Mail<'a>,
    email: &'a Email,
    configuration_set: Option<&'a str>,
) -> Request<'a> {
    Request {
        from_email_address: email.from.header_value(),
        destination: Destination {
            to: addresses(&email.to),
            cc: addresses(&email.cc),
            bcc: addresses(&email.bcc),
        },
        reply_to_addresses: addresses(&email.reply_to),
        content: content(email),
        email_tags: tags(mail, email),
        configuration_set_name: mail
            .through
            .or(email.configuration_set.as_deref())
            .or(configuration_set),
        tenant_name: mail.tenant,
    }
}

/// The approximate number of bytes of text and files in the mail.
pub(in crate::aws) fn size(email: &Email) -> usize {
    let text = match &email.content {
        email::Content::Simple { text, html, .. } => {
            [text, html].into_iter().flatten().map(|text| text.literal().len()).sum()
        }
        email::Content::Template { data, .. } => data.len(),
    };
    let files = email.attachments.iter().map(|file| file.content.len().div_ceil(3) * 4);
    files.sum::<usize>() + text
}

fn addresses(addresses: &[Address]) -> Vec<String> {
    addresses.iter().map(Address::header_value).collect()
}

fn content(email: &Email) -> SesContent<'_> {
    let headers = email.headers().map(|(name, value)| NamedValue { name, value: value.into() });
    let attachments = email.attachments.iter().map(AttachmentBody::of);
    let beside =
        HeadersAndAttachments { headers: headers.collect(), attachments: attachments.collect() };
    match &email.content {
        email::Content::Simple { subject, text: plain, html } => SesContent::Simple {
            subject: TextPart::of(subject),
            body: ContentBody {
                text: plain.as_ref().map(TextPart::of),
                html: html.as_ref().map(TextPart::of),
            },
            beside,
        },
        email::Content::Template { name, data } => {
            SesContent::Template { template_name: name, template_data: Text(data), beside }
        }
    }
}

/// Most tags of a mail that SES takes. A producer may give 48; then the tag of the limits is left out.
const MAX_TAGS: usize = 50;

/// The tags `tidegate_campaign` and `tidegate_id` that every mail carries, the producer's, and that of the limits.
fn tags<'a>(mail: &Mail<'a>, email: &'a Email) -> Vec<NamedValue<'a>> {
    let own = [("tidegate_campaign", mail.campaign), ("tidegate_id", mail.id)];
    let own = own.map(|(name, value)| NamedValue { name, value: ses_tag_value(value) });
    let limits =
        mail.limits.map(|value| NamedValue { name: LIMIT_TAG, value: ses_tag_value(value) });
    let producers = email.tags.iter();
    let producers = producers.map(|(name, value)| NamedValue { name, value: value.into() });
    own.into_iter().chain(producers).chain(limits).take(MAX_TAGS).collect()
}

impl<'a> AttachmentBody<'a> {
    fn of(file: &'a email::Attachment) -> Self {
        Self {
            file_name: &file.name,
            content_type: file.content_type.as_deref(),
            // SES's default is 7-bit, which corrupts binary files.
            content_transfer_encoding: "BASE64",
            content_id: file.content_id.as_deref(),
            content_disposition: file.disposition.as_deref().map(str::to_ascii_uppercase),
            raw_content: &file.content,
        }
    }
}

fn base64<S: Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Base64Display::new(bytes, &STANDARD))
}
