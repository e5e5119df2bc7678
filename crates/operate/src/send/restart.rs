//! Sending the same input again: the name of the new run, and whether deduplication would delete
//! its mails.

use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::check::InputSummary;
use super::journal::{JournalError, read_journal};
use crate::format::counted;

/// The largest number of restarts of a run.
const RESTARTS: u32 = 999;

/// The options that continue a run if the same command would not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resume {
    pub run: String,
    /// The journal's path, if it is not the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
}

impl Resume {
    /// Continues `run`; `journal` is given if it is not at the default path.
    pub fn new(run: &str, journal: Option<&Path>) -> Self {
        Self { run: run.to_owned(), journal: journal.map(|path| path.display().to_string()) }
    }
}

impl fmt::Display for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--run {}", self.run)?;
        self.journal.as_ref().map_or(Ok(()), |journal| write!(f, " --journal {journal}"))
    }
}

/// The input cannot be sent again; nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// An earlier restart is not finished; another restart would send its mails twice.
    #[error(
        "the restart {} is unfinished; nothing was sent. To go on with it: {resume} instead of --restart; to leave it as well, and send everything once more: --again NAME", resume.run
    )]
    Unfinished { resume: Resume },
    /// Deduplication would delete the mails, because they have the same ids.
    #[error(
        "{option}: {} of the input's own, and deduplication deletes a mail whose id was sent within {}; nothing was sent. To send all once more they need other ids: --id-column NAME, or an input without ids; to send those only that were not sent: --run NAME", counted(*.given_ids, "id"), days(*.kept)
    )]
    SameIds {
        /// The option that requests the new run.
        option: &'static str,
        given_ids: u64,
        /// How long deduplication remembers an id.
        kept: Duration,
    },
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// How long marks are kept, in days.
pub(super) fn days(kept: Duration) -> String {
    counted(kept.as_secs() / 86_400, "day")
}

/// The name and the journal of a restart of the run `named`. `journal` gives the path for the nth
/// run of a name, and `usual` whether that is the default path.
///
/// # Errors
/// [`RestartError::Unfinished`], and a journal that cannot be read.
pub fn restart_run(
    named: &str,
    journal: impl Fn(u32, &str) -> PathBuf,
    usual: bool,
) -> Result<(String, PathBuf), RestartError> {
    let nth = |n: u32| {
        let run = format!("{named}-{n}");
        let path = journal(n, &run);
        (run, path)
    };
    let Some(newest) = (2..=RESTARTS).rev().find(|n| nth(*n).1.exists()) else {
        return Ok(nth(2));
    };
    let (run, path) = nth(newest);
    let shown = path.display().to_string();
    let file = File::open(&path).map_err(|source| JournalError::Io {
        path: shown.clone(),
        what: "opened",
        source,
    })?;
    let contents = read_journal(&shown, BufReader::new(file))?;
    match (contents.header, contents.ended) {
        // Nothing was sent under this name.
        (None, _) => Ok((run, path)),
        (Some(_), Some(_)) => Ok(nth(newest + 1)),
        (Some(_), None) => {
            let resume = Resume::new(&run, Some(path.as_path()).filter(|_| !usual));
            Err(RestartError::Unfinished { resume })
        }
    }
}

/// Checks that the mails can be sent again, as `option` requests. `kept` is how long deduplication
/// remembers an id; `None` if it is off.
///
/// # Errors
/// [`RestartError::SameIds`].
pub fn check_resend(
    option: &'static str,
    checked: &InputSummary,
    kept: Option<Duration>,
) -> Result<(), RestartError> {
    match kept {
        Some(kept) if checked.given_ids > 0 => {
            Err(RestartError::SameIds { option, given_ids: checked.given_ids, kept })
        }
        _ => Ok(()),
    }
}
