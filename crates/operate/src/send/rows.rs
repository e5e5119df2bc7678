//! The input: a row a mail, read one after the other.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use super::fault::Fault;

/// How the input is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with the columns' names in the first line.
    Csv {
        /// What stands between two fields: `,` or `;` or a tab.
        delimiter: u8,
    },
    /// A JSON object a line; empty lines are left out.
    JsonLines,
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which one it is, from 1.
    pub number: u64,
    /// The line that it begins on, from 1.
    pub line: u64,
    /// Its values by column: texts from CSV, whatever stands there in JSON.
    pub columns: BTreeMap<String, Value>,
}

impl Row {
    /// The column of this name, in upper or lower case, and its value as text; none where it is not
    /// there, or neither text nor number.
    #[must_use]
    pub fn text(&self, column: &str) -> Option<String> {
        match self.value(column)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn value(&self, column: &str) -> Option<&Value> {
        let named = |(name, _): &(&String, &Value)| name.eq_ignore_ascii_case(column);
        self.columns.get(column).or_else(|| self.columns.iter().find(named).map(|(_, v)| v))
    }
}

/// The rows of an input, each or what is wrong with it. After a fault that ends the input there are
/// no more.
pub struct Rows<R: Read> {
    file: String,
    number: u64,
    source: Source<R>,
}

enum Source<R: Read> {
    Csv { reader: csv::Reader<R>, columns: Vec<String>, record: csv::StringRecord },
    Lines { reader: BufReader<R>, line: u64 },
    Ended,
}

impl<R: Read> Rows<R> {
    /// The rows of `input`, which is called `file` in faults.
    ///
    /// # Errors
    /// A CSV without column names, or with one twice.
    pub fn new(file: &str, format: Format, input: R) -> Result<Self, Fault> {
        let source = match format {
            Format::Csv { delimiter } => {
                let mut builder = csv::ReaderBuilder::new();
                // Ended by LF alone: at a CR its lines would be counted one too few.
                builder.delimiter(delimiter).terminator(csv::Terminator::Any(b'\n'));
                let mut reader = builder.flexible(true).from_reader(input);
                let columns = columns(file, &mut reader)?;
                Source::Csv { reader, columns, record: csv::StringRecord::new() }
            }
            Format::JsonLines => Source::Lines { reader: BufReader::new(input), line: 0 },
        };
        Ok(Self { file: file.to_owned(), number: 0, source })
    }
}

fn columns<R: Read>(file: &str, reader: &mut csv::Reader<R>) -> Result<Vec<String>, Fault> {
    let header = reader.headers().map_err(|error| unreadable(file, &error))?;
    let columns: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
    let fault = |value: &str, problem: &str| Err(Fault::new(file, 1, "column", problem, value));
    for (position, name) in columns.iter().enumerate() {
        if name.is_empty() {
            let problem = "must have a name: the first line names the columns";
            return fault(&format!("column {}", position + 1), problem);
        }
        if columns[..position].contains(name) {
            return fault(name, "must not stand twice in the first line");
        }
    }
    if columns.is_empty() {
        return fault("nothing", "must be named in the first line, such as: to,first_name");
    }
    Ok(columns)
}

impl<R: Read> Iterator for Rows<R> {
    type Item = Result<Row, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = match &mut self.source {
            Source::Csv { reader, columns, record } => {
                next_record(&self.file, reader, columns, record)
            }
            Source::Lines { reader, line } => next_line(&self.file, reader, line),
            Source::Ended => return None,
        };
        match found {
            Next::Row(line, columns) => {
                self.number += 1;
                Some(Ok(Row { number: self.number, line, columns }))
            }
            Next::Fault(fault) => {
                self.number += 1;
                Some(Err(fault))
            }
            Next::Last(fault) => {
                self.source = Source::Ended;
                fault.map(Err)
            }
        }
    }
}

enum Next {
    Row(u64, BTreeMap<String, Value>),
    Fault(Fault),
    /// The input ends, where there is a fault with it.
    Last(Option<Fault>),
}

