//! A JSON tree that keeps every member of an object, so that duplicate members are detected.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error::{EmailError, EmailErrorKind};
use super::literal::TextLiteral;
use super::text::is_plain_name;

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
        serde_json::from_str(body).map(|Body(node)| node).map_err(|fault| {
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
            Self::List(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(i, item)| item.refuse_duplicates(&format!("{path}[{i}]"))),
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

/// The whole body, which is the only object with members that may be long.
struct Body(Node);

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor { literals: &LONG_TEXTS }).map(Self)
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

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
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
