//! The content of a large mail: an object of the store, to which the message on the queue points with its member `stored`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};

use super::error::EmailError;
use super::json::Node;
use super::members::Members;
use crate::identity::Envelope;
use crate::text::is_word_of;

/// The folder of the store with the contents of large mails.
pub const LARGE_FOLDER: &str = "large";

/// Most bytes of a mail that SES takes, its attachments in base64.
pub const MAX_MAIL_BYTES: usize = 40 * 1_048_576;

/// Most bytes of an object: a MIME message of [`MAX_MAIL_BYTES`] in base64, and room for what stands around it.
pub const MAX_STORED_BYTES: u64 = 54 * 1_048_576;

/// The members that an object holds. None of them stands beside `stored`.
pub(super) const CONTENT: [&str; 9] = [
    "reply_to",
    "subject",
    "text",
    "html",
    "template",
    "raw",
    "headers",
    "attachments",
    "list_unsubscribe",
];

/// Where a large mail's content is. The name has no slash and no dot, so it stays within the store's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive] // Only the parser makes one.
pub struct StoredContent {
    /// The object's name in the folder [`LARGE_FOLDER`]: 1 to 64 letters and digits.
    pub name: String,
    /// The object's exact size, 1 to [`MAX_STORED_BYTES`].
    pub bytes: u64,
}

impl StoredContent {
    /// The object's key in the store.
    pub fn key(&self) -> String {
        key(&self.name)
    }

    pub(super) fn read(node: Node) -> Result<Self, EmailError> {
        let mut members = Members::known("stored", node, &["name", "bytes"])?;
        let field = members.path_of("name");
        let named = "must be 1 to 64 letters and digits";
        let name = members.take_allowed("name", |name| is_word_of(name, 64, ""), named)?;
        let name = name.ok_or_else(|| EmailError::missing(field, named))?;
        let field = members.path_of("bytes");
        let sized = format!("must be the object's size in bytes, 1 to {MAX_STORED_BYTES}");
        let Some(node) = members.take("bytes") else {
            return Err(EmailError::missing(field, sized));
        };
        let bytes = match &node {
            Node::Number(number) => number.parse().ok(),
            _ => None,
        };
        match bytes.filter(|bytes| (1..=MAX_STORED_BYTES).contains(bytes)) {
            Some(bytes) => Ok(Self { name, bytes }),
            None => Err(EmailError::invalid(field, sized).with_found(node.kind())),
        }
    }
}

fn key(name: &str) -> String {
    format!("{LARGE_FOLDER}/{name}")
}

/// Splits a mail's body (long or raw form) into a pointer and the object that it points to, which gets the name `name`. None
/// of a text that is not a JSON object.
///
/// ```
/// use tidegate_core::email::{Email, split};
/// let body = r#"{"to": "ada@example.com", "from": "news@example.org", "subject": "Hello", "text": "Text."}"#;
/// let (pointer, object) = split(body, "0a1b2c").unwrap();
/// assert_eq!(object.key, "large/0a1b2c");
/// assert_eq!(Email::with_object(&pointer, &object.bytes), Email::parse(body));
/// ```
pub fn split(body: &str, name: &str) -> Option<(String, LargeObject)> {
    let mut pointer: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(body).ok()?;
    let object: BTreeMap<_, _> =
        pointer.extract_if(.., |name, _| CONTENT.contains(&name.as_ref())).collect();
    let bytes = serde_json::to_vec(&object).ok()?;
    let stored = to_raw_value(&serde_json::json!({ "name": name, "bytes": bytes.len() })).ok()?;
    pointer.insert("stored".into(), &stored);
    Some((serde_json::to_string(&pointer).ok()?, LargeObject { key: key(name), bytes }))
}

/// A body as it goes onto its queue, and the object that is put into the store before, if it does not fit there whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizedBody {
    /// The message for the queue.
    pub body: String,
    /// The content, if the body is a pointer.
    pub object: Option<LargeObject>,
}

/// The content of a large mail, for the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeObject {
    /// The object's key in the store.
    pub key: String,
    /// The object's bytes.
    pub bytes: Vec<u8>,
}

/// A body that is too large for its queue, and cannot or may not be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The body's size.
    pub bytes: usize,
    /// The most bytes that are allowed.
    pub most: usize,
}

impl SizedBody {
    /// The body of the mail `id`, split if it is too large and the stack `has_store`. The object's name is `name`, which must
    /// be new: an object belongs to one message, with which it is deleted.
    ///
    /// # Errors
    /// [`TooLarge`], without a store or if what is not content is too large.
    pub fn of(
        body: String,
        campaign: &str,
        id: &str,
        has_store: bool,
        name: &str,
    ) -> Result<Self, TooLarge> {
        let (bytes, most) = (body.len(), Envelope::most_body_bytes(campaign, id));
        if bytes <= most {
            return Ok(Self { body, object: None });
        }
        let parts = if has_store { split(&body, name) } else { None };
        let fitting = parts.filter(|(pointer, _)| pointer.len() <= most);
        let sized = fitting.map(|(body, object)| Self { body, object: Some(object) });
        sized.ok_or(TooLarge { bytes, most })
    }
}
