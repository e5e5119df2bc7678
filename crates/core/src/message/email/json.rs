//! A JSON tree that keeps every member of an object, so that duplicate members are detected.

use std::fmt;

use memchr::memmem;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error::{EmailError, EmailErrorKind};
use crate::text::{OVERRIDES, is_plain_name};

/// Members of the body that may contain a whole newsletter.
const LONG_TEXTS: [&str; 3] = ["text", "html", "body"];

/// One JSON value. Numbers are kept as text, because only error messages show them.
#[derive(Debug)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    /// A member of the body that may be long; it is not decoded.
    Literal(TextLiteral),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// Reads a body. Syntax errors name line and column.
    pub(crate) fn read(body: &str) -> Result<Self, EmailError> {
        let mut reader = serde_json::Deserializer::from_str(body);
        // The whole body is the only object with members that may be long.
        let node = reader.deserialize_any(NodeVisitor { literals: &LONG_TEXTS });
        node.and_then(|node| reader.end().map(|()| node)).map_err(|fault| {
            EmailError::new(
                EmailErrorKind::NotJson,
                "body",
                format!("must be a JSON object ({fault})"),
            )
        })
    }

    fn of_literal(raw: &RawValue) -> Result<Self, serde_json::Error> {
        match TextLiteral::read(raw) {
            Some(text) => Ok(Self::Literal(text)),
            None => serde_json::from_str(raw.get()),
        }
    }

    /// Describes the value in an error message: "a list", `42`.
    pub(super) fn kind(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(value) => value.clone(),
            Self::Text(_) | Self::Literal(_) => "a string".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Object(_) => "an object".to_owned(),
        }
    }

    /// Refuses a member that occurs twice in one object, at any depth.
    pub(crate) fn refuse_duplicates(&self, path: &str) -> Result<(), EmailError> {
        match self {
            Self::List(items) => (0..).zip(items).try_for_each(|(i, item): (usize, &Self)| {
                item.refuse_duplicates(&format!("{path}[{i}]"))
            }),
            Self::Object(members) => {
                let mut seen = std::collections::HashSet::with_capacity(members.len());
                members.iter().try_for_each(|(name, value)| {
                    let field = member_path(path, name);
                    if !seen.insert(name.as_str()) {
                        let kind = EmailErrorKind::DuplicateMember;
                        let error = EmailError::new(kind, field, "must not stand twice");
                        return Err(name_if_odd(error, name));
                    }
                    value.refuse_duplicates(&field)
                })
            }
            _ => Ok(()),
        }
    }
}

/// The path `path.name`, or `path.?` if the name itself may be an address.
pub(super) fn member_path(path: &str, name: &str) -> String {
    let shown = if is_plain_name(name) { name } else { "?" };
    if path.is_empty() { shown.to_owned() } else { format!("{path}.{shown}") }
}

/// Adds the member's name as the error's value if the field path shows `?` for it.
pub(super) fn name_if_odd(error: EmailError, name: &str) -> EmailError {
    if is_plain_name(name) { error } else { error.with_value(name) }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor { literals: &[] })
    }
}

struct NodeVisitor {
    /// Names of the members that are kept as undecoded literals.
    literals: &'static [&'static str],
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let node = if self.literals.contains(&name.as_str()) {
                Node::of_literal(map.next_value()?).map_err(A::Error::custom)?
            } else {
                map.next_value()?
            };
            members.push((name, node));
        }
        Ok(Node::Object(members))
    }
}

/// The members called by one of `names` that stand in a body before its first syntax fault, as JSON. Empty
/// if the body is not an object.
pub(super) fn readable<'a>(body: &'a str, names: &[&str]) -> Vec<&'a RawValue> {
    let mut found = Vec::new();
    // A fault ends the reading; what was read before it counts.
    let _ = serde_json::Deserializer::from_str(body)
        .deserialize_map(MemberVisitor { names, found: &mut found });
    found
}

struct MemberVisitor<'a, 'f> {
    names: &'f [&'f str],
    found: &'f mut Vec<&'a RawValue>,
}

impl<'a> Visitor<'a> for MemberVisitor<'a, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value()?;
            if self.names.contains(&name.as_str()) {
                self.found.push(value);
            }
        }
        Ok(())
    }
}

/// A mail's text or HTML as a JSON string literal, with quotes and escapes.
///
/// SES's request is JSON, like the message. The literal is therefore copied from one into the other.
/// Decoding and encoding a newsletter of 200 KB would take a third of the poller's processor time. Two
/// literals are equal if their texts are equal: `"ü"` equals `"\u00fc"`.
///
/// ```
/// use tidegate_core::email::TextLiteral;
/// let text = TextLiteral::from("Say \"hello\".");
/// assert_eq!((text.literal(), &*text.decode()), (r#""Say \"hello\".""#, "Say \"hello\"."));
/// ```
#[derive(Clone)]
pub struct TextLiteral(Box<RawValue>);

impl TextLiteral {
    /// Takes `raw` if it is a string. `None` for any other value, for half a surrogate pair (`"\ud83d"` is valid JSON but
    /// not a character), and for a text with hidden characters.
    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        let literal = raw.get();
        let clean = || serde_json::from_str(literal).is_ok_and(|text: String| !has_hidden(&text));
        let is_text = literal.starts_with('"') && (!needs_decoding(literal) || clean());
        is_text.then(|| Self(raw.to_owned()))
    }

    /// The JSON string literal, with its quotes.
    pub fn literal(&self) -> &str {
        self.0.get()
    }

    /// True if there is no character between the quotes.
    pub fn is_empty(&self) -> bool {
        self.literal().len() <= "\"\"".len()
    }

    /// The text without quotes and with its escapes decoded.
    pub fn decode(&self) -> String {
        serde_json::from_str(self.literal()).unwrap_or_default()
    }
}

/// True if NUL or an override of direction is in the text.
pub(super) fn has_hidden(text: &str) -> bool {
    text.contains(['\0', OVERRIDES[0], OVERRIDES[1]])
}

/// True if a text must be decoded to know what is in it. Most newsletters need not be, and are passed over many bytes at a
/// time. The JSON reader has checked all escapes but those of surrogates.
fn needs_decoding(literal: &str) -> bool {
    const ESCAPED: [&[u8]; 7] = [b"d", b"D", b"0000", b"202d", b"202D", b"202e", b"202E"];
    let bytes = literal.as_bytes();
    let escaped = |at: usize| ESCAPED.iter().any(|digits| bytes[at + 2..].starts_with(digits));
    // The last byte of an override is rarer than its first two, which quotation marks have too.
    let written = |at: usize| bytes[..at].ends_with(b"\xe2\x80");
    memmem::find_iter(bytes, "\\u").any(escaped)
        || memchr::memchr2_iter(0xad, 0xae, bytes).any(written)
}

impl From<&str> for TextLiteral {
    fn from(text: &str) -> Self {
        Self(serde_json::value::to_raw_value(text).unwrap_or_default())
    }
}

impl PartialEq for TextLiteral {
    fn eq(&self, other: &Self) -> bool {
        self.literal() == other.literal() || self.decode() == other.decode()
    }
}

impl Eq for TextLiteral {}

impl fmt::Debug for TextLiteral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.literal())
    }
}
