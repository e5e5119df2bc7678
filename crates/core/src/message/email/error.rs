//! The error for an invalid message body.

use std::borrow::Cow;

use strum::IntoStaticStr;

use crate::text::{SHOWN, cut};

/// The kind of fault. It is a label of metrics and the code in the dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum EmailErrorKind {
    /// The body is not JSON, or not a JSON object.
    NotJson,
    /// The body is a message of another system, such as an SNS notification, with the mail inside it or elsewhere.
    #[strum(serialize = "WrappedMessage")]
    Wrapped,
    /// The body has a member that Tidegate does not know.
    UnknownMember,
    /// A member occurs twice in one object.
    DuplicateMember,
    /// The body mixes members of the short and of the long form.
    MixedForms,
    /// A required member is missing or `null`.
    #[strum(serialize = "MissingMember")]
    Missing,
    /// A member has a value that is not allowed.
    #[strum(serialize = "InvalidMember")]
    Invalid,
    /// `TIDEGATE_ALLOWED_SENDERS` does not name the sender, or `TIDEGATE_ORIGINS` the origin of a text.
    SenderNotAllowed,
    /// `TIDEGATE_ALLOWED_COUNTRIES` does not name the country of a text's recipient.
    CountryNotAllowed,
}

impl EmailErrorKind {
    /// The kind's name in a dead letter's `last_error.code`.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// A fault in a message body: the field, what is allowed there, and at most 60 characters of the value.
/// The value is left out if the field is content of the mail.
///
/// `Display` shows the value, which may be an address, so it is for the dead-letter entry. Logs use
/// [`EmailError::redacted`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}{}", found(value.as_deref()))]
#[non_exhaustive]
pub struct EmailError {
    /// The kind of fault, for metrics and for the dead letter's code.
    pub kind: EmailErrorKind,
    /// The faulty field, with its index in a list: `to[3]`, `attachments[0].content`. It is `body` if
    /// the body is not a JSON object. It never contains a value.
    pub field: String,
    /// Description of what is allowed there ("must …"). It never contains a value.
    pub problem: Cow<'static, str>,
    /// The value that was found: a shortened text in quotes, or a description. It may be an address.
    pub value: Option<String>,
}

fn found(value: Option<&str>) -> String {
    value.map(|v| format!(", not {v}")).unwrap_or_default()
}

impl EmailError {
    pub(crate) fn new(
        kind: EmailErrorKind,
        field: impl Into<String>,
        problem: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { kind, field: field.into(), problem: problem.into(), value: None }
    }

    /// An error for a value that is not allowed. `problem` says what is allowed ("must …").
    pub(crate) fn invalid(field: impl Into<String>, problem: impl Into<Cow<'static, str>>) -> Self {
        Self::new(EmailErrorKind::Invalid, field, problem)
    }

    pub(crate) fn missing(field: impl Into<String>, problem: impl Into<Cow<'static, str>>) -> Self {
        Self::new(EmailErrorKind::Missing, field, problem)
    }

    /// Adds the text that was found, shortened and with control characters escaped.
    pub(crate) fn with_value(mut self, text: &str) -> Self {
        self.value = Some(format!("{:?}", cut(text, SHOWN)));
        self
    }

    /// Adds a description of a value that is not a text, such as "a list" or `42`.
    pub(crate) fn with_found(mut self, found: impl Into<String>) -> Self {
        self.value = Some(found.into());
        self
    }

    /// The error without the value, for logs, which must not contain recipients.
    pub fn redacted(&self) -> String {
        format!("{}: {}", self.field, self.problem)
    }
}
