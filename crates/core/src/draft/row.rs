//! A row of a list, of which a message is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fault::InputFault;

/// The format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputFormat {
    /// Comma-separated values with the columns' names in the first line.
    Csv {
        /// The separator of fields: `,`, `;` or a tab.
        delimiter: u8,
        /// Whether values may contain line breaks. If not, an unclosed quote is found at the end of
        /// its line, before it swallows the following rows.
        multiline: bool,
    },
    /// JSON objects: one a line, or all in one array. Empty lines are skipped.
    Json,
}

/// A row of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct InputRow {
    /// The input's name in faults.
    pub file: Arc<str>,
    /// The row's number, from 1.
    pub number: u64,
    /// The line on which it begins, from 1.
    pub line: u64,
    /// The values by column: texts from CSV, any JSON values from JSON; `null` where the cell is empty, which is missing to
    /// a template.
    pub columns: BTreeMap<String, Value>,
}

impl InputRow {
    /// A fault of the row, without a value.
    pub(crate) fn fault(&self, field: impl Into<String>, problem: impl Into<String>) -> InputFault {
        InputFault::bare(&self.file, self.line, field, problem)
    }

    /// The value of the column with this name (case-insensitive) as text, which may be empty; `None` if there is no
    /// such column or its value is neither text nor number.
    pub fn text(&self, column: &str) -> Option<String> {
        let named = |(name, _): &(&String, &Value)| name.eq_ignore_ascii_case(column);
        let found = || self.columns.iter().find(named).map(|(_, value)| value);
        match self.columns.get(column).or_else(found)? {
            Value::Null => Some(String::new()),
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The row with another value in the column with this name (case-insensitive).
    pub(crate) fn with(&self, column: &str, value: String) -> Self {
        let mut row = self.clone();
        let named = |(name, _): &(&String, &mut Value)| name.eq_ignore_ascii_case(column);
        if let Some((_, found)) = row.columns.iter_mut().find(named) {
            *found = value.into();
        }
        row
    }
}
