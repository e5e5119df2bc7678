//! Saves the change log and the state that was last seen in a file. After a restart, a page that
//! reconnects is told which changes it missed, and what changed while the console was down.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::event::StateChange;
use crate::figures::SavedCurves;
use crate::stream::ChangeLog;
use crate::watch::LastSeen;

/// The number of newest changes that are saved.
const MAX_SAVED_CHANGES: usize = 500;
/// Version of the file's format; a file of another version is ignored.
const FORM: u32 = 1;

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct SavedState {
    form: u32,
    stack: String,
    history: String,
    changes: Vec<StateChange>,
    seen: LastSeen,
}

/// The content of the file of curves beside it.
#[derive(Debug, Serialize, Deserialize)]
struct SavedCurvesOf {
    form: u32,
    stack: String,
    curves: SavedCurves,
}

/// The reasons why the file cannot be used; the console then runs without it.
#[derive(Debug, Error)]
pub enum StateFileError {
    #[error("{}: another console of this stack uses it", .0.display())]
    Taken(PathBuf),
    #[error("{}: {doing}", path.display())]
    File { path: PathBuf, doing: &'static str, source: io::Error },
}

/// A file that is this console's alone while it runs.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    stack: String,
    /// Held as long as the console runs.
    _lock: File,
}

impl StateFile {
    /// Opens the file of `stack`, and makes its folder. Nobody but its owner can read it.
    ///
    /// # Errors
    /// [`StateFileError`]; the console can do without.
    pub fn open(path: &Path, stack: &str) -> Result<Self, StateFileError> {
        let failed =
            |doing| move |source| StateFileError::File { path: path.to_owned(), doing, source };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed("its folder cannot be made"))?;
        }
        let lock = path.with_extension("lock");
        let file = options().open(&lock).map_err(failed("its lock cannot be made"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StateFileError::Taken(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(failed("it cannot be locked")(source)),
        }
        Ok(Self { path: path.to_owned(), stack: stack.to_owned(), _lock: file })
    }

    /// The saved state. None if the file is new, is of another stack, or cannot be read.
    pub fn recall(&self) -> Option<(ChangeLog, LastSeen)> {
        let text = fs::read_to_string(&self.path).ok()?;
        let remembered: SavedState = serde_json::from_str(&text).ok()?;
        let is_ours = remembered.form == FORM && remembered.stack == self.stack;
        let history = || ChangeLog::new(remembered.history, remembered.changes);
        is_ours.then(|| (history(), remembered.seen))
    }

    /// Remembers; the file is whole at every moment.
    ///
    /// # Errors
    /// [`StateFileError`].
    pub fn remember(&self, history: &ChangeLog, seen: &LastSeen) -> Result<(), StateFileError> {
        let newest = history.all().rev().take(MAX_SAVED_CHANGES).map(|kept| kept.change.clone());
        let mut changes: Vec<StateChange> = newest.collect();
        changes.reverse();
        let remembered = SavedState {
            form: FORM,
            stack: self.stack.clone(),
            history: history.name().to_owned(),
            changes,
            seen: seen.clone(),
        };
        write_json(&self.path, &remembered)
    }

    fn curves(&self) -> PathBuf {
        self.path.with_extension("curves.json")
    }

    /// The saved curves. None if there are none, or those of another stack.
    pub fn recall_curves(&self) -> Option<SavedCurves> {
        let text = fs::read_to_string(self.curves()).ok()?;
        let saved: SavedCurvesOf = serde_json::from_str(&text).ok()?;
        (saved.form == FORM && saved.stack == self.stack).then_some(saved.curves)
    }

    /// Remembers the curves; their file is whole at every moment.
    ///
    /// # Errors
    /// [`StateFileError`].
    pub fn remember_curves(&self, curves: &SavedCurves) -> Result<(), StateFileError> {
        let (stack, curves) = (self.stack.clone(), curves.clone());
        write_json(&self.curves(), &SavedCurvesOf { form: FORM, stack, curves })
    }

    /// The file of the logins that were ended, beside this one.
    pub(crate) fn logouts(&self) -> PathBuf {
        self.path.with_extension("logouts.json")
    }
}

fn write_json(path: &Path, content: &impl Serialize) -> Result<(), StateFileError> {
    let failed = |source| StateFileError::File {
        path: path.to_owned(),
        doing: "it cannot be written",
        source,
    };
    let text = serde_json::to_vec(content).map_err(io::Error::other).map_err(failed)?;
    write_whole(path, &text).map_err(failed)
}

/// Replaces a file's content, so that the file is whole at every moment. Nobody but its owner can read it.
pub(crate) fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    options().truncate(true).open(&new)?.write_all(text)?;
    fs::rename(&new, path)
}

fn options() -> OpenOptions {
    let mut options = File::options();
    options.write(true).create(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ChangeKind;
    use crate::stream::tests::change;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("tidegate-console-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_was_seen_is_known_after_a_restart_and_a_second_console_does_without() {
        let folder = folder("memory");
        let path = folder.join("tidegate.json");
        let memory = StateFile::open(&path, "tidegate").unwrap();
        assert!(memory.recall().is_none());
        let mut history = ChangeLog::new("h".to_owned(), Vec::new());
        for _ in 0..MAX_SAVED_CHANGES + 3 {
            history.append(change(ChangeKind::Hold, "x"));
        }
        memory.remember(&history, &LastSeen::default()).unwrap();
        assert!(matches!(StateFile::open(&path, "tidegate"), Err(StateFileError::Taken(_))));
        drop(memory);
        let again = StateFile::open(&path, "tidegate").unwrap();
        let (recalled, seen) = again.recall().unwrap();
        assert_eq!((recalled.name(), recalled.last()), ("h", history.last()));
        assert_eq!((recalled.all().len(), seen), (MAX_SAVED_CHANGES, LastSeen::default()));
        drop(again);
        let other = StateFile::open(&path, "other").unwrap();
        assert!(other.recall().is_none(), "another stack's changes are none of its own");
        fs::write(&path, "{\"form\":1,").unwrap();
        assert!(other.recall().is_none(), "half a file is none");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let error = StateFile::open(Path::new("/proc/none/tidegate.json"), "tidegate").unwrap_err();
        assert!(error.to_string().contains("/proc/none/tidegate.json"), "{error}");
    }
}
