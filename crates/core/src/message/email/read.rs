//! Reads a mail from a message body: determines the form, then reads member by member.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::address::Address;
use super::error::{EmailError, EmailErrorKind};
use super::json::{Node, readable};
use super::members::{self, Members};
use super::raw::RawMail;
use super::stored::{CONTENT, MAX_MAIL_BYTES, StoredContent};
use super::wrapped;
use super::{
    Content, Email, ListUnsubscribe, MAX_ID_CHARS, MAX_RECIPIENTS, Priority, content, headers, tags,
};
use crate::config::is_word;
use crate::identity::EpochMillis;
use crate::text::has_control;

/// Members of the short form, of the long and the raw form, and of all. Error messages list them in this order, and
/// `docs/message.schema.json` describes each.
const SHORT: [&str; 3] = ["to_address", "from_address", "body"];
const LONG: [&str; 14] = [
    "to",
    "cc",
    "bcc",
    "from",
    "reply_to",
    "text",
    "html",
    "template",
    "raw",
    "headers",
    "attachments",
    "configuration_set",
    "list_unsubscribe",
    "stored",
];
const BOTH: [&str; 5] = ["subject", "id", "priority", "tags", "not_before"];

/// Members that do not stand beside `raw` or `template`, which have their own.
const BESIDE_RAW: [&str; 10] = [
    "cc",
    "bcc",
    "reply_to",
    "subject",
    "text",
    "html",
    "template",
    "headers",
    "attachments",
    "list_unsubscribe",
];
const BESIDE_TEMPLATE: [&str; 3] = ["subject", "text", "html"];

const SET: &str = "must be 1 to 64 letters, digits, _ and -";

impl Email {
    /// Reads a message body in any form: checks for duplicates, unknown members and mixed forms first.
    ///
    /// # Errors
    /// [`EmailError`] for the first fault, with the field.
    pub fn parse(body: &str) -> Result<Self, EmailError> {
        Self::read(members_of(body, &[&SHORT[..], &LONG, &BOTH].concat())?, body)
    }

    /// Reads a body that points to `object`, with the content from there: the mail that one body with the members of both
    /// would be.
    ///
    /// # Errors
    /// As for [`Email::parse`]. The field is `stored` if the object is not a JSON object.
    pub fn with_object(body: &str, object: &[u8]) -> Result<Self, EmailError> {
        let mut members = members_of(body, &[&LONG[..], &BOTH].concat())?;
        refuse_beside(&members)?;
        members.take("stored");
        let unread = |fault: &dyn std::fmt::Display| {
            let problem = format!("must point to a JSON object ({fault})");
            EmailError::invalid("stored", problem)
        };
        let object = str::from_utf8(object).map_err(|fault| unread(&fault))?;
        members.extend(members_of(object, &CONTENT).map_err(|error| match error.kind {
            EmailErrorKind::NotJson => unread(&error.problem),
            _ => error,
        })?);
        Self::read(members, object)
    }

    /// `text` is the JSON in which the content stands.
    fn read(mut members: Members, text: &str) -> Result<Self, EmailError> {
        let short = members.names().find(|name| SHORT.contains(name));
        let long = members.names().find(|name| LONG.contains(name));
        if let (Some(short), Some(long)) = (short, long) {
            let problem =
                format!("must not stand with {long}: one is short form, one is long form");
            return Err(EmailError::new(EmailErrorKind::MixedForms, short, problem));
        }
        refuse_beside(&members)?;
        let is_short = short.is_some();
        let named = |in_short: &'static str, in_long| if is_short { in_short } else { in_long };
        let id = read_id(&mut members)?;
        let priority = read_priority(&mut members)?;
        let tags = read_tags(&mut members)?;
        let not_before = read_not_before(&mut members)?;
        let to = if is_short {
            vec![take_address(&mut members, "to_address")?]
        } else {
            take_addresses(&mut members, "to")?
        };
        let cc = take_addresses(&mut members, "cc")?;
        let bcc = take_addresses(&mut members, "bcc")?;
        let recipients = to.len() + cc.len() + bcc.len();
        if recipients == 0 {
            let problem = "must name 1 to 50 recipients, counted over to, cc and bcc (short form: \
                       to_address)";
            return Err(EmailError::missing("to", problem));
        }
        let from = take_address(&mut members, named("from_address", "from"))?;
        let (raw, template) = (members.take_text("raw")?, members.take("template"));
        let content = match (raw, template, members.take("stored")) {
            (Some(raw), ..) => Content::Raw(RawMail::read(raw)?),
            (None, Some(template), _) => content::read_template(template, text)?,
            (None, None, Some(stored)) => Content::Stored(StoredContent::read(stored)?),
            (None, None, None) => content::read_simple(&mut members, named("body", "text"))?,
        };
        let list_unsubscribe =
            members.take("list_unsubscribe").map(ListUnsubscribe::read).transpose()?;
        let unsubscribing = list_unsubscribe.is_some();
        let own_headers = members.take("headers").map(|node| headers::read(node, unsubscribing));
        let attachments = members.take("attachments").map(content::read_attachments);
        let attachments = attachments.transpose()?.unwrap_or_default();
        content::check_ids(&content, &attachments)?;
        let email = Self {
            id,
            priority,
            not_before,
            from,
            to,
            cc,
            bcc,
            reply_to: take_addresses(&mut members, "reply_to")?,
            content,
            own_headers: own_headers.transpose()?.unwrap_or_default(),
            attachments,
            configuration_set: members.take_allowed("configuration_set", is_word, SET)?,
            list_unsubscribe,
            tags,
        };
        if recipients > MAX_RECIPIENTS {
            let problem = "must be 1 to 50 recipients, counted over to, cc and bcc";
            return Err(EmailError::invalid("to", problem).with_found(recipients.to_string()));
        }
        let bytes = content::bytes(&email.content, &email.attachments);
        if bytes > MAX_MAIL_BYTES {
            let problem =
                format!("must be at most {MAX_MAIL_BYTES} bytes: SES takes no larger mail");
            return Err(EmailError::invalid("body", problem).with_found(format!("{bytes} bytes")));
        }
        Ok(email)
    }
}

