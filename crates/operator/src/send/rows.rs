//! Reads the input row by row, from CSV or from JSON objects; each row is a mail.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
pub use tidegate_core::draft::InputFormat;
use tidegate_core::draft::{InputFault, InputRow, column_name};

use crate::text_file::TextLines;

/// The column of refused rows that has the reason.
const REASON: &str = "refused_because";
const ONE_LINE: &str = "must be on one line (a quote that is not closed?), or with --multiline";

/// The rows of an input, or their faults. A fault that ends the input is the last item.
pub struct InputRows<'a> {
    lines: TextLines<'a>,
    format: InputFormat,
    /// A CSV's columns; a spreadsheet's empty one has no name.
    pub(super) columns: Vec<String>,
    /// A CSV's first line.
    header: String,
    /// The last row, as it stands in the file.
    raw: String,
    /// The number of the last row.
    pub(super) number: u64,
    /// Rows of empty cells that were left out.
    pub(super) empty_rows: u64,
    /// Whether a fault has ended the input.
    pub(super) is_broken: bool,
}

impl<'a> InputRows<'a> {
    /// The rows of `input`, which is called `file` in faults.
    ///
    /// # Errors
    /// A CSV without column names, or with one twice; an array that is none; a file that is no text.
    pub fn new(file: &str, format: InputFormat, input: impl Read + 'a) -> Result<Self, InputFault> {
        let (lines, columns, number) = (TextLines::new(file, input), Vec::new(), 0);
        let (header, raw, empty_rows) = (String::new(), String::new(), 0);
        let mut rows =
            Self { lines, format, columns, header, raw, number, empty_rows, is_broken: false };
        let line = rows.record()?.unwrap_or(1);
        rows.header = std::mem::take(&mut rows.raw);
        match format {
            InputFormat::Csv { .. } => rows.name_columns(line)?,
            InputFormat::Json => {
                let mut text = std::mem::take(&mut rows.header);
                if text.trim_start().starts_with('[') {
                    for more in rows.lines.by_ref() {
                        text = text + "\n" + &more?.1;
                    }
                    let elements = elements(line, &text).map_err(|error| {
                        rows.not_json(line, "must be one array of JSON objects", &error)
                    })?;
                    rows.lines.put(elements);
                } else {
                    rows.lines.put([(line, text)]);
                }
            }
        }
        Ok(rows)
    }

    fn name_columns(&mut self, line: u64) -> Result<(), InputFault> {
        self.columns = self.fields(&self.header, line)?;
        for (position, name) in self.columns.iter().enumerate() {
            if !name.is_empty() && self.columns[..position].contains(name) {
                let column = format!("column {}", position + 1);
                return Err(self.fault(line, &column, "must not stand twice in the first line"));
            }
        }
        if self.columns.iter().all(String::is_empty) {
            let problem = "must be named in the first line, such as: to,first_name";
            return Err(self.fault(line, "column", problem));
        }
        Ok(())
    }

    /// The bytes of the last row.
    pub(super) fn bytes(&self) -> usize {
        self.raw.len()
    }

    /// The columns of a CSV; `None` for JSON, where each row names its own.
    pub fn named_columns(&self) -> Option<Vec<String>> {
        let named = self.columns.iter().filter(|name| !name.is_empty());
        (self.format != InputFormat::Json).then(|| named.cloned().collect())
    }

    /// The last row as it stands in the file, with the reason for which it was refused: a line of a list of such rows.
    /// Before the first one stands the header line of a CSV.
    pub(super) fn refused(&self, reason: &str, is_first: bool) -> String {
        let InputFormat::Csv { delimiter, .. } = self.format else {
            return with_member(REASON, reason, &self.raw);
        };
        let delimiter = char::from(delimiter);
        let mut name = REASON.to_owned();
        while self.columns.contains(&name) {
            name.push('_');
        }
        let header = format!("{name}{delimiter}{}\n", self.header);
        let header = if is_first { header } else { String::new() };
        format!("{header}\"{}\"{delimiter}{}\n", reason.replace('"', "\"\""), self.raw)
    }

