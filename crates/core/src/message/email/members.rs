//! Takes the members of an object one by one; each error contains the member's path.

use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::error::{EmailError, EmailErrorKind};
use super::json::{Node, TextLiteral, has_hidden, member_path, name_if_odd};

/// Largest edit distance at which an unknown member counts as misspelt.
const MISSPELLING: usize = 2;
/// The base64 that is allowed, in words.
pub(super) const BASE64: &str =
    "must be base64 (RFC 4648, with padding, no line breaks) of at least 1 byte";

/// The members of one object that have not been read yet. `null` counts as absent.
pub(crate) struct Members {
    path: String,
    entries: Vec<(String, Node)>,
}

impl Members {
    /// Takes an object with any member names; the caller checks them.
    pub(super) fn any(path: &str, node: Node) -> Result<Self, EmailError> {
        match node {
            Node::Object(entries) => Ok(Self { path: path.to_owned(), entries }),
            other => {
                let (kind, field) = match path {
                    "" => (EmailErrorKind::NotJson, "body"),
                    _ => (EmailErrorKind::Invalid, path),
                };
                Err(EmailError::new(kind, field, "must be a JSON object").with_found(other.kind()))
            }
        }
    }

    /// Takes an object. Refuses members that are neither `known`, nor `metadata`, nor start with `x_`.
    pub(crate) fn known(path: &str, node: Node, known: &[&str]) -> Result<Self, EmailError> {
        let mut members = Self::any(path, node)?;
        members.entries.retain(|(name, _)| name != "metadata" && !name.starts_with("x_"));
        match members.entries.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => Err(unknown(path, name, known)),
            None => Ok(members),
        }
    }

    /// Adds the members of another object.
    pub(super) fn extend(&mut self, more: Self) {
        self.entries.extend(more.entries);
    }

    /// The names of the members that are present and not `null`.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let present = self.entries.iter().filter(|(_, value)| !matches!(value, Node::Null));
        present.map(|(name, _)| name.as_str())
    }

    pub(super) fn path_of(&self, name: &str) -> String {
        member_path(&self.path, name)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Node> {
        let at = self.entries.iter().position(|(n, v)| n == name && !matches!(v, Node::Null))?;
        Some(self.entries.swap_remove(at).1)
    }

    pub(crate) fn take_text(&mut self, name: &str) -> Result<Option<String>, EmailError> {
        self.take(name).map(|node| text(&self.path_of(name), node)).transpose()
    }

    /// Takes a text that `allows` lets through; `problem` says what is allowed.
    pub(crate) fn take_allowed(
        &mut self,
        name: &str,
        allows: fn(&str) -> bool,
        problem: &'static str,
    ) -> Result<Option<String>, EmailError> {
        match self.take_text(name)? {
            Some(text) if !allows(&text) => {
                Err(EmailError::invalid(self.path_of(name), problem).with_value(&text))
            }
            text => Ok(text),
        }
    }

    /// Takes one of a type's words; `problem` names them.
    pub(crate) fn take_parsed<T: FromStr>(
        &mut self,
        name: &str,
        problem: &'static str,
    ) -> Result<Option<T>, EmailError> {
        let text = self.take_allowed(name, |text| text.parse::<T>().is_ok(), problem)?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    /// Takes a text that may be long and is kept as a literal.
    pub(super) fn take_literal(&mut self, name: &str) -> Result<Option<TextLiteral>, EmailError> {
        let text = match self.take(name) {
            None => return Ok(None),
            Some(Node::Literal(text)) => return Ok(Some(text)),
            Some(other) => text(&self.path_of(name), other)?,
        };
        if has_hidden(&text) {
            let problem = "must hold neither NUL nor an override of direction (U+202D, U+202E)";
            return Err(EmailError::invalid(self.path_of(name), problem));
        }
        Ok(Some(text.as_str().into()))
    }

    /// Takes a string or a list of strings; each string comes with its path.
    pub(super) fn take_texts(&mut self, name: &str) -> Result<Vec<(String, String)>, EmailError> {
        let path = self.path_of(name);
        let read = |(i, item): (usize, Node)| {
            let path = format!("{path}[{i}]");
            text(&path, item).map(|text| (path, text))
        };
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Node::List(items)) => items.into_iter().enumerate().map(read).collect(),
            Some(Node::Text(text)) => Ok(vec![(path, text)]),
            Some(other) => Err(EmailError::invalid(path, "must be a string or a list of strings")
                .with_found(other.kind())),
        }
    }

    pub(super) fn into_entries(self) -> Vec<(String, Node)> {
        self.entries
    }
}

pub(super) fn text(path: &str, node: Node) -> Result<String, EmailError> {
    match node {
        Node::Text(text) => Ok(text),
        Node::Literal(text) => Ok(text.decode()),
        other => Err(EmailError::invalid(path, "must be a string").with_found(other.kind())),
    }
}

/// The bytes of a base64 text.
pub(super) fn base64(path: &str, encoded: &str) -> Result<Vec<u8>, EmailError> {
    let decoded = STANDARD.decode(encoded);
    decoded.map_err(|fault| EmailError::invalid(path, format!("{BASE64}; {fault}")))
}

fn unknown(path: &str, name: &str, known: &[&str]) -> EmailError {
    // Long names are skipped: a name can be as long as the body, and measuring its distance takes time
    // for each candidate.
    let near = |candidate: &&&str| name.len() <= candidate.len() + 4 * MISSPELLING;
    let close = known
        .iter()
        .filter(near)
        .map(|candidate| (strsim::osa_distance(candidate, name), *candidate))
        .filter(|(distance, candidate)| *distance <= MISSPELLING && *distance < candidate.len())
        .min();
    let hint = close.map(|(_, c)| format!("; did you mean {c:?}?")).unwrap_or_default();
    let problem = format!(
        "is not a member Tidegate knows{hint} (known: {}; ignored: metadata, x_…)",
        known.join(", ")
    );
    let error = EmailError::new(EmailErrorKind::UnknownMember, member_path(path, name), problem);
    name_if_odd(error, name)
}
