//! SHA-256 as text.

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a content in hex, by which the journal recognises it.
pub fn fingerprint(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
