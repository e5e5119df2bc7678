use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest as _, Sha256};

use crate::state_file::write_whole;

/// Sessions that were logged out before they expire. A file remembers them over a restart, after which
/// the console would accept their cookies again.
#[derive(Debug)]
pub(super) struct Logouts {
    file: Option<PathBuf>,
    /// Hashes of cookies, and when their sessions expire (seconds since 1970). Whoever reads the file
    /// learns no cookie.
    hashes: Mutex<BTreeMap<String, u64>>,
}

impl Logouts {
    /// The logouts that `file` remembers. A file that cannot be read stays as it is, and is not used:
    /// nobody knows which sessions it ends.
    pub(super) fn open(file: Option<PathBuf>) -> Self {
        let known = file.as_deref().map_or_else(|| Ok(BTreeMap::new()), read);
        let (file, hashes) = match known {
            Ok(hashes) => (file, hashes),
            Err(error) => {
                let file = file.as_ref().map(|file| file.display().to_string());
                tracing::warn!(
                    %error,
                    file,
                    "logouts cannot be read: no earlier session is good, and none outlives this process"
                );
                (None, BTreeMap::new())
            }
        };
        Self { file, hashes: Mutex::new(hashes) }
    }

    /// Whether a restart will know the logouts of now.
    pub(super) const fn are_remembered(&self) -> bool {
        self.file.is_some()
    }

    pub(super) fn contains(&self, cookie: &str) -> bool {
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&hash(cookie))
    }

    /// Adds a session that expires at `until`, and forgets those that have expired.
    pub(super) fn add(&self, cookie: &str, until: u64, now: u64) {
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        hashes.retain(|_, until| *until > now);
        hashes.insert(hash(cookie), until);
        let Some(file) = &self.file else { return };
        let text = serde_json::to_vec(&*hashes).map_err(io::Error::other);
        if let Err(error) = text.and_then(|text| write_whole(file, &text)) {
            tracing::warn!(%error, "a logout is not remembered over a restart");
        }
    }
}

fn read(file: &Path) -> io::Result<BTreeMap<String, u64>> {
    match fs::read(file) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}

pub(super) fn hash(cookie: &str) -> String {
    BASE64.encode(Sha256::digest(cookie))
}
