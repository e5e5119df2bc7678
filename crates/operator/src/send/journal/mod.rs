//! The journal of a run: a record of what SQS acknowledged, from which an interrupted run is
//! resumed.
//!
//! Each line is a JSON object: the header, then a record for each acknowledged batch, and at last
//! the end. The file is only appended to, so a crash leaves a prefix of it; a last line without a
//! line feed counts as not written. It contains the mails' ids, so that they can be accounted for
//! without the input, and no addresses except those used as ids.

mod file;
mod records;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tidegate_core::identity::EpochMillis;
use tidegate_core::runs::Baseline;

use super::rows::InputFormat;
pub use file::JournalFile;
pub use records::{JournalContents, JournalReader, read_journal};
pub use writer::{JournalSink, JournalWriter};

/// The version of the journal's format; others are refused.
const VERSION: u32 = 1;

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
    pub fn new(
        campaign: &str,
        queue: &str,
        run: &str,
        by: &str,
        at: EpochMillis,
        input: JournalInput,
    ) -> Self {
        Self {
            tidegate_journal: VERSION,
            campaign: campaign.to_owned(),
            queue: queue.to_owned(),
            run: run.to_owned(),
            settings: BTreeMap::new(),
            rows: 0,
            by: by.to_owned(),
            at,
            before: Baseline::default(),
            input,
        }
    }

    /// The settings that differ between this header and `now`.
    pub fn differences(&self, now: &Self) -> Vec<SettingDifference> {
        let mut differences = Vec::new();
        let mut compare = |name: &str, was: Option<&str>, is: Option<&str>| {
            if was != is {
                let text = |value: Option<&str>| value.unwrap_or("not given").to_owned();
                differences.push(SettingDifference {
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

/// A setting that has changed since the run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingDifference {
    pub name: String,
    /// The value when the run began; for contents the SHA-256.
    pub was: String,
    pub is: String,
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
        "{path}: a journal of format {found}; allowed is {VERSION}: use the tidegate that wrote it"
    )]
    Version { path: String, found: u32 },
}
