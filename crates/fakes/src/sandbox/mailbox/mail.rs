//! One mail, as the mailbox keeps and shows it.

use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

/// The form in which a mail's content was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MailKind {
    /// Subject and bodies, put together by SES.
    #[default]
    Simple,
    /// A whole MIME message in base64.
    Raw,
    /// Name or text of a template, with its data.
    Template,
    /// A text message; the subject is its text.
    Text,
}

/// The answer that the sender received about an accepted mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MailStatus {
    /// The answer reached the sender.
    Accepted,
    /// The mail was accepted and the answer withheld (the fault `lost-answer`).
    AnswerLost,
}

/// The members of a request that the mailbox keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct MailFields {
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    pub(crate) cc: Vec<String>,
    pub(crate) bcc: Vec<String>,
    pub(crate) subject: String,
    #[serde(serialize_with = "by_name")]
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) kind: MailKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// The resources that a mail for a tenant uses beside its sender, such as `configuration-set/news`.
    #[serde(skip)]
    pub(crate) used: Vec<String>,
    /// The parts of a text message, which count as a mail's recipients do; none for a mail.
    #[serde(skip)]
    pub(crate) parts: Option<u32>,
}

impl MailFields {
    pub(crate) fn all_recipients(&self) -> impl Iterator<Item = &str> {
        self.to.iter().chain(&self.cc).chain(&self.bcc).map(String::as_str)
    }

    pub(crate) fn recipients(&self) -> u32 {
        let recipients = self.to.len() + self.cc.len() + self.bcc.len();
        self.parts.unwrap_or_else(|| u32::try_from(recipients).unwrap_or(u32::MAX))
    }

    pub(crate) fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The address in `Name <address>`, or the whole where there are no angle brackets.
pub(crate) fn address_of(mailbox: &str) -> &str {
    let mailbox = mailbox.trim();
    let inner = mailbox.strip_suffix('>').and_then(|rest| rest.rsplit_once('<'));
    inner.map_or(mailbox, |(_, address)| address)
}

/// Shows tags as an object.
fn by_name<S: Serializer>(tags: &[(String, String)], out: S) -> Result<S::Ok, S::Error> {
    out.collect_map(tags.iter().map(|(name, value)| (name, value)))
}

/// Metadata of one accepted mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailRecord {
    /// The mail's number; numbers rise by one and never start again, not even when the mailbox
    /// is emptied.
    pub seq: u64,
    /// Time at which the request was fully read, in nanoseconds since the epoch.
    pub arrived_ns: u64,
    pub status: MailStatus,
    pub(crate) draft: MailFields,
}

impl MailRecord {
    /// Recipients in To, Cc and Bcc, or a text message's parts.
    pub fn recipients(&self) -> u32 {
        self.draft.recipients()
    }

    /// The value of one of its tags.
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.draft.tag(name)
    }

    /// SES's tenant for which it was sent.
    pub fn tenant(&self) -> Option<&str> {
        self.draft.tenant.as_deref()
    }

    /// The id that SES would give it: the millisecond of its arrival, and its number.
    pub fn message_id(&self) -> String {
        let (millis, seq) = (self.arrived_ns / 1_000_000, self.seq);
        let (low, high) = (seq & 0xffff_ffff_ffff, seq >> 48);
        format!("{millis:016x}-5e5a4d00-0000-4000-{:04x}-{low:012x}-000000", 0x8000 | high)
    }
}

impl Serialize for MailRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            seq: u64,
            arrived_at: String,
            arrived_ns: u64,
            #[serde(flatten)]
            fields: &'a MailFields,
            recipients: u32,
            message_id: String,
            status: MailStatus,
        }
        Shown {
            seq: self.seq,
            arrived_at: rfc3339(self.arrived_ns),
            arrived_ns: self.arrived_ns,
            fields: &self.draft,
            recipients: self.recipients(),
            message_id: self.message_id(),
            status: self.status,
        }
        .serialize(serializer)
    }
}

/// RFC 3339 in UTC with all nine digits, so that texts sort as times do.
const RFC3339: &[BorrowedFormatItem<'static>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:9]Z");

/// Writes nanoseconds since the epoch as RFC 3339.
pub(crate) fn rfc3339(ns: u64) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(ns))
        .ok()
        .and_then(|at| at.format(RFC3339).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_what_stands_in_angle_brackets_or_the_whole() {
        assert_eq!(address_of("Ada <ada@example.com>"), "ada@example.com");
        assert_eq!(address_of("\"<odd>\" <ada@example.com>"), "ada@example.com");
        assert_eq!(address_of(" ada@example.com "), "ada@example.com");
    }

    #[test]
    fn a_time_is_written_with_nine_digits() {
        assert_eq!(rfc3339(1_795_206_967_000_000_120), "2026-11-20T20:36:07.000000120Z");
    }

    #[test]
    fn message_ids_differ_by_number_and_by_time() {
        let mail = |seq, arrived_ns| MailRecord {
            seq,
            arrived_ns,
            status: MailStatus::Accepted,
            draft: MailFields::default(),
        };
        assert_ne!(mail(1, 0).message_id(), mail(2, 0).message_id());
        assert_ne!(mail(1, 0).message_id(), mail(1, 1_000_000).message_id());
        assert_eq!(
            mail(1, 0).message_id().len(),
            "0100018c2f0a1b2c-5e5a4d00-0000-4000-8000-000000000001-000000".len()
        );
    }
}
