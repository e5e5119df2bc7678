//! The journal of a run: what SQS acknowledged, so that an interrupted run goes on where it was.
//!
//! A line a record, each a JSON object: the header, a record a batch acknowledged, at last the end.
//! It is only ever appended to, so what a crash leaves is a part of it: a last line without its line
//! feed counts as not written. It holds the mails' ids (so that they can be reconciled when the
//! input is gone) and no address that is not one of them.

mod file;
mod ranges;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::Monotonic;

pub use file::JournalFile;
pub use ranges::Ranges;

/// The format that is written; others are refused.
const VERSION: u32 = 1;
/// What a machine's crash may cost of the acknowledged batches; a process's crash costs none.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// The first record: what is sent, and what stood as it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The format.
    pub tidegate_journal: u32,
    /// The campaign's name.
    pub campaign: String,
    /// Its queue's URL.
    pub queue: String,
    /// What the run is called.
    pub run: String,
    /// The input's name, templates and options by name: contents as their SHA-256.
    pub settings: BTreeMap<String, String>,
    /// How many rows there are.
    pub rows: u64,
    /// Who began it.
    pub by: String,
    /// When.
    pub at: EpochMillis,
    /// What stood then.
    pub before: Before,
}

/// What stood as a run began, for reconciling by counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Recipients that the campaign was sent to, ever.
    pub sent: i64,
    /// Mails of all campaigns of which nobody knew whether SES took them, ever.
    pub possibly_sent: i64,
    /// Messages on the campaign's queue: visible, in flight and delayed.
    pub queued: u64,
    /// Messages on the merge queue.
    pub merging: u64,
}

impl Header {
    /// A header in today's format.
    #[must_use]
    pub fn new(campaign: &str, queue: &str, run: &str, by: &str, at: EpochMillis) -> Self {
        Self {
            tidegate_journal: VERSION,
            campaign: campaign.to_owned(),
            queue: queue.to_owned(),
            run: run.to_owned(),
            settings: BTreeMap::new(),
            rows: 0,
            by: by.to_owned(),
            at,
            before: Before::default(),
        }
    }

    /// What is not the same in `now`, by name: what was, and what is.
    #[must_use]
    pub fn differences(&self, now: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut compare = |name: &str, was: Option<&str>, is: Option<&str>| {
            if was != is {
                let text = |value: Option<&str>| value.unwrap_or("not given").to_owned();
                differences.push(Difference {
                    name: name.to_owned(),
                    was: text(was),
                    is: text(is),
                });
            }
        };
        compare("campaign", Some(&self.campaign), Some(&now.campaign));
        compare("queue", Some(&self.queue), Some(&now.queue));
        compare("run", Some(&self.run), Some(&now.run));
        let names = self.settings.keys().chain(now.settings.keys());
        for name in names.collect::<std::collections::BTreeSet<_>>() {
            let value = |header: &Self| header.settings.get(name).cloned();
            compare(name, value(self).as_deref(), value(now).as_deref());
        }
        differences
    }
}

/// Something that is not as it was when the run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The input, template or option.
    pub name: String,
    /// What it was: of a content the SHA-256.
    pub was: String,
    /// What it is.
    pub is: String,
}

/// The records after the header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A batch that SQS took.
    Acknowledged(Acknowledged),
    /// The run went on after an interruption.
    Resumed {
        /// When.
        at: EpochMillis,
        /// Whoever resumed it.
        by: String,
    },
    /// Every row is acknowledged.
    Ended {
        /// When.
        at: EpochMillis,
    },
}

/// Rows that stand on their queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// Their numbers from 1: first and last of each stretch.
    pub rows: Vec<(u64, u64)>,
    /// Their ids, in the same order.
    pub ids: Vec<String>,
}

impl Acknowledged {
    /// These rows, given in ascending order, and their ids.
    #[must_use]
    pub fn of<'a>(rows: impl IntoIterator<Item = (u64, &'a str)>) -> Self {
        let mut acknowledged = Self::default();
        for (row, id) in rows {
            match acknowledged.rows.last_mut() {
                Some((_, last)) if *last + 1 == row => *last = row,
                _ => acknowledged.rows.push((row, row)),
            }
            acknowledged.ids.push(id.to_owned());
        }
        acknowledged
    }
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read or written.
    #[error("{path}: the journal cannot be {what}")]
    Io {
        /// The file.
        path: String,
        /// `read`, `written`, …
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Another process has it.
    #[error("{path}: another tidegate send is at work on this journal; wait for it, or end it")]
    InUse {
        /// The file.
        path: String,
    },
    /// A line within it is no record.
    #[error(
        "{path}:{line}: this is no record of a journal; restore the file, or send what is left of the input under another --run"
    )]
    Damaged {
        /// The file.
        path: String,
        /// The line, from 1.
        line: u64,
        /// Why.
        source: serde_json::Error,
    },
    /// Another format.
    #[error(
        "{path}: a journal of format {found}; allowed is {VERSION}: use the tidegate that wrote it"
    )]
    Version {
        /// The file.
        path: String,
        /// Its format.
        found: u32,
    },
}

