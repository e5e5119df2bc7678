//! SHA-256 as text.

use std::io::{self, Read};

use sha2::{Digest as _, Sha256};
use tidegate_core::identity::hex;

/// The SHA-256 of a content in hex, by which the journal recognises it.
pub fn fingerprint(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// As [`fingerprint`], of a content that is read piece by piece.
pub fn fingerprint_of(mut input: impl Read) -> io::Result<String> {
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 65_536]);
    loop {
        match input.read(&mut piece)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&piece[..read]),
        }
    }
}
