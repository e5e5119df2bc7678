use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_core::runs::{Run, RunStage, UploadedRows};
use tidegate_core::store::rows::{StoredDrafts, version_of};

use super::ResultsError;
use crate::send::{
    InputRow, InputRows, JournalHeader, JournalInput, fingerprint_of, read_journal, recipient_of,
};
use crate::shell::{CommandError, CommandResult};
use tidegate_core::email::plain_address;

/// A run as its journal tells it.
#[derive(Clone, Debug)]
pub struct RunJournal {
    pub path: String,
    pub header: JournalHeader,
    /// Time at which the last row was enqueued; `None` if the run is not finished.
    pub ended: Option<EpochMillis>,
    /// The id of each row that was enqueued, by the row's number, and when it was. A million need about 100 MB.
    enqueued: HashMap<u64, (String, EpochMillis)>,
    /// The ledger's part, of a run that the stack enqueues.
    pub(super) uploaded: Option<UploadedRows>,
}

impl RunJournal {
    /// Reads a journal, called `path` in errors.
    ///
    /// # Errors
    /// [`ResultsError`] where it cannot be read.
    pub fn read(path: &str, journal: impl BufRead) -> Result<Self, ResultsError> {
        let mut enqueued = HashMap::new();
        let contents = read_journal(path, journal, |batch| {
            let rows = batch.rows.iter().flat_map(|(first, last)| *first..=*last);
            enqueued.extend(rows.zip(batch.ids.into_iter().map(|id| (id, batch.at))));
        })?;
        let path = path.to_owned();
        let Some(header) = contents.header else {
            return Err(ResultsError::Empty { journal: path });
        };
        Ok(Self { path, header, ended: contents.ended, enqueued, uploaded: None })
    }

    /// The journal that a run would have which the stack enqueues; `open` opens its list, which is at `path`.
    ///
    /// # Errors
    /// [`ResultsError`] where the list cannot be read or has changed.
    pub fn of_upload<R: Read>(
        run: Run,
        drafts: &StoredDrafts,
        queue: &str,
        path: PathBuf,
        open: impl Fn() -> io::Result<R>,
    ) -> Result<Self, ResultsError> {
        let to_column = drafts.drafts.first().and_then(|draft| draft.to_column.clone());
        let settings = [("input".to_owned(), run.input.list.clone())].into();
        let input = JournalInput { path, format: drafts.format, to_column };
        let header = JournalHeader::of(&run, queue, settings, input);
        // The rows that a cancelled run has not come to are left, and not excluded.
        let (path, ended) = (run.name, (run.stage == RunStage::Done).then_some(run.seen));
        let (enqueued, uploaded) = (HashMap::new(), run.uploaded);
        let mut journal = Self { path, header, ended, enqueued, uploaded };
        let file = journal.file();
        let unreadable = |source| ResultsError::Unreadable { file: file.clone(), source };
        journal.check(open().map_err(unreadable)?)?;
        let rows = InputRows::new(&file, drafts.format, open().map_err(unreadable)?);
        for row in rows.map_err(ResultsError::of_input)?.flatten() {
            let draft = journal.version(row.number).and_then(|version| drafts.draft(version));
            if let Some(Ok(id)) = draft.map(|draft| draft.uploaded_id(&row)) {
                journal.enqueued.insert(row.number, (id, run.seen));
            }
        }
        Ok(journal)
    }

    /// Whether a row of an uploaded list was refused by its template.
    pub(super) fn refused(&self, row: u64) -> bool {
        self.uploaded.as_ref().is_some_and(|uploaded| uploaded.refused.contains(row))
    }

    /// The version of the templates that a row of an uploaded list got.
    pub fn version(&self, row: u64) -> Option<u32> {
        version_of(&self.uploaded.as_ref()?.versions, row)
    }

    /// The name of the input in errors.
    pub fn file(&self) -> String {
        self.header.input.path.display().to_string()
    }

    /// Checks that the input is the one that was sent, by its SHA-256.
    ///
    /// # Errors
    /// [`ResultsError`] where it cannot be read or has changed.
    pub fn check(&self, input: impl Read) -> Result<(), ResultsError> {
        let found = fingerprint_of(input)
            .map_err(|source| ResultsError::Unreadable { file: self.file(), source })?;
        match self.header.settings.get("input") {
            Some(sent) if *sent != found => Err(ResultsError::InputChanged { file: self.file() }),
            _ => Ok(()),
        }
    }

    /// The mails that it enqueued.
    pub(super) fn identities(&self) -> impl ExactSizeIterator<Item = Identity> {
        let campaign = &self.header.campaign;
        self.enqueued.values().map(|(id, _)| Identity::from_body_id(campaign, id))
    }

    /// The id of a row; `None` if it was not enqueued.
    pub fn id(&self, row: u64) -> Option<&str> {
        self.enqueued.get(&row).map(|(id, _)| id.as_str())
    }

    /// When a row was enqueued at the latest; `None` if it was not.
    pub(super) fn enqueued_at(&self, row: u64) -> Option<EpochMillis> {
        self.enqueued.get(&row).map(|(_, at)| *at)
    }

    /// The rows of `input` whose recipient is `address`, with their ids, if they were enqueued.
    ///
    /// # Errors
    /// [`ResultsError`] where a row cannot be read.
    pub fn rows_to(
        &self,
        input: impl Read,
        address: &str,
    ) -> Result<Vec<(u64, Option<String>)>, ResultsError> {
        let rows = InputRows::new(&self.file(), self.header.input.format, input)
            .map_err(ResultsError::of_input)?;
        let (mut found, meant) = (Vec::new(), plain_address(address));
        for row in rows.flatten() {
            if plain_address(&self.recipient(&row)) == meant {
                found.push((row.number, self.id(row.number).map(str::to_owned)));
            }
        }
        Ok(found)
    }

    /// The recipient of a row, as the input has it.
    pub(super) fn recipient(&self, row: &InputRow) -> String {
        recipient_of(row, self.header.input.to_column.as_deref()).unwrap_or_default()
    }

    pub(super) fn identity(&self, row: u64) -> Option<Identity> {
        Some(Identity::from_body_id(&self.header.campaign, self.id(row)?))
    }
}

/// The journals in a folder, by name; none if there is no such folder.
pub(crate) fn journals_in(folder: &Path) -> CommandResult<Vec<PathBuf>> {
    let failed = CommandError::of_file(folder, "has no journals that can be listed");
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(&failed)?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<io::Result<_>>().map_err(failed)?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "journal"));
    paths.sort();
    Ok(paths)
}
