use std::io::BufRead;

use serde::Deserialize;
use tidegate_core::identity::EpochMillis;
use tidegate_core::runs::RowRanges;

use super::{AcknowledgedRows, JournalError, JournalHeader, JournalRecord, VERSION};

const BEGINNING: &[u8] = b"{\"tidegate_journal\":";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalContents {
    /// The header; `None` if the file is empty or its header incomplete.
    pub header: Option<JournalHeader>,
    pub acknowledged: RowRanges,
    /// When the run ended; `None` if it is not finished.
    pub ended: Option<EpochMillis>,
    pub resumed: u64,
    /// The length up to the end of the last complete record.
    pub whole: u64,
}

/// Reads a journal record by record.
#[derive(Debug)]
pub struct JournalReader<R> {
    path: String,
    input: R,
    line: u64,
    bytes: Vec<u8>,
    contents: JournalContents,
}

impl<R: BufRead> JournalReader<R> {
    /// The records of `input`, which is called `path` in errors. The header is read at once.
    pub fn new(path: &str, input: R) -> Result<Self, JournalError> {
        let path = path.to_owned();
        let mut records =
            Self { path, input, line: 0, bytes: Vec::new(), contents: JournalContents::default() };
        if records.next_line()? {
            let damaged = |source| records.damaged(source);
            records.contents.header = Some(header(&records.path, &records.bytes, damaged)?);
            records.contents.whole = records.bytes.len() as u64;
        } else if !is_torn_header(&records.bytes) {
            // Opening a journal cuts off an incomplete record. A file that is no journal must not be
            // emptied by that, so it is refused here.
            let error = serde::de::Error::custom("it does not begin as a journal does");
            return Err(records.damaged(error));
        }
        Ok(records)
    }

    /// The next acknowledged rows; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<AcknowledgedRows>, JournalError> {
        while self.contents.header.is_some() && self.next_line()? {
            let record = serde_json::from_slice(&self.bytes).map_err(|e| self.damaged(e))?;
            self.contents.whole += self.bytes.len() as u64;
            match record {
                JournalRecord::Acknowledged(acknowledged) => {
                    for (first, last) in &acknowledged.rows {
                        self.contents.acknowledged.insert(*first, *last);
                    }
                    return Ok(Some(acknowledged));
                }
                JournalRecord::Resumed { .. } => self.contents.resumed += 1,
                JournalRecord::Ended { at } => self.contents.ended = Some(at),
            }
        }
        Ok(None)
    }

    pub const fn contents(&self) -> &JournalContents {
        &self.contents
    }

    /// Reads a line; false if there is no complete one.
    fn next_line(&mut self) -> Result<bool, JournalError> {
        self.bytes.clear();
        self.line += 1;
        self.input.read_until(b'\n', &mut self.bytes).map_err(|source| JournalError::Io {
            path: self.path.clone(),
            what: "read",
            source,
        })?;
        Ok(self.bytes.last() == Some(&b'\n'))
    }

    fn damaged(&self, source: serde_json::Error) -> JournalError {
        JournalError::Damaged { path: self.path.clone(), line: self.line, source }
    }
}

/// Reads a whole journal, called `path` in errors.
pub fn read_journal(path: &str, input: impl BufRead) -> Result<JournalContents, JournalError> {
    let mut records = JournalReader::new(path, input)?;
    while records.next_batch()?.is_some() {}
    Ok(records.contents)
}

/// Whether an incomplete line can be the remains of a header after a crash.
fn is_torn_header(line: &[u8]) -> bool {
    line.starts_with(BEGINNING) || BEGINNING.starts_with(line)
}

fn header(
    path: &str,
    line: &[u8],
    damaged: impl Fn(serde_json::Error) -> JournalError,
) -> Result<JournalHeader, JournalError> {
    #[derive(Deserialize)]
    struct Format {
        tidegate_journal: u32,
    }
    let format: Format = serde_json::from_slice(line).map_err(&damaged)?;
    if format.tidegate_journal != VERSION {
        let found = format.tidegate_journal;
        return Err(JournalError::Version { path: path.to_owned(), found });
    }
    serde_json::from_slice(line).map_err(damaged)
}
