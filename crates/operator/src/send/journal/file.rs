use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use super::{JournalContents, JournalError, JournalSink, read_journal};

/// A journal's file, locked for this process until it is dropped.
#[derive(Debug)]
pub struct JournalFile {
    file: File,
    path: String,
}

impl JournalFile {
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
        let contents = read_journal(&shown, BufReader::new(&file))?;
        file.set_len(contents.whole).map_err(failed("cut to its last whole record"))?;
        file.seek(SeekFrom::Start(contents.whole)).map_err(failed("read"))?;
        Ok((Self { file, path: shown }, contents))
    }
}

impl JournalSink for JournalFile {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        self.file.write_all(line)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn path(&self) -> String {
        self.path.clone()
    }
}
