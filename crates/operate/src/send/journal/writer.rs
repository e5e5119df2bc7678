use std::io;
use std::time::Duration;

use tidegate_delivery::ports::Monotonic;

use super::{AcknowledgedRows, JournalError, JournalHeader, JournalRecord};

/// What a machine's crash may cost of the acknowledged batches; a process's crash costs none.
const SYNC_EVERY: Duration = Duration::from_secs(1);

pub trait JournalSink {
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

#[derive(Debug)]
pub struct JournalWriter<L> {
    log: L,
    synced: Option<Monotonic>,
}

impl<L: JournalSink> JournalWriter<L> {
    /// Goes on at the end of `log`.
    pub fn new(log: L) -> Self {
        Self { log, synced: None }
    }

    /// What the journal is called in errors.
    pub fn path(&self) -> String {
        self.log.path()
    }

    /// Begins a journal: outlives any crash from here on.
    pub fn begin(&mut self, header: &JournalHeader) -> Result<(), JournalError> {
        self.line(serde_json::to_vec(header))?;
        self.sync()
    }

    /// Adds a record that must outlive any crash.
    pub fn record(&mut self, record: &JournalRecord) -> Result<(), JournalError> {
        self.line(serde_json::to_vec(record))?;
        self.sync()
    }

    /// Adds what was acknowledged by `now`.
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
