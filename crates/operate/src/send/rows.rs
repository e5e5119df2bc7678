//! Reads the input row by row; each row is a mail.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::csv_rows::{CsvReader, NextRow, utf8};
use super::fault::InputFault;

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
    /// A JSON object per line; empty lines are skipped.
    JsonLines,
}

#[derive(Clone, Debug, PartialEq)]
pub struct InputRow {
    pub number: u64,
    /// The line on which it begins, from 1.
    pub line: u64,
    /// The values by column: texts from CSV, any JSON values from JSON lines.
    pub columns: BTreeMap<String, Value>,
}

impl InputRow {
    /// The value of the column with this name (case-insensitive) as text; `None` if there is no
    /// such column or its value is neither text nor number.
    pub fn text(&self, column: &str) -> Option<String> {
        match self.value(column)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The row with another value in the column with this name (case-insensitive).
    pub(super) fn with(&self, column: &str, value: String) -> Self {
        let mut row = self.clone();
        let named = |(name, _): &(&String, &mut Value)| name.eq_ignore_ascii_case(column);
        if let Some((_, found)) = row.columns.iter_mut().find(named) {
            *found = value.into();
        }
        row
    }

    fn value(&self, column: &str) -> Option<&Value> {
        let named = |(name, _): &(&String, &Value)| name.eq_ignore_ascii_case(column);
        self.columns.get(column).or_else(|| self.columns.iter().find(named).map(|(_, v)| v))
    }
}

/// The rows of an input, or their faults. A fault that ends the input is the last item.
pub struct InputRows<R: Read> {
    file: String,
    number: u64,
    source: RowSource<R>,
}

enum RowSource<R: Read> {
    Csv(Box<CsvReader<R>>),
    Lines { reader: BufReader<R>, line: u64 },
    Ended,
}

impl<R: Read> InputRows<R> {
    /// The rows of `input`, which is called `file` in faults.
    ///
    /// # Errors
    /// A CSV without column names, or with one twice.
    pub fn new(file: &str, format: InputFormat, input: R) -> Result<Self, InputFault> {
        let source = match format {
            InputFormat::Csv { delimiter, multiline } => {
                RowSource::Csv(Box::new(CsvReader::new(file, delimiter, multiline, input)?))
            }
            InputFormat::JsonLines => RowSource::Lines { reader: BufReader::new(input), line: 0 },
        };
        Ok(Self { file: file.to_owned(), number: 0, source })
    }

    /// The columns of a CSV; `None` for JSON Lines, where each row names its own.
    pub fn columns(&self) -> Option<&[String]> {
        match &self.source {
            RowSource::Csv(csv) => Some(csv.columns()),
            RowSource::Lines { .. } | RowSource::Ended => None,
        }
    }
}

impl<R: Read> Iterator for InputRows<R> {
    type Item = Result<InputRow, InputFault>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = match &mut self.source {
            RowSource::Csv(csv) => csv.next(&self.file),
            RowSource::Lines { reader, line } => next_line(&self.file, reader, line),
            RowSource::Ended => return None,
        };
        match found {
            NextRow::Row(line, columns) => {
                self.number += 1;
                Some(Ok(InputRow { number: self.number, line, columns }))
            }
            NextRow::Fault(fault) => {
                self.number += 1;
                Some(Err(fault))
            }
            NextRow::Last(fault) => {
                self.source = RowSource::Ended;
                fault.map(Err)
            }
        }
    }
}

