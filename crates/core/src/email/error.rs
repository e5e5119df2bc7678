//! What is wrong with a message body.

use std::borrow::Cow;

use super::text::shorten;

/// The kind of fault, for metrics and for a dead letter's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EmailErrorKind {
    /// The body is not JSON, or not a JSON object.
    NotJson,
    /// A member that Tidegate does not know.
    UnknownMember,
    /// A member that stands twice in one object.
    DuplicateMember,
    /// Members of the short and of the long form together.
    MixedForms,
    /// A member that must be there and is not.
    Missing,
    /// A member whose value is not allowed.
    Invalid,
    /// A sender that `TIDEGATE_ALLOWED_SENDERS` does not name.
    SenderNotAllowed,
}

impl EmailErrorKind {
    /// The name as it stands in a dead letter's `last_error.code`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::NotJson => "NotJson",
            Self::UnknownMember => "UnknownMember",
            Self::DuplicateMember => "DuplicateMember",
            Self::MixedForms => "MixedForms",
            Self::Missing => "MissingMember",
            Self::Invalid => "InvalidMember",
            Self::SenderNotAllowed => "SenderNotAllowed",
        }
    }
}

/// A fault in a message body: the field, what is allowed there and, unless the field is
/// content, the value found (at most 60 characters of it).
///
/// `Display` shows the value, which may be an address: it is meant for the dead-letter entry.
/// Logs take [`EmailError::redacted`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}{}", found(value.as_deref()))]
pub struct EmailError {
    kind: EmailErrorKind,
    field: String,
    problem: Cow<'static, str>,
    value: Option<String>,
}

fn found(value: Option<&str>) -> String {
    value.map(|v| format!(", not {v}")).unwrap_or_default()
}

impl EmailError {
    pub(super) fn new(
        kind: EmailErrorKind,
        field: impl Into<String>,
        problem: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { kind, field: field.into(), problem: problem.into(), value: None }
    }

    /// A value that is not allowed; `problem` says what is ("must …").
    pub(super) fn invalid(field: impl Into<String>, problem: impl Into<Cow<'static, str>>) -> Self {
        Self::new(EmailErrorKind::Invalid, field, problem)
    }

    pub(super) fn missing(field: impl Into<String>, problem: impl Into<Cow<'static, str>>) -> Self {
        Self::new(EmailErrorKind::Missing, field, problem)
    }

    /// Adds the text found, shortened and with control characters escaped.
    pub(super) fn with_value(mut self, text: &str) -> Self {
        self.value = Some(format!("{:?}", shorten(text)));
        self
    }

    /// Adds what was found where it is no text ("a list", `42`).
    pub(super) fn with_found(mut self, found: impl Into<String>) -> Self {
        self.value = Some(found.into());
        self
    }

    /// The kind of fault.
    pub const fn kind(&self) -> EmailErrorKind {
        self.kind
    }

    /// The field, with its index in a list: `to[3]`, `attachments[0].content`; `body` is the
    /// whole body where it is no JSON object. Never holds a value.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What is allowed there ("must …"). Never holds a value.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// What stands there, shortened: a text in quotes, or what else it is. It may be an address.
    pub fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// The error without the value: for logs, which must not hold recipients.
    pub fn redacted(&self) -> String {
        format!("{}: {}", self.field, self.problem)
    }
}
