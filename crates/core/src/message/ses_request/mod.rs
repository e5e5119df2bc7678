//! SES's send calls, read into one type: `SendEmail` and `SendBulkEmail` of version 2 (JSON), and `SendEmail`,
//! `SendRawEmail`, `SendTemplatedEmail` and `SendBulkTemplatedEmail` of version 1 (the query protocol).
//!
//! A request that is read has passed the checks of SES that need no account. Failures have the codes of version 2;
//! [`write_answer`] gives them those of version 1 where that is spoken.
//!
//! ```
//! use tidegate_core::ses_request::{SesContent, read_send_email};
//! let body = br#"{"FromEmailAddress": "news@example.org", "Destination": {"ToAddresses": ["ada@example.com"]},
//!     "Content": {"Simple": {"Subject": {"Data": "Hello"}, "Body": {"Text": {"Data": "Text."}}}},
//!     "EndpointId": "abcdef12.g3h"}"#;
//! let mail = read_send_email(body).unwrap();
//! assert_eq!((mail.destination.all().count(), mail.others), (1, vec!["EndpointId".to_owned()]));
//! assert!(matches!(mail.content, SesContent::Simple(simple) if simple.subject.data == "Hello"));
//! ```

mod answer;
mod check;
mod json;
mod query;

use std::collections::BTreeMap;

use mail_parser::{Address, MessageParser};
use serde::Deserialize;

use crate::outcome::{Failure, answered};

pub use answer::{SesAccount, SesAnswer, SesProtocol, SesReply, write_answer};
pub use check::address_of;
pub use json::{SesBulk, read_send_bulk_email, read_send_email};
pub use query::{QueryCall, SesMails};

/// One mail as a call of SES asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SesRequest {
    /// The sender, with or without a display name; of a raw message that comes without one, its `From`.
    pub from: String,
    /// The recipients, 1 to 50; of a raw message that comes without any, those of its header.
    pub destination: SesDestination,
    /// The addresses for replies.
    pub reply_to: Vec<String>,
    /// Subject and bodies, a whole message, or a template with its data.
    pub content: SesContent,
    /// Message tags, at most 50.
    pub tags: BTreeMap<String, String>,
    /// The configuration set; none if the call names none.
    pub configuration_set: Option<String>,
    /// The tenant; none if the call names none.
    pub tenant: Option<String>,
    /// Paths of the call's other members, at most [`MOST_OTHERS`], such as `ListManagementOptions` or `EndpointId`: a
    /// mail that is sent without them is not the mail that was asked for. A member's name that may be an address is `?`.
    pub others: Vec<String>,
}

impl SesRequest {
    /// A mail without settings.
    pub fn new(from: String, destination: SesDestination, content: SesContent) -> Self {
        Self {
            from,
            destination,
            reply_to: Vec::new(),
            content,
            tags: BTreeMap::new(),
            configuration_set: None,
            tenant: None,
            others: Vec::new(),
        }
    }
}

/// Recipients, with or without display names.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct SesDestination {
    /// Those whom the mail is sent to.
    #[serde(rename = "ToAddresses")]
    pub to: Vec<String>,
    /// Those who get a copy.
    #[serde(rename = "CcAddresses")]
    pub cc: Vec<String>,
    /// Those who get a copy that others do not see.
    #[serde(rename = "BccAddresses")]
    pub bcc: Vec<String>,
}

impl SesDestination {
    /// All recipients; SES counts them.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.to.iter().chain(&self.cc).chain(&self.bcc).map(String::as_str)
    }
}

/// Most paths that [`SesRequest::others`] keeps.
pub const MOST_OTHERS: usize = 20;

/// The content of a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SesContent {
    /// Subject and bodies, put together by SES.
    Simple(SesSimple),
    /// A whole MIME message, decoded from base64.
    Raw(Vec<u8>),
    /// A template, which SES fills.
    Template(SesTemplate),
}

/// A content that SES puts together.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct SesSimple {
    /// The subject line.
    pub subject: SesText,
    /// The bodies.
    pub body: SesBody,
    /// Headers that are set beside those that SES sets.
    #[serde(default)]
    pub headers: Vec<NameValue>,
    /// Attached files.
    #[serde(default)]
    pub attachments: Vec<SesAttachment>,
}

/// A text. Its charset is how it was to travel, and nothing that is lost.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct SesText {
    /// The text itself.
    pub data: String,
}

/// The bodies of a mail, at least one.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct SesBody {
    /// The plain-text body.
    pub text: Option<SesText>,
    /// The HTML body.
    pub html: Option<SesText>,
}

/// A template with its data: exactly one of `template_name`, `template_arn` and `template_content` is there.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct SesTemplate {
    /// The name of a template in the account.
    pub template_name: Option<String>,
    /// The ARN of a template, which may be another account's.
    pub template_arn: Option<String>,
    /// The template's text.
    pub template_content: Option<SesTemplateContent>,
    /// A JSON object of at most 256 KiB as it was written, or empty.
    #[serde(default)]
    pub template_data: String,
    /// Headers that are set beside the template's.
    #[serde(default)]
    pub headers: Vec<NameValue>,
    /// Attached files.
    #[serde(default)]
    pub attachments: Vec<SesAttachment>,
}

/// The text of a template.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct SesTemplateContent {
    /// The subject line.
    pub subject: Option<String>,
    /// The plain-text body.
    pub text: Option<String>,
    /// The HTML body.
    pub html: Option<String>,
}

/// A header, or a tag where a call lists them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct NameValue {
    /// The name; of a header printable ASCII without a colon.
    pub name: String,
    /// The value; of a header without line breaks.
    pub value: String,
}

/// An attached file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct SesAttachment {
    /// The file's bytes, at least one, in base64.
    pub raw_content: String,
    /// The file's name with its extension.
    pub file_name: String,
    /// The MIME type; none if SES shall derive it from the name.
    pub content_type: Option<String>,
    /// The id by which HTML shows it.
    pub content_id: Option<String>,
    /// `ATTACHMENT` or `INLINE`; SES's default is `ATTACHMENT`.
    pub content_disposition: Option<String>,
}

/// Sender, recipients and subject as a MIME message's header names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawHeader {
    /// The first address of `From`, without its name; empty if there is none.
    pub from: String,
    /// The addresses of `To`, `Cc` and `Bcc`, those in groups too, without their names.
    pub destination: SesDestination,
    /// The subject, decoded.
    pub subject: String,
}

impl RawHeader {
    /// Reads the header of a message; what is not there stays empty.
    pub fn read(message: &[u8]) -> Self {
        let Some(message) = MessageParser::default().parse_headers(message) else {
            return Self::default();
        };
        let addresses = |field: Option<&Address<'_>>| -> Vec<String> {
            let all = field.into_iter().flat_map(Address::iter);
            all.filter_map(|it| it.address.as_deref().map(str::to_owned)).collect()
        };
        let (to, cc) = (addresses(message.to()), addresses(message.cc()));
        Self {
            from: addresses(message.from()).into_iter().next().unwrap_or_default(),
            destination: SesDestination { to, cc, bcc: addresses(message.bcc()) },
            subject: message.subject().unwrap_or_default().to_owned(),
        }
    }
}

fn bad_request(message: impl Into<String>) -> Failure {
    answered(400, "BadRequestException", message)
}

#[cfg(test)]
mod tests;
