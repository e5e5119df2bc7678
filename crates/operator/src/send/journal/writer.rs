use std::io;
use std::time::Duration;

use tidegate_delivery::ports::Monotonic;

use super::{AcknowledgedRows, JournalError, JournalHeader, JournalRecord};

/// The interval of syncs to disk. A crash of the machine may lose the batches of this interval; a
/// crash of the process loses none.
const SYNC_EVERY: Duration = Duration::from_secs(1);

pub trait JournalSink {
    /// Adds `line`, which ends in a line feed, so that a crash of this process does not lose it.
    ///
    /// # Errors
    /// Why not; a part of it may stand there.
    fn append(&mut self, line: &[u8]) -> io::Result<()>;

    /// Returns when all lines survive a crash of the machine.
    ///
    /// # Errors
    /// Why not.
    fn sync(&mut self) -> io::Result<()>;

    /// The journal's name in error messages.
    fn path(&self) -> String;
}

#[derive(Debug)]
pub struct JournalWriter<L> {
    log: L,
    synced: Option<Monotonic>,
}

impl<L: JournalSink> JournalWriter<L> {
    /// Appends to the end of `log`.
    pub fn new(log: L) -> Self {
        Self { log, synced: None }
    }

    /// The journal's name in error messages.
    pub fn path(&self) -> String {
        self.log.path()
    }

    /// Writes the header and syncs it, so that it survives any crash.
    pub fn begin(&mut self, header: &JournalHeader) -> Result<(), JournalError> {
        self.line(serde_json::to_vec(header))?;
        self.sync()
    }

    /// Adds a record that must outlive any crash.
    pub fn record(&mut self, record: &JournalRecord) -> Result<(), JournalError> {
        self.line(serde_json::to_vec(record))?;
        self.sync()
    }

    /// Adds acknowledged rows. They are synced at most once per second.
    pub fn acknowledge(
        &mut self,
        acknowledged: AcknowledgedRows,
        now: Monotonic,
    ) -> Result<(), JournalError> {
        self.line(serde_json::to_vec(&JournalRecord::Acknowledged(acknowledged)))?;
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
