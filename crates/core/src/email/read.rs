//! Reads a mail from a message body: determines the form, then reads member by member.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::address::Address;
use super::error::{EmailError, EmailErrorKind};
use super::json::{Node, readable};
use super::listed::{Form, MEMBERS, is_of};
use super::members::{self, Members};
use super::text::{has_control, is_ses_word_char};
use super::wrapped;
use super::{
    Content, Email, ListUnsubscribe, MAX_ID_CHARS, MAX_RECIPIENTS, Priority, content, headers, tags,
};

/// Most characters of a configuration set's name that SES takes.
pub(super) const MAX_CONFIGURATION_SET: usize = 64;
const SET: &str = "must be 1 to 64 letters, digits, _ and -";

/// Reads a message body in either form: checks for duplicates, unknown members and mixed forms first.
pub(super) fn email(body: &str) -> Result<Email, EmailError> {
    let node = Node::read(body)?;
    node.refuse_duplicates("")?;
    let mut members = Members::known("", node, &MEMBERS.map(|member| member.name))?;
    let short = members.names().find(|name| is_of(name, Form::Short));
    let long = members.names().find(|name| is_of(name, Form::Long));
    if let (Some(short), Some(long)) = (short, long) {
        let problem = format!("must not stand with {long}: one is short form, one is long form");
        return Err(EmailError::new(EmailErrorKind::MixedForms, short, problem));
    }
    let is_short = short.is_some();
    let id = read_id(&mut members)?;
    let priority = read_priority(&mut members)?;
    let tags = read_tags(&mut members)?;
    let email = if is_short { read_short(&mut members)? } else { read_long(&mut members, body)? };
    let recipients = email.to.len() + email.cc.len() + email.bcc.len();
    if !(1..=MAX_RECIPIENTS).contains(&recipients) {
        let problem = "must be 1 to 50 recipients, counted over to, cc and bcc";
        return Err(EmailError::invalid("to", problem).with_found(recipients.to_string()));
    }
    Ok(Email { id, priority, tags, ..email })
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.chars().count() <= MAX_ID_CHARS && !has_control(id)
}

pub(crate) fn read_id(members: &mut Members) -> Result<Option<String>, EmailError> {
    members.take_allowed("id", is_id, "must be 1 to 256 characters, no control characters")
}

pub(crate) fn read_priority(members: &mut Members) -> Result<Priority, EmailError> {
    members.take_text("priority")?.map_or(Ok(Priority::Normal), |name| Priority::read(&name))
}

pub(crate) fn read_tags(members: &mut Members) -> Result<BTreeMap<String, String>, EmailError> {
    members.take("tags").map_or_else(|| Ok(BTreeMap::new()), tags::read)
}

fn read_short(members: &mut Members) -> Result<Email, EmailError> {
    let to = take_address(members, "to_address")?;
    let from = take_address(members, "from_address")?;
    let content = content::read_simple(members, "body")?;
    Ok(bare(from, vec![to], content))
}

fn read_long(members: &mut Members, body: &str) -> Result<Email, EmailError> {
    let [to, cc, bcc, reply_to] = ["to", "cc", "bcc", "reply_to"];
    let to = take_addresses(members, to)?;
    let cc = take_addresses(members, cc)?;
    let bcc = take_addresses(members, bcc)?;
    if to.is_empty() && cc.is_empty() && bcc.is_empty() {
        let problem = "must name 1 to 50 recipients, counted over to, cc and bcc (short form: \
                       to_address)";
        return Err(EmailError::missing("to", problem));
    }
    let from = take_address(members, "from")?;
    let content = match members.take("template") {
        None => content::read_simple(members, "text")?,
        Some(template) => {
            let own = ["subject", "text", "html"];
            if let Some(name) = members.names().find(|name| own.contains(name)) {
                let problem = "must not stand with template, which has its own";
                return Err(EmailError::invalid(name, problem));
            }
            content::read_template(template, body)?
        }
    };
    let list_unsubscribe =
        members.take("list_unsubscribe").map(ListUnsubscribe::read).transpose()?;
    let unsubscribing = list_unsubscribe.is_some();
    let headers = members.take("headers").map(|node| headers::read(node, unsubscribing));
    let attachments = members.take("attachments").map(content::read_attachments);
    let attachments = attachments.transpose()?.unwrap_or_default();
    content::check_ids(&content, &attachments)?;
    Ok(Email {
        cc,
        bcc,
        reply_to: take_addresses(members, reply_to)?,
        headers: headers.transpose()?.unwrap_or_default(),
        attachments,
        configuration_set: members.take_allowed("configuration_set", is_set, SET)?,
        list_unsubscribe,
        ..bare(from, to, content)
    })
}

fn bare(from: Address, to: Vec<Address>, content: Content) -> Email {
    Email {
        id: None,
        priority: Priority::Normal,
        from,
        to,
        cc: Vec::new(),
        bcc: Vec::new(),
        reply_to: Vec::new(),
        content,
        headers: Vec::new(),
        attachments: Vec::new(),
        configuration_set: None,
        list_unsubscribe: None,
        tags: BTreeMap::new(),
    }
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

fn is_set(name: &str) -> bool {
    (1..=MAX_CONFIGURATION_SET).contains(&name.len()) && name.chars().all(is_ses_word_char)
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
