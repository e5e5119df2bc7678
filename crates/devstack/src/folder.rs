//! The folder of a run: logs, report.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use time::OffsetDateTime;
use time::macros::format_description;

use super::error::LocalError;

/// The folder asked for, or a new one in `runs`, named for the time.
pub(super) fn create(
    asked: Option<&Path>,
    runs: &Path,
    now_ns: u64,
) -> Result<PathBuf, LocalError> {
    let failed = |path: &Path, source| LocalError::Write { path: path.to_owned(), source };
    if let Some(asked) = asked {
        fs::create_dir_all(asked).map_err(|source| failed(asked, source))?;
        return Ok(asked.to_owned());
    }
    fs::create_dir_all(runs).map_err(|source| failed(runs, source))?;
    let name = format!("run-{}", stamp(now_ns));
    let others = (2..).map(|number| format!("{name}-{number}"));
    for name in std::iter::once(name.clone()).chain(others) {
        let path = runs.join(name);
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(failed(&path, source)),
        }
    }
    Ok(runs.to_owned())
}

/// Removes it where nothing was written into it.
pub(super) fn remove_empty(folder: &Path) {
    let _ = fs::remove_dir(folder);
}

pub(super) fn write(folder: &Path, name: &str, content: &str) -> Result<PathBuf, LocalError> {
    let path = folder.join(name);
    match fs::write(&path, content) {
        Ok(()) => Ok(path),
        Err(source) => Err(LocalError::Write { path, source }),
    }
}

/// A time that sorts as text, in UTC.
fn stamp(now_ns: u64) -> String {
    let format = format_description!("[year][month][day]-[hour][minute][second]");
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(now_ns)).ok();
    at.and_then(|at| at.format(format).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_of_one_second_have_two_folders() {
        let root = std::env::temp_dir().join(format!("tidegate-folder-{}", std::process::id()));
        let folders = [(); 2].map(|()| create(None, &root, 1_795_206_967_000_000_000).unwrap());
        let names = folders.map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned());
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(names, ["run-20261120-203607", "run-20261120-203607-2"]);
    }
}
