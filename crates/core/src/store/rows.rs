//! Runs whose rows wait in the store: chunks of rows, and one object with all that the rows share.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Progress, Unreadable, pack, unpacked};
use crate::channel::Channel;
use crate::draft::{CampaignDraft, DraftContent, InputFormat, InputRow};
use crate::identity::EpochMillis;
use crate::runs::RowRanges;

/// Most rows of a chunk.
pub const ROWS: usize = 2_000;
/// Most bytes of a chunk's lines, but for its last one.
pub const CHUNK_BYTES: usize = 2 * 1_048_576;
/// The folder of what the rows of a run share.
pub const RUNS: &str = "runs";

/// A row of a list: one line of a chunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredRow {
    /// The row's number in its list.
    pub row: u64,
    /// The line on which it begins.
    pub line: u64,
    /// The values by column.
    pub columns: BTreeMap<String, Value>,
}

impl From<InputRow> for StoredRow {
    fn from(InputRow { number, line, columns, .. }: InputRow) -> Self {
        Self { row: number, line, columns }
    }
}

impl StoredRow {
    /// The row of the list that is called `file`.
    pub fn of_list(self, file: &Arc<str>) -> InputRow {
        let Self { row, line, columns } = self;
        InputRow { file: Arc::clone(file), number: row, line, columns }
    }
}

/// Reads the rows of a chunk.
///
/// # Errors
/// [`Unreadable`] if any line is unreadable.
pub fn unpack_rows(bytes: &[u8]) -> Result<Vec<StoredRow>, Unreadable> {
    let read = |(line, text)| {
        serde_json::from_str(text).map_err(|source| Unreadable::StoredMail { line, source })
    };
    (1..).zip(unpacked(bytes)?.lines()).map(read).collect()
}

/// All that the rows of a run share.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredDrafts {
    /// The list's file.
    pub list: String,
    /// The list's format.
    pub format: InputFormat,
    /// The campaign's last cancel when the run began: a later one ends the run.
    pub cancelled_at: Option<EpochMillis>,
    /// The versions of the draft, the first one first. The last one is that of rows to come; the others stay, because
    /// rows that may have been enqueued keep theirs.
    pub drafts: Vec<CampaignDraft>,
}

impl StoredDrafts {
    /// The key of the run with this token.
    pub fn key(token: &str) -> String {
        format!("{RUNS}/{token}.json.gz")
    }

    /// The key of a run that is over, of which `tidegate results` asks.
    pub fn key_once_over(token: &str) -> String {
        format!("progress/{}", Self::key(token))
    }

    /// The token in a key.
    pub fn token(key: &str) -> Option<String> {
        let token = key.strip_prefix(RUNS)?.strip_prefix('/')?.strip_suffix(".json.gz")?;
        Some(token.to_owned())
    }

    /// Packs it into the bytes of its object.
    ///
    /// # Errors
    /// An I/O error; writing to memory causes none.
    pub fn pack(&self) -> std::io::Result<Vec<u8>> {
        pack(&[self])
    }

    /// Reads and compiles the drafts.
    ///
    /// # Errors
    /// [`Unreadable`], also for a template that cannot be compiled.
    pub fn unpack(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut stored: Self = serde_json::from_str(&unpacked(bytes)?)
            .map_err(|source| Unreadable::StoredMail { line: 1, source })?;
        for draft in &mut stored.drafts {
            draft.rules.has_store = true;
            if matches!(draft.content, DraftContent::Text(_)) {
                draft.rules.channel = Channel::Sms;
            }
        }
        Ok(stored)
    }

    /// The number of the draft of rows to come, from 1.
    pub fn current(&self) -> u32 {
        u32::try_from(self.drafts.len()).unwrap_or(u32::MAX)
    }

    /// The draft with this number.
    pub fn draft(&self, version: u32) -> Option<&CampaignDraft> {
        self.drafts.get(usize::try_from(version).ok()?.checked_sub(1)?)
    }
}

/// The token of a run, from that of a chunk: what is before its six digits.
pub fn run_of(token: &str) -> &str {
    token.len().checked_sub(6).and_then(|end| token.get(..end)).unwrap_or(token)
}

impl Progress {
    /// Gives each row of a chunk, by its number, a version, and says whether one has another than before. Rows that are
    /// enqueued keep theirs. So do the first `may_have_gone` others: a run that was killed may have enqueued them. The rest
    /// gets `current`.
    pub fn bind(&mut self, rows: &[u64], may_have_gone: usize, current: u32) -> bool {
        let before = std::mem::take(&mut self.versions);
        let mut open = 0;
        for (line, row) in rows.iter().enumerate() {
            let is_open = !self.has(line);
            open += usize::from(is_open);
            let bound = version_of(&before, *row).filter(|_| !is_open || open <= may_have_gone);
            self.versions.entry(bound.unwrap_or(current)).or_default().insert(*row, *row);
        }
        self.versions != before
    }
}

/// The version of a row.
pub fn version_of(versions: &BTreeMap<u32, RowRanges>, row: u64) -> Option<u32> {
    versions.iter().find(|(_, rows)| rows.contains(row)).map(|(version, _)| *version)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_row_that_was_or_may_have_been_enqueued_keeps_its_version_and_the_others_get_the_current_one(
            steps in proptest::collection::vec((any::<bool>(), 0_usize..30, 0_usize..15), 1..8),
            left_out in proptest::collection::btree_set(0_u64..60, 0..20),
        ) {
            let rows: Vec<u64> = (1..60).filter(|row| !left_out.contains(row)).collect();
            let mut progress = Progress::default();
            // Those of the killed run are the first that were open.
            let (mut killed, mut current) = (0, 1);
            for (replaced, enqueued, in_flight) in steps {
                current += u32::from(replaced);
                let before = progress.clone();
                let changed = progress.bind(&rows, killed, current);
                prop_assert_eq!(changed, before.versions != progress.versions);
                let mut open = 0;
                for (line, row) in rows.iter().enumerate() {
                    let was = version_of(&before.versions, *row);
                    open += usize::from(!before.has(line));
                    let kept = before.has(line) || open <= killed && was.is_some();
                    let now = version_of(&progress.versions, *row);
                    prop_assert_eq!(now, if kept { was } else { Some(current) });
                }
                let open: Vec<usize> =
                    (0..rows.len()).filter(|line| !progress.has(*line)).take(enqueued).collect();
                for line in open {
                    progress.note(line);
                }
                killed = in_flight;
            }
        }

        #[test]
        fn a_row_reads_back_as_it_was(text in ".*", number in any::<i64>(), row in any::<u64>()) {
            let columns = [("to".to_owned(), text.into()), ("n".to_owned(), number.into())].into();
            let row = StoredRow { row, line: 7, columns };
            prop_assert_eq!(unpack_rows(&pack(std::slice::from_ref(&row)).unwrap()).unwrap(), [row]);
        }
    }

    #[test]
    fn a_chunks_token_has_that_of_its_run() {
        assert_eq!(run_of("1a2b3c4d000017"), "1a2b3c4d");
    }

    #[test]
    fn a_runs_key_has_its_token() {
        let key = StoredDrafts::key("1a2b3c4d");
        assert_eq!(StoredDrafts::token(&key).as_deref(), Some("1a2b3c4d"));
    }
}