fn next_line<R: Read>(file: &str, reader: &mut BufReader<R>, line: &mut u64) -> NextRow {
    loop {
        let mut bytes = Vec::new();
        *line += 1;
        match reader.read_until(b'\n', &mut bytes) {
            Ok(0) => return NextRow::Last(None),
            Ok(_) => {}
            Err(error) => {
                let problem = "must be readable";
                return NextRow::Last(Some(InputFault::new(
                    file,
                    *line,
                    "line",
                    problem,
                    error.to_string(),
                )));
            }
        }
        let text = bytes.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let text = match utf8(file, *line, || "line".to_owned(), text) {
            Ok(text) => text,
            Err(fault) => return NextRow::Fault(fault),
        };
        return match serde_json::from_str(text) {
            Ok(columns) => NextRow::Row(*line, columns),
            Err(error) => {
                // The parser's message may quote the input, which may contain addresses.
                let at = format!("another thing at character {}", error.column());
                NextRow::Fault(InputFault::new(file, *line, "line", "must be one JSON object", at))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: InputFormat = InputFormat::Csv { delimiter: b',', multiline: false };
    const MULTILINE: InputFormat = InputFormat::Csv { delimiter: b',', multiline: true };

    fn read(format: InputFormat, text: &[u8]) -> Vec<Result<(u64, u64, String), String>> {
        let rows = InputRows::new("in", format, text).unwrap();
        rows.map(|row| match row {
            Ok(row) => Ok((row.number, row.line, row.text("to").unwrap_or_default())),
            Err(fault) => Err(fault.to_string()),
        })
        .collect()
    }

    #[test]
    fn csv_rows_know_their_line_whatever_their_fields_hold_and_a_fault_does_not_end_them() {
        let text =
            "\u{feff}to,note\r\na@x.de,\"two\nlines, \"\"quoted\"\"\"\r\nshort\r\nb@x.de,ü\r\n";
        let read = read(MULTILINE, text.as_bytes());
        assert_eq!(read[0], Ok((1, 2, "a@x.de".to_owned())));
        let fault = "in:4: row: must have 2 fields, as the first line, not \"1\"";
        assert_eq!(read[1], Err(fault.to_owned()));
        assert_eq!(read[2], Ok((3, 5, "b@x.de".to_owned())));
        assert_eq!(read.len(), 3);
    }

    #[test]
    fn empty_lines_are_left_out_and_counted() {
        let text = "to,note\n\n\r\na@x.de,\"1\n2\"\n\n\n\"b@x.de\",c\nshort\n\nc@x.de,d";
        for text in [text.to_owned(), format!("{text}\n"), format!("{text}\r\n\n")] {
            let read = read(MULTILINE, text.as_bytes());
            assert_eq!(read[0], Ok((1, 4, "a@x.de".to_owned())));
            assert_eq!(read[1], Ok((2, 8, "b@x.de".to_owned())));
            assert!(read[2].as_ref().unwrap_err().starts_with("in:9: row: must have 2 fields"));
            assert_eq!(read[3], Ok((4, 11, "c@x.de".to_owned())));
            assert_eq!(read.len(), 4);
        }
        let read = read(CSV, b"to,note\n\na@x.de,\xff\n");
        assert!(read[0].as_ref().unwrap_err().starts_with("in:3: field 2: must be UTF-8"));
    }

    #[test]
    fn a_quote_that_is_not_closed_takes_no_row_into_its_value() {
        let problem = "must be on one line (a quote that is not closed?), or with --multiline";
        let swallowing = "a@x.de,\"Ada\nb@x.de,Bob\nc@x.de,\"Carol\"\nd@x.de,Dan";
        for (rows, said) in [
            (swallowing, format!("in:3: note: {problem}")),
            ("a@x.de,\"Ada\nb@x.de,Bob\n", format!("in:3: note: {problem}")),
            ("a@x.de,\"Ada", format!("in:3: note: {problem}")),
            ("\"a@x.de,Ada\n", format!("in:3: to: {problem}")),
            ("a@x.de,Ada,\"1\n2\"\n", format!("in:3: field 3: {problem}")),
        ] {
            let read = read(CSV, format!("to,note\n\n{rows}").as_bytes());
            assert_eq!(read[0], Err(said), "{rows}");
        }
        let header = InputRows::new("in", CSV, "to,\"note\na@x.de,Ada\n".as_bytes()).err().unwrap();
        assert_eq!(header.to_string(), format!("in:1: column 2: {problem}"));
    }

    #[test]
    fn with_several_lines_a_value_ends_all_the_same() {
        let said = "in:3: row: must have its last quote closed";
        for rows in ["a@x.de,\"Ada\nb@x.de,Bob\n", "a@x.de,\"Ada", "\"a@x.de,Ada\n"] {
            let read = read(MULTILINE, format!("to,note\n\n{rows}").as_bytes());
            assert_eq!(read, [Err(said.to_owned())], "{rows}");
        }
        let header = InputRows::new("in", MULTILINE, "to,\"note\na@x.de,Ada\n".as_bytes());
        let said = "in:1: row: must have its last quote closed";
        assert_eq!(header.err().unwrap().to_string(), said);
    }

    #[test]
    fn what_is_not_utf_8_is_a_fault_with_its_line() {
        let read = read(CSV, b"to,note\na@x.de,\xff\nb@x.de,c\n");
        assert!(read[0].as_ref().unwrap_err().starts_with("in:2: field 2: must be UTF-8"));
        assert_eq!(read[1], Ok((2, 3, "b@x.de".to_owned())));
    }

    #[test]
    fn a_csv_needs_the_names_of_its_columns_each_once() {
        for (text, said) in [
            ("to,to\n", "in:1: column: must not stand twice in the first line, not \"to\""),
            ("to,\n", "in:1: column: must have a name"),
            ("", "in:1: column: must be named in the first line"),
        ] {
            let fault = InputRows::new("in", CSV, text.as_bytes()).err().unwrap().to_string();
            assert!(fault.starts_with(said), "{fault}");
        }
    }

    #[test]
    fn json_lines_are_objects_and_empty_lines_are_left_out() {
        let text = "{\"To\": \"a@x.de\"}\n\n[1]\n  {\"to\": 7}";
        let read = read(InputFormat::JsonLines, text.as_bytes());
        assert_eq!(read[0], Ok((1, 1, "a@x.de".to_owned())));
        assert!(read[1].as_ref().unwrap_err().starts_with("in:3: line: must be one JSON object"));
        assert_eq!(read[2], Ok((3, 4, "7".to_owned())));
    }
}