fn next_record<R: Read>(
    file: &str,
    reader: &mut csv::Reader<R>,
    columns: &[String],
    record: &mut csv::StringRecord,
) -> Next {
    loop {
        match reader.read_record(record) {
            Ok(false) => return Next::Last(None),
            // An empty line that ends in CR and LF.
            Ok(true) if record.len() == 1 && &record[0] == "\r" => {}
            Ok(true) => {
                let line = record.position().map_or(0, csv::Position::line);
                return fields(file, line, columns, record);
            }
            Err(error) => {
                let fault = unreadable(file, &error);
                return match error.kind() {
                    csv::ErrorKind::Io(_) => Next::Last(Some(fault)),
                    _ => Next::Fault(fault),
                };
            }
        }
    }
}

fn fields(file: &str, line: u64, columns: &[String], record: &csv::StringRecord) -> Next {
    let (expected, found) = (columns.len(), record.len());
    if found != expected {
        let problem = format!("must have {expected} fields, as the first line");
        return Next::Fault(Fault::new(file, line, "row", problem, found.to_string()));
    }
    let last = |position| position + 1 == found;
    let value = |(position, value): (usize, &str)| {
        let value = if last(position) { value.strip_suffix('\r').unwrap_or(value) } else { value };
        Value::String(value.to_owned())
    };
    let values = record.iter().enumerate().map(value);
    Next::Row(line, columns.iter().cloned().zip(values).collect())
}

fn unreadable(file: &str, error: &csv::Error) -> Fault {
    let line = error.position().map_or(1, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Utf8 { err, .. } => {
            let field = format!("field {}", err.field() + 1);
            Fault::new(file, line, field, "must be UTF-8", "other bytes")
        }
        _ => Fault::new(file, line, "row", "must be readable CSV", error.to_string()),
    }
}

fn next_line<R: Read>(file: &str, reader: &mut BufReader<R>, line: &mut u64) -> Next {
    loop {
        let mut bytes = Vec::new();
        *line += 1;
        match reader.read_until(b'\n', &mut bytes) {
            Ok(0) => return Next::Last(None),
            Ok(_) => {}
            Err(error) => {
                let problem = "must be readable";
                return Next::Last(Some(Fault::new(
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
        return match serde_json::from_slice(text) {
            Ok(columns) => Next::Row(*line, columns),
            Err(error) => {
                // The parser's message may quote what stands there.
                let at = format!("another thing at character {}", error.column());
                Next::Fault(Fault::new(file, *line, "line", "must be one JSON object", at))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: Format = Format::Csv { delimiter: b',' };

    fn read(format: Format, text: &[u8]) -> Vec<Result<(u64, u64, String), String>> {
        let rows = Rows::new("in", format, text).unwrap();
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
        let read = read(CSV, text.as_bytes());
        assert_eq!(read[0], Ok((1, 2, "a@x.de".to_owned())));
        let fault = "in:4: row: must have 2 fields, as the first line, not \"1\"";
        assert_eq!(read[1], Err(fault.to_owned()));
        assert_eq!(read[2], Ok((3, 5, "b@x.de".to_owned())));
        assert_eq!(read.len(), 3);
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
            let fault = Rows::new("in", CSV, text.as_bytes()).err().unwrap().to_string();
            assert!(fault.starts_with(said), "{fault}");
        }
    }

    #[test]
    fn json_lines_are_objects_and_empty_lines_are_left_out() {
        let text = "{\"To\": \"a@x.de\"}\n\n[1]\n  {\"to\": 7}";
        let read = read(Format::JsonLines, text.as_bytes());
        assert_eq!(read[0], Ok((1, 1, "a@x.de".to_owned())));
        assert!(read[1].as_ref().unwrap_err().starts_with("in:3: line: must be one JSON object"));
        assert_eq!(read[2], Ok((3, 4, "7".to_owned())));
    }
}
