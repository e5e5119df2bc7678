//! A fault of the input: its position, the allowed values, and the value found.

use std::fmt;

use serde::Serialize;
use tidegate_core::email::EmailError;

use crate::redact::AddressVisibility;

/// Characters of a value that are shown.
const SHOWN: usize = 60;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InputFault {
    pub file: String,
    /// The line of it, from 1; 0 if `file` is an option.
    pub line: u64,
    /// The template and its line, if the fault is in a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Box<FileLine>>,
    /// The column, or the member of the message.
    pub field: String,
    pub problem: String,
    /// The value found, shortened; addresses in it are masked when it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The number of rows with this fault; `line` is the first.
    pub rows: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileLine {
    pub file: String,
    pub line: u64,
}

impl InputFault {
    pub fn new(
        file: &str,
        line: u64,
        field: impl Into<String>,
        problem: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        let value = value.into();
        let shown = match value.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &value[..end]),
            None => value,
        };
        Self { value: Some(format!("{shown:?}")), ..Self::bare(file, line, field, problem) }
    }

    /// A fault without a value, because there is none or it must not be shown.
    pub fn bare(
        file: &str,
        line: u64,
        field: impl Into<String>,
        problem: impl Into<String>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            line,
            template: None,
            field: field.into(),
            problem: problem.into(),
            value: None,
            rows: 1,
        }
    }

    /// The fault of a mail that the poller would refuse.
    pub fn of_mail(file: &str, line: u64, error: &EmailError) -> Self {
        let bare = Self::bare(file, line, error.field(), error.problem());
        Self { value: error.value().map(str::to_owned), ..bare }
    }

    /// The fault of an option, which all mails of the run share.
    pub fn of_option(option: &str, error: &EmailError) -> Self {
        Self::of_mail(option, 0, error)
    }

    /// Shows or masks the addresses in its value.
    pub fn shown(mut self, addresses: AddressVisibility) -> Self {
        self.value = self.value.map(|value| addresses.within(&value));
        self
    }

    /// Whether `other` is the same fault of the same template, in another row.
    pub fn repeats(&self, other: &Self) -> bool {
        self.template.is_some()
            && self.template == other.template
            && self.field == other.field
            && self.problem == other.problem
    }
}

impl fmt::Display for InputFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, field, problem, .. } = self;
        match &self.template {
            None if *line == 0 => write!(f, "{file}: {problem}")?,
            None => write!(f, "{file}:{line}: {field}: {problem}")?,
            Some(at) => {
                write!(f, "{}:{}: {field}: {problem} ({file}:{line}", at.file, at.line)?;
                match self.rows {
                    1 => f.write_str(")")?,
                    rows => write!(f, " and {} more)", rows - 1)?,
                }
            }
        }
        match &self.value {
            Some(value) => write!(f, ", not {value}"),
            None => Ok(()),
        }
    }
}