    /// Reads the next record that is not an empty line into `raw`; its line, or `None` at the end.
    fn record(&mut self) -> Result<Option<u64>, InputFault> {
        let is_content = |line: &Result<(u64, String), _>| {
            line.as_ref().map_or(true, |(_, text)| !text.trim_matches(' ').is_empty())
        };
        let Some(first) = self.lines.find(is_content) else { return Ok(None) };
        let (line, text) = first?;
        self.raw = text;
        if let InputFormat::Csv { delimiter, multiline: true } = self.format {
            let mut is_open = fields(&self.raw, delimiter).is_err();
            while is_open && let Some((_, more)) = self.lines.next().transpose()? {
                self.raw = std::mem::take(&mut self.raw) + "\n" + &more;
                // Only a quote ends what is in quotes.
                is_open = !more.contains('"') || fields(&self.raw, delimiter).is_err();
            }
        }
        Ok(Some(line))
    }

    fn row(&self, line: u64) -> Result<BTreeMap<String, Value>, InputFault> {
        if self.format == InputFormat::Json {
            return object(&self.raw)
                .map_err(|error| self.not_json(line, "must be one JSON object", &error));
        }
        let fields = self.fields(&self.raw, line)?;
        let mut row = BTreeMap::new();
        if fields.iter().all(String::is_empty) {
            return Ok(row);
        }
        let (expected, found) = (self.columns.len(), fields.len());
        let named = self.columns.iter().rposition(|name| !name.is_empty()).map_or(0, |at| at + 1);
        for (position, value) in fields.iter().enumerate() {
            match self.columns.get(position).filter(|name| !name.is_empty()) {
                Some(name) => drop(row.insert(name.clone(), cell(value))),
                None if value.is_empty() => {}
                None => {
                    let problem = format!(
                        "must have values below the names of the first line only; field {} has none",
                        position + 1
                    );
                    return Err(self.fault(line, "row", &problem));
                }
            }
        }
        if found < named {
            let problem = format!("must have {expected} fields, as the first line; it has {found}");
            return Err(self.fault(line, "row", &problem));
        }
        Ok(row)
    }

    /// The fields of a record of a CSV.
    fn fields(&self, record: &str, line: u64) -> Result<Vec<String>, InputFault> {
        let InputFormat::Csv { delimiter, multiline } = self.format else { return Ok(Vec::new()) };
        fields(record, delimiter).map_err(|position| match self.columns.get(position) {
            _ if multiline => self.fault(line, "row", "must have its last quote closed"),
            Some(name) if !name.is_empty() => self.fault(line, column_name(name), ONE_LINE),
            _ => self.fault(line, &format!("field {}", position + 1), ONE_LINE),
        })
    }

    fn fault(&self, line: u64, field: &str, problem: &str) -> InputFault {
        InputFault::bare(&self.lines.file, line, field, problem)
    }

    /// The parser's own message may quote the input, which may contain addresses.
    fn not_json(&self, line: u64, problem: &str, error: &serde_json::Error) -> InputFault {
        let line = line + (error.line() as u64).saturating_sub(1);
        let problem = format!("{problem}; character {} is another thing", error.column());
        self.fault(line, "line", &problem)
    }
}

impl Iterator for InputRows<'_> {
    type Item = Result<InputRow, InputFault>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_broken {
            let line = match self.record() {
                Ok(line) => line?,
                Err(fault) => {
                    self.is_broken = true;
                    return Some(Err(fault));
                }
            };
            let row = self.row(line);
            if row.as_ref().is_ok_and(BTreeMap::is_empty) {
                self.empty_rows += 1;
                continue;
            }
            self.number += 1;
            let (file, number) = (Arc::clone(&self.lines.file), self.number);
            return Some(row.map(|columns| InputRow { file, number, line, columns }));
        }
        None
    }
}

/// The fields without the blanks around them, or the position of the one whose quote is not closed.
///
/// As spreadsheets write them, and people: blanks may stand before a quote, and what follows its end is part of the value.
pub(super) fn fields(record: &str, delimiter: u8) -> Result<Vec<String>, usize> {
    let delimiter = char::from(delimiter);
    let is_blank = |c: char| c != delimiter && c.is_whitespace();
    let mut fields = Vec::new();
    let mut rest = Some(record);
    while let Some(mut text) = rest {
        let mut value = String::new();
        if let Some(quoted) = text.trim_start_matches(is_blank).strip_prefix('"') {
            text = quoted;
            loop {
                let (inner, after) = text.split_once('"').ok_or(fields.len())?;
                value += inner;
                text = after;
                let Some(more) = after.strip_prefix('"') else { break };
                value.push('"');
                text = more;
            }
        }
        let (last, after) = text.split_once(delimiter).map_or((text, None), |(l, a)| (l, Some(a)));
        fields.push((value + last).trim().to_owned());
        rest = after;
    }
    Ok(fields)
}

