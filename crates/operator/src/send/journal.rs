//! The journal of a run: a record of what SQS acknowledged, from which an interrupted run is
//! resumed.
//!
//! Each line is a JSON object: the header, then a record for each acknowledged batch, and at last
//! the end. The file is only appended to, so a crash leaves a prefix of it; a last line without a
//! line feed counts as not written. It contains the mails' ids, so that they can be accounted for
//! without the input, and no addresses except those used as ids.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_core::identity::EpochMillis;
use tidegate_core::runs::{Baseline, RowRanges, Run};
use tidegate_delivery::ports::Monotonic;

use super::rows::InputFormat;

/// The version of the journal's format; others are refused.
pub const JOURNAL_VERSION: u32 = 1;

/// The first record: the input and options of the run, and the baseline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHeader {
    pub tidegate_journal: u32,
    pub campaign: String,
    pub queue: String,
    pub run: String,
    /// The input, templates and options by name; contents as their SHA-256.
    pub settings: BTreeMap<String, String>,
    pub rows: u64,
    pub by: String,
    pub at: EpochMillis,
    pub before: Baseline,
    /// The input, for `tidegate results`.
    pub input: JournalInput,
}

/// The input file of a run. The journal has no addresses: they are read from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalInput {
    /// The whole path, so that it is found from any folder.
    pub path: PathBuf,
    pub format: InputFormat,
    /// The column of the recipient, if it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_column: Option<String>,
}

impl JournalHeader {
    /// The header of a run whose messages go to `queue`.
    pub fn of(
        run: &Run,
        queue: &str,
        settings: BTreeMap<String, String>,
        input: JournalInput,
    ) -> Self {
        Self {
            tidegate_journal: JOURNAL_VERSION,
            campaign: run.campaign.clone(),
            queue: queue.to_owned(),
            run: run.name.clone(),
            settings,
            rows: run.input.rows,
            by: run.sender.by.clone(),
            at: run.began,
            before: run.before,
            input,
        }
    }

    /// The settings that differ between this header and `now`: `--from (a@example.org then, not given now)`.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let all = |header: &Self| {
            let own =
                [("campaign", &header.campaign), ("queue", &header.queue), ("run", &header.run)];
            let own = own.map(|(name, value)| (name.to_owned(), value.clone()));
            header.settings.clone().into_iter().chain(own).collect::<BTreeMap<_, _>>()
        };
        let (was, is) = (all(self), all(now));
        let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
        let changed = names.into_iter().filter(|name| was.get(*name) != is.get(*name));
        let shown = |value: Option<&String>| short(value.map_or("not given", String::as_str));
        changed
            .map(|name| {
                format!("{name} ({} then, {} now)", shown(was.get(name)), shown(is.get(name)))
            })
            .collect()
    }
}

/// A value for display; of a content's SHA-256 the beginning.
fn short(value: &str) -> String {
    let is_hash = value.len() == 64 && value.chars().all(|c| c.is_ascii_hexdigit());
    if is_hash { format!("{}…", &value[..12]) } else { value.to_owned() }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalRecord {
    Acknowledged(AcknowledgedRows),
    /// The run went on after an interruption.
    Resumed {
        at: EpochMillis,
        by: String,
    },
    Ended {
        at: EpochMillis,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcknowledgedRows {
    /// When the last of them was acknowledged.
    pub at: EpochMillis,
    /// Row numbers from 1, as ranges of first and last.
    pub rows: Vec<(u64, u64)>,
    /// Their ids, in the same order.
    pub ids: Vec<String>,
}

impl AcknowledgedRows {
    /// These rows, given in ascending order, and their ids.
    pub fn of<'a>(at: EpochMillis, rows: impl IntoIterator<Item = (u64, &'a str)>) -> Self {
        let mut acknowledged = Self { at, rows: Vec::new(), ids: Vec::new() };
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
    Io { path: String, what: &'static str, source: io::Error },
    #[error("{path}: another tidegate send is at work on this journal; wait for it, or end it")]
    InUse { path: String },
    /// A line within it is no record.
    #[error(
        "{path}:{line}: this is no record of a journal; restore the file, or send what is left of the input under another --run"
    )]
    Damaged { path: String, line: u64, source: serde_json::Error },
    #[error(
        "{path}: a journal of format {found}; allowed is {JOURNAL_VERSION}: use the tidegate that wrote it"
    )]
    Version { path: String, found: u32 },
}

/// A journal's file, locked for this process until it is dropped. What was flushed survives a crash of the machine; what
/// was only written, one of this process.
#[derive(Debug)]
pub struct JournalFile(File);