/// The members of a JSON object, each of them `known` and there once.
fn members_of(json: &str, known: &[&str]) -> Result<Members, EmailError> {
    let node = Node::read(json)?;
    node.refuse_duplicates("")?;
    Members::known("", node, known)
}

/// Refuses members that say again, or otherwise, what the content of another one says.
fn refuse_beside(members: &Members) -> Result<(), EmailError> {
    let raw = "must not stand with raw, whose message has its own; all recipients stand in to";
    let template = "must not stand with template, which has its own";
    let stored = "must not stand with stored, whose object has it";
    let wholes = [
        ("stored", &CONTENT[..], stored),
        ("raw", &BESIDE_RAW, raw),
        ("template", &BESIDE_TEMPLATE, template),
    ];
    for (whole, parts, problem) in wholes {
        let is_there = members.names().any(|name| name == whole);
        let part = members.names().find(|name| is_there && parts.contains(name));
        if let Some(name) = part {
            return Err(EmailError::invalid(name, problem));
        }
    }
    Ok(())
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.chars().count() <= MAX_ID_CHARS && !has_control(id)
}

pub(crate) fn read_id(members: &mut Members) -> Result<Option<String>, EmailError> {
    members.take_allowed("id", is_id, "must be 1 to 256 characters, no control characters")
}

pub(crate) fn read_priority(members: &mut Members) -> Result<Priority, EmailError> {
    let known = "must be one of critical, high, normal, low";
    Ok(members.take_parsed("priority", known)?.unwrap_or_default())
}

pub(crate) fn read_not_before(members: &mut Members) -> Result<Option<EpochMillis>, EmailError> {
    let known = "must be a time with its zone (RFC 3339), like 2026-12-24T09:00:00+01:00";
    members.take_parsed("not_before", known)
}

pub(crate) fn read_tags(members: &mut Members) -> Result<BTreeMap<String, String>, EmailError> {
    members.take("tags").map_or_else(|| Ok(BTreeMap::new()), tags::read)
}

fn take_address(members: &mut Members, name: &str) -> Result<Address, EmailError> {
    match members.take_text(name)? {
        Some(text) => address(members.path_of(name), &text),
        None => Err(EmailError::missing(name, "must be one address like ada@example.com")),
    }
}

fn take_addresses(members: &mut Members, name: &str) -> Result<Vec<Address>, EmailError> {
    let texts = members.take_texts(name)?;
    texts.into_iter().map(|(path, text)| address(path, &text)).collect()
}

fn address(path: String, text: &str) -> Result<Address, EmailError> {
    Address::parse(text)
        .map_err(|fault| EmailError::invalid(path, fault.to_string()).with_value(text))
}

/// The `id` of a body, also of one that [`Email::parse`] refuses. None if there is none, if it stands
/// behind a syntax fault or twice, is not allowed as an `id`, or is that of another system's message around the mail.
///
/// ```
/// use tidegate_core::email::id_of;
/// assert_eq!(id_of(r#"{"id": "4711", "to": "nobody", "text": "cut o"#).as_deref(), Some("4711"));
/// assert_eq!(id_of(r#"{"id": 4711}"#), None);
/// ```
pub fn id_of(body: &str) -> Option<String> {
    match readable(body, &["id"]).as_slice() {
        [id] => serde_json::from_str(id.get())
            .ok()
            .filter(|id: &String| is_id(id) && wrapped::system(body).is_none()),
        _ => None,
    }
}

/// The recipients that a body names in `to`, `to_address` and `to_phone`, unchecked. The dead-letter entry of a
/// body that [`Email::parse`] refuses contains them. Those behind a syntax fault are missing.
pub fn addressed_to(body: &str) -> Vec<String> {
    let texts = |value: &RawValue| match serde_json::from_str(value.get()) {
        Ok(Node::Text(text)) => vec![text],
        Ok(Node::List(items)) => {
            items.into_iter().filter_map(|item| members::text("to", item).ok()).collect()
        }
        _ => Vec::new(),
    };
    readable(body, &["to_address", "to", "to_phone"]).into_iter().flat_map(texts).collect()
}
