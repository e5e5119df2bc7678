//! The part of the crate `crc-fast` that the S3 client calls, computed by the crate [`crc`].
//!
//! `crc-fast` 1.10 brings tables for some fifty algorithms, 0.66 MB that no compression makes smaller:
//! a seventh of the zipped poller. The S3 client knows three of them, and sends objects of a few
//! megabytes at most. `[patch.crates-io]` in the workspace's manifest puts this crate in its place. See
//! decision 40.
//!
//! ```
//! let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
//! digest.update(b"1234");
//! digest.update(b"56789");
//! assert_eq!(digest.finalize(), 0xCBF4_3926);
//! ```

use std::fmt;

use crc::{CRC_32_ISCSI, CRC_32_ISO_HDLC, CRC_64_NVME, Crc, NoTable};

static CRC_32: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
static CRC_32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
// Only a caller who asks for it gets this one, so it needs no table.
static CRC_64: Crc<u64, NoTable> = Crc::<u64, NoTable>::new(&CRC_64_NVME);

/// A checksum that S3 accepts, by its name in the catalogue of CRC algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrcAlgorithm {
    /// S3's `CRC32`, which its client adds to what it sends.
    Crc32IsoHdlc,
    /// S3's `CRC32C`.
    Crc32Iscsi,
    /// S3's `CRC64NVME`.
    Crc64Nvme,
}

/// A checksum of bytes that come in parts.
pub struct Digest(State);

enum State {
    Bits32(crc::Digest<'static, u32>),
    Bits64(crc::Digest<'static, u64, NoTable>),
}

impl Digest {
    /// The checksum of no bytes.
    pub fn new(algorithm: CrcAlgorithm) -> Self {
        Self(match algorithm {
            CrcAlgorithm::Crc32IsoHdlc => State::Bits32(CRC_32.digest()),
            CrcAlgorithm::Crc32Iscsi => State::Bits32(CRC_32C.digest()),
            CrcAlgorithm::Crc64Nvme => State::Bits64(CRC_64.digest()),
        })
    }

    /// Adds the bytes that follow.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Bits32(digest) => digest.update(bytes),
            State::Bits64(digest) => digest.update(bytes),
        }
    }

    /// The checksum; one of 32 bits is in the lower half.
    pub fn finalize(self) -> u64 {
        match self.0 {
            State::Bits32(digest) => digest.finalize().into(),
            State::Bits64(digest) => digest.finalize(),
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The catalogue's check values: the checksums of `123456789`.
    /// Source: <https://reveng.sourceforge.io/crc-catalogue/all.htm>
    #[test]
    fn each_algorithm_gives_the_check_value_of_the_catalogue_however_the_bytes_are_split() {
        for (algorithm, check) in [
            (CrcAlgorithm::Crc32IsoHdlc, 0xCBF4_3926),
            (CrcAlgorithm::Crc32Iscsi, 0xE306_9283),
            (CrcAlgorithm::Crc64Nvme, 0xAE8B_1486_0A79_9888),
        ] {
            for split in 0..=9 {
                let (first, rest) = b"123456789".split_at(split);
                let mut digest = Digest::new(algorithm);
                digest.update(first);
                digest.update(rest);
                assert_eq!(digest.finalize(), check, "{algorithm:?} split at {split}");
            }
        }
    }
}