/// A text as a row's value, without the blanks around it.
pub(super) fn cell(text: &str) -> Value {
    match text.trim() {
        "" => Value::Null,
        text => Value::from(text),
    }
}

/// The values of an object.
pub(super) fn object(json: &str) -> serde_json::Result<BTreeMap<String, Value>> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(json)?;
    let read = |(name, value)| match as_written(value)? {
        Value::String(text) => Ok((name, cell(&text))),
        value => Ok((name, value)),
    };
    members.into_iter().map(read).collect()
}

/// A value of which numbers stay as they are written: one that is not whole is a text, as every value of a CSV is,
/// because as a number it would lose its zeros. A `null` inside of it is left out.
fn as_written(json: &RawValue) -> serde_json::Result<Value> {
    let text = json.get();
    let is_there = |value: &&RawValue| value.get() != "null";
    Ok(match text.as_bytes().first() {
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            let items = items.into_iter().filter(is_there).map(as_written);
            Value::Array(items.collect::<serde_json::Result<_>>()?)
        }
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
            let members = members.into_iter().filter(|(_, value)| is_there(value));
            let read = |(name, value)| Ok((name, as_written(value)?));
            Value::Object(members.map(read).collect::<serde_json::Result<_>>()?)
        }
        Some(b'-' | b'0'..=b'9')
            if text.parse::<i64>().map(|n| n.to_string()).as_deref() != Ok(text) =>
        {
            Value::from(text)
        }
        _ => serde_json::from_str(text)?,
    })
}

/// The elements of an array that begins on a line, each with its own line.
pub(super) fn elements(mut line: u64, text: &str) -> serde_json::Result<Vec<(u64, String)>> {
    let (mut rest, mut elements) = (text, Vec::new());
    for element in serde_json::from_str::<Vec<&RawValue>>(text)? {
        let Some((before, after)) = rest.split_once(element.get()) else { continue };
        line += before.matches('\n').count() as u64;
        elements.push((line, element.get().to_owned()));
        line += element.get().matches('\n').count() as u64;
        rest = after;
    }
    Ok(elements)
}

/// An object in one line with one member more; what is no object is a member of it.
pub(super) fn with_member(name: &str, value: &str, json: &str) -> String {
    // A line break in an object stands between its members.
    let json = json.trim().replace('\n', " ");
    let value = Value::from(value);
    match serde_json::from_str::<BTreeMap<String, &RawValue>>(&json) {
        Ok(members) if !members.is_empty() => format!("{{\"{name}\":{value},{}\n", &json[1..]),
        _ => format!("{{\"{name}\":{value},\"row\":{}}}\n", Value::from(json)),
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
        let fault = "in:4: row: must have 2 fields, as the first line; it has 1";
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
        assert_eq!(header.to_string(), format!("in:1: field 2: {problem}"));
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
    fn a_file_that_is_no_text_is_one_fault_with_its_line() {
        let read = read(CSV, b"to,note\na@x.de,d\nb@x.de,\xff\nc@x.de,\xff\n");
        assert_eq!(read[0], Ok((1, 2, "a@x.de".to_owned())));
        assert!(read[1].as_ref().unwrap_err().starts_with("in:3: text: must be UTF-8"));
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn a_csv_needs_the_names_of_its_columns_each_once() {
        for (text, said) in [
            ("to,to\n", "in:1: column 2: must not stand twice in the first line"),
            ("to,b@x.de, b@x.de\n", "in:1: column 3: must not stand twice in the first line"),
            (" ,\n", "in:1: column: must be named in the first line"),
            ("", "in:1: column: must be named in the first line"),
        ] {
            let fault = InputRows::new("in", CSV, text.as_bytes()).err().unwrap().to_string();
            assert!(fault.starts_with(said), "{fault}");
        }
    }

    #[test]
    fn json_lines_are_objects_and_empty_lines_are_left_out() {
        let text = "{\"To\": \"a@x.de\"}\n\n[1]\n  {\"to\": 7}";
        let read = read(InputFormat::Json, text.as_bytes());
        assert_eq!(read[0], Ok((1, 1, "a@x.de".to_owned())));
        assert!(read[1].as_ref().unwrap_err().starts_with("in:3: line: must be one JSON object"));
        assert_eq!(read[2], Ok((3, 4, "7".to_owned())));
    }
}
