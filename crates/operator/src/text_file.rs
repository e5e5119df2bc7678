//! The one reader of text files that a user gives: lists, templates, exclusions, dead letters to edit.
//!
//! Editors, spreadsheets and exports write text in many forms, which are all read alike: gzip is unpacked, a byte order
//! mark left out, and CR, LF or both end a line. Another encoding than UTF-8 is refused with the one that it seems to be: one
//! that is guessed would greet people by wrong names.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use crate::send::InputFault;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The lines of a file with their numbers, or the fault of a line that is no text.
pub struct TextLines<'a> {
    pub(crate) file: Arc<str>,
    input: Box<dyn BufRead + 'a>,
    line: u64,
    /// Lines that were read and not taken: several where CR alone ends a line.
    read: VecDeque<(u64, String)>,
}

impl<'a> TextLines<'a> {
    /// The lines of `input`, which is called `file` in faults.
    pub fn new(file: &str, input: impl Read + 'a) -> Self {
        let mut input = BufReader::new(input);
        let is_packed = input.fill_buf().is_ok_and(|head| head.starts_with(&GZIP));
        let input: Box<dyn BufRead> = if is_packed {
            Box::new(BufReader::new(MultiGzDecoder::new(input)))
        } else {
            Box::new(input)
        };
        Self { file: file.into(), input, line: 0, read: VecDeque::new() }
    }

    /// Puts lines before those that are not taken yet.
    pub(crate) fn put(&mut self, lines: impl IntoIterator<Item = (u64, String)>) {
        let rest = std::mem::take(&mut self.read);
        self.read = lines.into_iter().chain(rest).collect();
    }

    /// Reads as far as LF.
    fn read(&mut self) -> Result<(), InputFault> {
        let mut bytes = Vec::new();
        let read = self.input.read_until(b'\n', &mut bytes);
        let fault = |field, problem| InputFault::bare(&self.file, self.line + 1, field, problem);
        if read.map_err(|error| fault("file", format!("must be readable: {error}")))? == 0 {
            return Ok(());
        }
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) if !bytes.contains(&0) => text,
            _ => return Err(fault("text", foreign(&bytes, self.line == 0))),
        };
        let text = if self.line == 0 { text.trim_start_matches('\u{feff}') } else { text };
        let text = text.strip_suffix('\n').unwrap_or(text);
        for line in text.strip_suffix('\r').unwrap_or(text).split('\r') {
            self.line += 1;
            self.read.push_back((self.line, line.to_owned()));
        }
        Ok(())
    }
}

impl Iterator for TextLines<'_> {
    type Item = Result<(u64, String), InputFault>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = if self.read.is_empty() { self.read() } else { Ok(()) };
        read.map(|()| self.read.pop_front()).transpose()
    }
}

/// The allowed encoding, and the one that a line seems to be in.
fn foreign(bytes: &[u8], is_first: bool) -> String {
    let nuls = bytes.split(|byte| *byte == 0).count() - 1;
    let has_mark = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    let foreign = std::str::from_utf8(bytes).err().map_or(0, |error| bytes[error.valid_up_to()]);
    let seems = match foreign {
        _ if is_first && bytes.starts_with(b"PK") => {
            "it looks like a workbook or an archive: save the sheet as CSV".to_owned()
        }
        _ if is_first && has_mark || nuls * 8 > bytes.len() => "it looks like UTF-16".to_owned(),
        0 => "it has the character NUL".to_owned(),
        0x80..0xa0 => format!("byte {foreign:02X} looks like Windows-1252"),
        _ => format!("byte {foreign:02X} ({:?}) looks like Latin-1", char::from(foreign)),
    };
    format!("must be UTF-8: save the file so; {seems}")
}

/// The text of `input`, which is called `file` in faults.
///
/// # Errors
/// The line that is no text, or cannot be read.
pub fn read_text(file: &str, input: impl Read) -> Result<String, InputFault> {
    let lines = TextLines::new(file, input).map(|line| line.map(|(_, text)| text));
    Ok(lines.collect::<Result<Vec<_>, _>>()?.join("\n"))
}
