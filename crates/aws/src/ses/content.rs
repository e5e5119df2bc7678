//! A mail as SES v2 takes it.

use aws_sdk_sesv2::error::BuildError;
use aws_sdk_sesv2::primitives::Blob;
use aws_sdk_sesv2::types::{
    Attachment, AttachmentContentTransferEncoding, Body, Content as Text, Destination,
    EmailContent, Message, MessageHeader, MessageTag, Template,
};
use tidegate_core::email::{Address, Content, Email, ses_tag_value};
use tidegate_delivery::ports::Mail;

pub(super) fn destination(email: &Email) -> Destination {
    Destination::builder()
        .set_to_addresses(addresses(email.to()))
        .set_cc_addresses(addresses(email.cc()))
        .set_bcc_addresses(addresses(email.bcc()))
        .build()
}

/// `None` for no address: SES needs no empty lists.
pub(super) fn addresses(addresses: &[Address]) -> Option<Vec<String>> {
    (!addresses.is_empty()).then(|| addresses.iter().map(Address::header_value).collect())
}

pub(super) fn content(email: &Email) -> Result<EmailContent, BuildError> {
    let headers = headers(email)?;
    let attachments = attachments(email)?;
    let content = EmailContent::builder();
    Ok(match email.content() {
        Content::Simple { subject, text: plain, html } => {
            let part = |part: &Option<String>| part.as_deref().map(text).transpose();
            let body = Body::builder().set_text(part(plain)?).set_html(part(html)?).build();
            let message = Message::builder().subject(text(subject)?).body(body);
            let message = message.set_headers(headers).set_attachments(attachments).build();
            content.simple(message).build()
        }
        Content::Template { name, data } => {
            let template = Template::builder().template_name(name).template_data(data);
            let template = template.set_headers(headers).set_attachments(attachments).build();
            content.template(template).build()
        }
    })
}

/// The producer's tags, and the two that every mail of Tidegate's carries.
pub(super) fn tags(mail: Mail<'_>) -> Result<Vec<MessageTag>, BuildError> {
    let (campaign, id) = (ses_tag_value(mail.campaign), ses_tag_value(mail.id));
    let own = [("tidegate_campaign", campaign.as_ref()), ("tidegate_id", id.as_ref())];
    let producers = mail.email.tags().iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let tag = |(name, value)| MessageTag::builder().name(name).value(value).build();
    own.into_iter().chain(producers).map(tag).collect()
}

fn text(text: &str) -> Result<Text, BuildError> {
    // Without it SES reads 7-bit ASCII.
    Text::builder().data(text).charset("UTF-8").build()
}

fn headers(email: &Email) -> Result<Option<Vec<MessageHeader>>, BuildError> {
    let header = |(name, value)| MessageHeader::builder().name(name).value(value).build();
    let headers: Vec<_> = email.headers().map(header).collect::<Result<_, _>>()?;
    Ok(Some(headers).filter(|headers| !headers.is_empty()))
}

fn attachments(email: &Email) -> Result<Option<Vec<Attachment>>, BuildError> {
    let attachments: Vec<_> = email
        .attachments()
        .iter()
        .map(|attachment| {
            Attachment::builder()
                .file_name(&attachment.name)
                .set_content_type(attachment.content_type.clone())
                // SES's own choice is 7-bit, which a binary file does not survive.
                .content_transfer_encoding(AttachmentContentTransferEncoding::Base64)
                .raw_content(Blob::new(attachment.content.clone()))
                .build()
        })
        .collect::<Result<_, _>>()?;
    Ok(Some(attachments).filter(|attachments| !attachments.is_empty()))
}
