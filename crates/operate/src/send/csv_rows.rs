//! Reads CSV record by record, each with the number of its first line.

use std::collections::BTreeMap;
use std::io::{self, Read};

use serde_json::Value;

use super::fault::InputFault;

pub(super) enum NextRow {
    Row(u64, BTreeMap<String, Value>),
    /// The row has a fault; the next row can be read.
    Fault(InputFault),
    /// The input ends here, normally or with a fault.
    Last(Option<InputFault>),
}

const ONE_LINE: &str = "must be on one line (a quote that is not closed?), or with --multiline";

/// A CSV reader that has read the header line.
pub(super) struct CsvReader<R: Read> {
    reader: csv::Reader<FinalNewline<R>>,
    columns: Vec<String>,
    multiline: bool,
    // Bytes instead of text: a UTF-8 error of the csv crate has the wrong line after empty lines.
    record: csv::ByteRecord,
}

impl<R: Read> CsvReader<R> {
    /// The records of `input`, called `file` in faults.
    ///
    /// # Errors
    /// A first line that does not name the columns, each once.
    pub(super) fn new(
        file: &str,
        delimiter: u8,
        multiline: bool,
        input: R,
    ) -> Result<Self, InputFault> {
        let mut builder = csv::ReaderBuilder::new();
        // Only LF ends a record: with CR as an end too, the crate would count lines wrongly.
        builder.delimiter(delimiter).terminator(csv::Terminator::Any(b'\n')).flexible(true);
        let mut reader =
            builder.from_reader(FinalNewline { input, newline_given: false, at_end: false });
        let columns = columns(file, &mut reader, multiline)?;
        Ok(Self { reader, columns, multiline, record: csv::ByteRecord::new() })
    }

    /// The columns' names, as the first line has them.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(super) fn next(&mut self, file: &str) -> NextRow {
        loop {
            match self.reader.read_byte_record(&mut self.record) {
                Ok(false) => return NextRow::Last(None),
                // An empty line with CR and LF: skipped like other empty lines.
                Ok(true) if self.record.len() == 1 && &self.record[0] == b"\r" => {}
                Ok(true) => {
                    let row = self.row(file);
                    return row.map_or_else(NextRow::Fault, |(line, row)| NextRow::Row(line, row));
                }
                Err(error) => return NextRow::Last(Some(unreadable(file, &error))),
            }
        }
    }

    fn row(&self, file: &str) -> Result<(u64, BTreeMap<String, Value>), InputFault> {
        let Self { columns, record, .. } = self;
        let open = self.reader.get_ref().at_end;
        let line = self.line(open);
        let values: Vec<&[u8]> = record.iter().collect();
        let (expected, found) = (columns.len(), values.len());
        let name = |position: usize| {
            columns.get(position).cloned().unwrap_or_else(|| format!("field {}", position + 1))
        };
        if !self.multiline {
            let broken = values.iter().position(|value| value.contains(&b'\n'));
            if let Some(position) = broken {
                return Err(InputFault::bare(file, line, name(position), ONE_LINE));
            }
        }
        if open {
            return Err(unclosed(file, line));
        }
        if found != expected {
            let problem = format!("must have {expected} fields, as the first line");
            return Err(InputFault::new(file, line, "row", problem, found.to_string()));
        }
        let mut row = BTreeMap::new();
        for (position, value) in values.into_iter().enumerate() {
            let text = utf8(file, line, || format!("field {}", position + 1), value)?;
            let is_last = position + 1 == found;
            let text = if is_last { text.strip_suffix('\r').unwrap_or(text) } else { text };
            row.insert(columns[position].clone(), Value::String(text.to_owned()));
        }
        Ok((line, row))
    }

    /// The line on which the record begins. The csv crate reports the position before skipped empty
    /// lines, so the line is computed back from the record's end.
    fn line(&self, open: bool) -> u64 {
        let breaks = self.record.as_slice().split(|byte| *byte == b'\n').skip(1).count() as u64;
        let end = u64::from(!open);
        self.reader.position().line().saturating_sub(breaks + end)
    }
}

fn columns<R: Read>(
    file: &str,
    reader: &mut csv::Reader<FinalNewline<R>>,
    multiline: bool,
) -> Result<Vec<String>, InputFault> {
    let header = reader.byte_headers().map_err(|error| unreadable(file, &error))?;
    let broken = header.iter().position(|name| name.contains(&b'\n'));
    let text = |(position, name)| {
        let name = utf8(file, 1, || format!("column {}", position + 1), name)?;
        Ok(name.trim().to_owned())
    };
    let columns: Vec<String> = header.iter().enumerate().map(text).collect::<Result<_, _>>()?;
    if let Some(position) = broken.filter(|_| !multiline) {
        return Err(InputFault::bare(file, 1, format!("column {}", position + 1), ONE_LINE));
    }
    if reader.get_ref().at_end && !columns.is_empty() {
        return Err(unclosed(file, 1));
    }
    let fault =
        |value: &str, problem: &str| Err(InputFault::new(file, 1, "column", problem, value));
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

fn unclosed(file: &str, line: u64) -> InputFault {
    InputFault::bare(file, line, "row", "must have its last quote closed")
}

fn unreadable(file: &str, error: &csv::Error) -> InputFault {
    let line = error.position().map_or(1, csv::Position::line);
    InputFault::new(file, line, "row", "must be readable CSV", error.to_string())
}

/// The text of `bytes`, which are the field `field` of a row.
///
/// # Errors
/// Other bytes than UTF-8, with the encoding that they probably have.
pub(super) fn utf8<'a>(
    file: &str,
    line: u64,
    field: impl FnOnce() -> String,
    bytes: &'a [u8],
) -> Result<&'a str, InputFault> {
    let utf16 = matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) || bytes.contains(&0);
    let problem = match std::str::from_utf8(bytes) {
        Ok(text) if !utf16 => return Ok(text),
        Err(error) if !utf16 => {
            let byte = bytes[error.valid_up_to()];
            let latin = char::from(byte);
            let shown = if latin.is_control() { String::new() } else { format!(" ({latin:?})") };
            format!("must be UTF-8: save the file so; byte {byte:02X}{shown} looks like Latin-1")
        }
        _ => "must be UTF-8: save the file so; it looks like UTF-16".to_owned(),
    };
    Err(InputFault::bare(file, line, field(), problem))
}

/// A reader that appends a line feed to the input. Each complete record then ends in a line feed,
/// so a record for which the parser reads to the end of the input has an unclosed quote.
struct FinalNewline<R> {
    input: R,
    newline_given: bool,
    /// The parser has read past the appended line feed, to the end.
    at_end: bool,
}

impl<R: Read> Read for FinalNewline<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.newline_given {
            let read = self.input.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.newline_given = true;
            buffer[0] = b'\n';
            return Ok(1);
        }
        self.at_end = true;
        Ok(0)
    }
}