/// What stands in a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The header; none where not even that was written.
    pub header: Option<Header>,
    /// The rows that are acknowledged.
    pub acknowledged: Ranges,
    /// Whether the run is over.
    pub ended: bool,
    /// How often it was resumed.
    pub resumed: u64,
    /// Bytes up to the end of the last whole record: what follows is torn.
    pub whole: u64,
}

/// Reads a journal, called `path` in errors; `each` gets what was acknowledged, record by record.
///
/// # Errors
/// [`JournalError`].
pub fn read(
    path: &str,
    mut input: impl BufRead,
    mut each: impl FnMut(&Header, &Acknowledged),
) -> Result<Contents, JournalError> {
    let mut contents = Contents::default();
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let read = input.read_until(b'\n', &mut bytes).map_err(|source| JournalError::Io {
            path: path.to_owned(),
            what: "read",
            source,
        })?;
        if read == 0 || bytes.last() != Some(&b'\n') {
            break;
        }
        let damaged = |source| JournalError::Damaged { path: path.to_owned(), line, source };
        match &contents.header {
            None => contents.header = Some(header(path, &bytes, damaged)?),
            Some(header) => match serde_json::from_slice(&bytes).map_err(damaged)? {
                Record::Acknowledged(acknowledged) => {
                    each(header, &acknowledged);
                    for (first, last) in acknowledged.rows {
                        contents.acknowledged.insert(first, last);
                    }
                }
                Record::Resumed { .. } => contents.resumed += 1,
                Record::Ended { .. } => contents.ended = true,
            },
        }
        contents.whole += read as u64;
    }
    Ok(contents)
}

fn header(
    path: &str,
    line: &[u8],
    damaged: impl Fn(serde_json::Error) -> JournalError,
) -> Result<Header, JournalError> {
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

/// Where a journal is written.
pub trait Log {
    /// Adds `line`, which ends in a line feed, so that a crash of this process does not lose it.
    ///
    /// # Errors
    /// Why not; a part of it may stand there.
    fn append(&mut self, line: &[u8]) -> io::Result<()>;

    /// Returns when what was added outlives a crash of the machine.
    ///
    /// # Errors
    /// Why not.
    fn sync(&mut self) -> io::Result<()>;

    /// What it is called in errors.
    fn path(&self) -> String;
}

/// Writes a journal's records.
#[derive(Debug)]
pub struct Writer<L> {
    log: L,
    synced: Option<Monotonic>,
}

impl<L: Log> Writer<L> {
    /// Goes on at the end of `log`.
    pub fn new(log: L) -> Self {
        Self { log, synced: None }
    }

    /// What the journal is called in errors.
    pub fn path(&self) -> String {
        self.log.path()
    }

    /// Begins a journal: outlives any crash from here on.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn begin(&mut self, header: &Header) -> Result<(), JournalError> {
        self.line(serde_json::to_vec(header))?;
        self.sync()
    }

    /// Adds a record that must outlive any crash.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn record(&mut self, record: &Record) -> Result<(), JournalError> {
        self.line(serde_json::to_vec(record))?;
        self.sync()
    }

    /// Adds what was acknowledged by `now`.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn acknowledge(
        &mut self,
        acknowledged: Acknowledged,
        now: Monotonic,
    ) -> Result<(), JournalError> {
        self.line(serde_json::to_vec(&Record::Acknowledged(acknowledged)))?;
        if self.synced.is_none_or(|synced| now.saturating_since(synced) >= SYNC_EVERY) {
            self.sync()?;
            self.synced = Some(now);
        }
        Ok(())
    }

    fn line(&mut self, json: Result<Vec<u8>, serde_json::Error>) -> Result<(), JournalError> {
        let written = json.map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.log.append(&line)
        });
        written.map_err(|source| self.failed(source))
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.log.sync().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> JournalError {
        JournalError::Io { path: self.log.path(), what: "written", source }
    }
}