impl Write for JournalFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl JournalWriter<JournalFile> {
    /// Opens or creates the journal at `path`, with its folder, readable by its owner only. An
    /// incomplete last record is cut off. Returns the journal's contents too.
    ///
    /// # Errors
    /// [`JournalError`]; [`JournalError::InUse`] while another process has it.
    pub fn open(path: &Path) -> Result<(Self, JournalContents), JournalError> {
        let shown = path.display().to_string();
        let failed = |what| {
            move |source| JournalError::Io { path: path.display().to_string(), what, source }
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(failed("made"))?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(failed("opened"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::InUse { path: shown }),
            Err(TryLockError::Error(source)) => return Err(failed("locked")(source)),
        }
        let contents = read_journal(&shown, BufReader::new(&file), |_| {})?;
        file.set_len(contents.whole).map_err(failed("cut to its last whole record"))?;
        file.seek(SeekFrom::Start(contents.whole)).map_err(failed("read"))?;
        Ok((Self::new(JournalFile(file), &shown), contents))
    }
}

const BEGINNING: &[u8] = b"{\"tidegate_journal\":";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalContents {
    /// The header; `None` if the file is empty or its header incomplete.
    pub header: Option<JournalHeader>,
    pub acknowledged: RowRanges,
    /// When the run ended; `None` if it is not finished.
    pub ended: Option<EpochMillis>,
    /// The length up to the end of the last complete record.
    pub whole: u64,
}

/// The member that the header of every format has.
#[derive(Deserialize)]
struct JournalFormat {
    tidegate_journal: u32,
}

/// Reads a journal, called `path` in errors. `each` gets the rows of each acknowledged batch, in order.
pub fn read_journal(
    path: &str,
    mut input: impl BufRead,
    mut each: impl FnMut(AcknowledgedRows),
) -> Result<JournalContents, JournalError> {
    let (mut contents, mut bytes) = (JournalContents::default(), Vec::new());
    for line in 1.. {
        bytes.clear();
        let failed = |source| JournalError::Io { path: path.to_owned(), what: "read", source };
        input.read_until(b'\n', &mut bytes).map_err(failed)?;
        let damaged = |source| JournalError::Damaged { path: path.to_owned(), line, source };
        if bytes.last() != Some(&b'\n') {
            // Opening a journal cuts off an incomplete record. A file that is no journal must not be
            // emptied by that, so it is refused here.
            if line == 1 && !is_torn_header(&bytes) {
                let said = "it does not begin as a journal does";
                return Err(damaged(serde::de::Error::custom(said)));
            }
            break;
        }
        contents.whole += bytes.len() as u64;
        if line == 1 {
            let format: JournalFormat = serde_json::from_slice(&bytes).map_err(damaged)?;
            let found = format.tidegate_journal;
            if found != JOURNAL_VERSION {
                return Err(JournalError::Version { path: path.to_owned(), found });
            }
            contents.header = Some(serde_json::from_slice(&bytes).map_err(damaged)?);
            continue;
        }
        match serde_json::from_slice(&bytes).map_err(damaged)? {
            JournalRecord::Acknowledged(batch) => {
                for (first, last) in &batch.rows {
                    contents.acknowledged.insert(*first, *last);
                }
                each(batch);
            }
            JournalRecord::Resumed { .. } => {}
            JournalRecord::Ended { at } => contents.ended = Some(at),
        }
    }
    Ok(contents)
}

/// Whether an incomplete line can be the remains of a header after a crash.
fn is_torn_header(line: &[u8]) -> bool {
    line.starts_with(BEGINNING) || BEGINNING.starts_with(line)
}

/// The interval of syncs to disk. A crash of the machine may lose the batches of this interval; a
/// crash of the process loses none.
const SYNC_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct JournalWriter<W> {
    log: W,
    /// The journal's name in error messages.
    pub(super) path: String,
    synced: Option<Monotonic>,
}

impl<W: Write> JournalWriter<W> {
    /// Appends to the end of `log`, which is called `path` in errors.
    pub fn new(log: W, path: &str) -> Self {
        Self { log, path: path.to_owned(), synced: None }
    }

    /// Adds a record that must outlive any crash; the first is a [`JournalHeader`], each other one a [`JournalRecord`].
    pub fn record(&mut self, record: &impl Serialize) -> Result<(), JournalError> {
        self.line(record)?;
        self.sync()
    }

    /// Adds acknowledged rows. They are synced at most once per second.
    pub fn acknowledge(
        &mut self,
        acknowledged: AcknowledgedRows,
        now: Monotonic,
    ) -> Result<(), JournalError> {
        self.line(&JournalRecord::Acknowledged(acknowledged))?;
        if self.synced.is_none_or(|synced| now.saturating_since(synced) >= SYNC_EVERY) {
            self.sync()?;
            self.synced = Some(now);
        }
        Ok(())
    }

    /// Adds a line, so that a crash of this process does not lose it.
    fn line(&mut self, record: &impl Serialize) -> Result<(), JournalError> {
        let json = serde_json::to_vec(record).map_err(io::Error::from);
        let written = json.and_then(|line| self.log.write_all(&[&line[..], b"\n"].concat()));
        written.map_err(|source| self.failed(source))
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.log.flush().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> JournalError {
        JournalError::Io { path: self.path.clone(), what: "written", source }
    }
}

#[cfg(test)]
mod tests;
