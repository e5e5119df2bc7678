//! A fault of the input: its position, the allowed values, and the value found.

use std::fmt;

use crate::email::{Address, EmailError};
use crate::redact::{AddressVisibility, MASK};
use crate::text_message::check_phone_number;
use serde::Serialize;

/// Characters of a value that are shown.
const SHOWN: usize = 60;
/// Words in the names of columns that most lists have.
const USUAL: [&str; 9] =
    ["mail", "email", "address", "recipient", "phone", "mobile", "name", "to", "id"];
/// Columns that are named.
const MOST_NAMES: usize = 20;

/// A fault of a list or a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InputFault {
    /// The list, or the option.
    pub file: String,
    /// The line of it, from 1; 0 if `file` is an option.
    pub line: u64,
    /// The template and its line, if the fault is in a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Box<FileLine>>,
    /// The column, or the member of the message.
    pub field: String,
    /// The problem, which says what is allowed.
    pub problem: String,
    /// The value found, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Whether a list's value is a recipient, whose domain may be shown; `None` for other values.
    #[serde(skip)]
    pub is_recipient: Option<bool>,
    /// The number of rows with this fault; `line` is the first.
    pub rows: u32,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileLine {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
}

impl InputFault {
    /// A fault of a list's value.
    pub fn new(
        file: &str,
        line: u64,
        field: impl Into<String>,
        problem: impl Into<String>,
        value: &str,
    ) -> Self {
        let quoted = |text: &str| match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
            None => format!("{text:?}"),
        };
        let bare = Self::bare(file, line, field, problem);
        Self { value: Some(quoted(value)), is_recipient: Some(is_recipient(value)), ..bare }
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
            is_recipient: None,
            rows: 1,
        }
    }

    /// The fault of a row's mail that the poller would refuse.
    pub fn of_mail(file: &str, line: u64, error: &EmailError) -> Self {
        let value = error.value.clone();
        let text = value.as_deref().and_then(|value| value.strip_prefix('"'));
        let is_recipient = text.map(|text| is_recipient(text.trim_end_matches('"')));
        let bare = Self::bare(file, line, &error.field, &*error.problem);
        Self { value, is_recipient, ..bare }
    }

    /// Shows or masks the addresses in its value.
    pub fn shown(mut self, addresses: AddressVisibility) -> Self {
        let shown = |value: String| match self.is_recipient {
            Some(_) if addresses == AddressVisibility::Shown => Some(value),
            Some(true) => Some(format!("{:?}", addresses.one(value.trim_matches('"')))),
            Some(false) => None,
            None => Some(addresses.within(&value)),
        };
        self.value = self.value.and_then(shown);
        self
    }

    /// Whether `other` is a fault of the same place of the same template, in another row.
    pub fn repeats(&self, other: &Self) -> bool {
        self.template.is_some() && self.template == other.template && self.field == other.field
    }
}

/// Whether a list's value is a recipient. In what is none, nobody can tell an address from the rest, so nothing of it is
/// shown.
fn is_recipient(value: &str) -> bool {
    Address::parse(value).is_ok() || check_phone_number(value).is_ok()
}

/// A column's name as errors show it. What may be a value, because the first line names no columns, is masked.
pub fn column_name(name: &str) -> &str {
    let is_inner = |c: char| c.is_alphanumeric() || " _-()/#:;|\t".contains(c);
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    let is_name = name.len() <= SHOWN && name.chars().all(is_inner) && digits < 6;
    if is_name { name } else { MASK }
}

/// Columns' names as errors show them: the first ones, and none where the first line may be a row instead.
pub(super) fn column_names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    let mut words = names.iter().flat_map(|name| name.split(|c: char| !c.is_alphanumeric()));
    let is_header = words.any(|word| USUAL.contains(&word.to_lowercase().as_str()));
    if !is_header || names.iter().any(|name| column_name(name) != *name) {
        return format!("{} (not shown: they may be values)", names.len());
    }
    let more = if names.len() > MOST_NAMES { ", …" } else { "" };
    names[..names.len().min(MOST_NAMES)].join(", ") + more
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_columns_name_with_six_digits_may_be_a_value() {
        assert_eq!(column_name("order 12345"), "order 12345");
        assert_eq!(column_name("order 123456"), MASK);
    }

    #[test]
    fn a_fault_knows_whether_its_value_is_a_recipient() {
        let is_recipient = |value: &str| {
            let error = EmailError::invalid("to", "is refused").with_value(value);
            InputFault::of_mail("list.csv", 2, &error).is_recipient
        };
        assert_eq!(is_recipient("ada@example.com"), Some(true));
        assert_eq!(is_recipient("Ada"), Some(false));
    }
}
