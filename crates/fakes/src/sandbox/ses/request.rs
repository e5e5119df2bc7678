//! A request as the mailbox keeps it.

use tidegate_core::ses_request::{RawHeader, SesContent, SesRequest};

use crate::sandbox::mailbox::{MailFields, MailKind};

/// The most bytes of a request: SES takes mails of 40 MiB after base64.
pub(super) const MOST_BYTES: usize = 40 * 1024 * 1024;

// Members that the mailbox does not keep are ignored, as the protocol wants.
impl From<SesRequest> for MailFields {
    fn from(mail: SesRequest) -> Self {
        let set = mail.configuration_set.map(|set| format!("configuration-set/{set}"));
        let mut used: Vec<String> = set.into_iter().collect();
        let (kind, subject) = match mail.content {
            SesContent::Simple(simple) => (MailKind::Simple, simple.subject.data),
            SesContent::Raw(message) => (MailKind::Raw, RawHeader::read(&message).subject),
            SesContent::Template(template) => {
                used.extend(template.template_name.iter().map(|name| format!("template/{name}")));
                let named = template.template_name.or(template.template_arn);
                let named = named.as_deref().unwrap_or("inline template");
                (MailKind::Template, format!("[{named}]"))
            }
        };
        Self {
            from: mail.from,
            to: mail.destination.to,
            cc: mail.destination.cc,
            bcc: mail.destination.bcc,
            subject,
            tags: mail.tags.into_iter().collect(),
            kind,
            used: if mail.tenant.is_some() { used } else { Vec::new() },
            tenant: mail.tenant,
            parts: None,
        }
    }
}

#[cfg(test)]
mod tests;
