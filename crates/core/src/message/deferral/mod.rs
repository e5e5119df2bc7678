//! Deferred mail in S3: one object per campaign and window, JSON Lines compressed with gzip.
//!
//! An object's name begins with its window, so names sort by age. It also contains the campaign and the
//! number of mails, so a listing of the names shows how much is deferred.

mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::identity::{Envelope, EnvelopeError, EpochMillis};
pub use objects::{ALLOWED as ALLOWED_LOCATION, Location, ObjectName};

/// Most bytes of bodies and attributes that one window defers. The poller holds them in memory until
/// they are written.
pub const MOST_BYTES: usize = 8 * 1_048_576;

/// Most bytes of an unpacked object. It is eight times [`MOST_BYTES`], because JSON may write one byte
/// as six (`\u0001`).
const MOST_UNPACKED: u64 = 64 * 1_048_576;

/// A deferred mail: one line of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeferredMail {
    /// The original body of the message, unchanged.
    pub body: String,
    /// The envelope as message attributes, by name.
    pub attributes: BTreeMap<String, String>,
}

/// Reason why an object cannot be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The bytes are not gzip, end too early, or unpack to more than 64 MiB.
    #[error("it cannot be unpacked")]
    Packed(#[from] io::Error),
    /// A line is not the JSON of a deferred mail.
    #[error("line {line} is no deferred mail")]
    DeferredMail {
        /// Number of the line, from 1.
        line: usize,
        /// The fault that the JSON reader found.
        source: serde_json::Error,
    },
    /// The envelope of a line is missing or malformed.
    #[error("line {line} has no envelope")]
    Envelope {
        /// Number of the line, from 1.
        line: usize,
        /// The malformed attribute; none if the line has no identity.
        source: Option<EnvelopeError>,
    },
}

impl DeferredMail {
    /// Makes the line for a mail with this body and envelope.
    pub fn of(body: String, envelope: &Envelope) -> Self {
        let named = |(name, value): (&str, String)| (name.to_owned(), value);
        Self { body, attributes: envelope.to_attributes().into_iter().map(named).collect() }
    }

    /// Reads the line's envelope; none if it has no identity.
    ///
    /// # Errors
    /// [`EnvelopeError`] if an attribute is missing or malformed.
    pub fn envelope(&self) -> Result<Option<Envelope>, EnvelopeError> {
        Envelope::from_attributes(|name| self.attributes.get(name).map(String::as_str))
    }
}

/// Packs lines into the bytes of an object.
///
/// # Errors
/// An I/O error; writing to memory causes none.
///
/// ```
/// use tidegate_core::identity::{Envelope, EpochMillis, Identity};
/// use tidegate_core::deferral::{DeferredMail, pack, unpack};
/// let envelope = Envelope::fresh("news", Identity::from_body_id("news", "7"), EpochMillis::new(0));
/// let line = DeferredMail::of("{}".to_owned(), &envelope);
/// let read = unpack(&pack(&[line.clone()])?).unwrap();
/// assert_eq!(read, [(line, envelope)]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn pack(lines: &[DeferredMail]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    for line in lines {
        serde_json::to_writer(&mut packed, line)?;
        packed.write_all(b"\n")?;
    }
    packed.finish()
}

/// Unpacks the mails of an object, in the order of its lines.
///
/// # Errors
/// [`Unreadable`] if any line is unreadable; no mail is returned then.
pub fn unpack(bytes: &[u8]) -> Result<Vec<(DeferredMail, Envelope)>, Unreadable> {
    let mut text = String::new();
    let unpacked = GzDecoder::new(bytes).take(MOST_UNPACKED + 1).read_to_string(&mut text)?;
    if unpacked as u64 > MOST_UNPACKED {
        let said = format!("more than {MOST_UNPACKED} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, said).into());
    }
    let read = |(line, text): (usize, &str)| {
        let read: DeferredMail = serde_json::from_str(text)
            .map_err(|source| Unreadable::DeferredMail { line, source })?;
        match read.envelope() {
            Ok(Some(envelope)) => Ok((read, envelope)),
            Ok(None) => Err(Unreadable::Envelope { line, source: None }),
            Err(source) => Err(Unreadable::Envelope { line, source: Some(source) }),
        }
    };
    (1..).zip(text.lines()).map(read).collect()
}

/// Progress of one object's replay, and the operator or program that replays it.
///
/// It is written before the first mail is sent back and after every batch, each time on the condition
/// that the stored progress is unchanged. Two replays of one object therefore stop each other early.
/// After a crash the next replay continues at this point.
///
/// Example: lines 0 to 2 and 5 are back in their queue: `through` is 3, `beyond` is {5}.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Number of leading lines that are back in their campaign's queue.
    #[serde(default)]
    pub through: usize,
    /// Lines after those, counted from 0, that are back in their queue too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub beyond: BTreeSet<usize>,
    /// Identifies the run that replays the object.
    #[serde(default)]
    pub by: String,
    /// Time until which no other run may replay it; the run that replays it extends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<EpochMillis>,
}

impl Progress {
    /// Notes that a line (counted from 0) is back in its queue.
    pub fn note(&mut self, line: usize) {
        if line >= self.through {
            self.beyond.insert(line);
        }
        while self.beyond.remove(&self.through) {
            self.through += 1;
        }
    }

    /// True if a line (counted from 0) is back in its queue.
    pub fn has(&self, line: usize) -> bool {
        line < self.through || self.beyond.contains(&line)
    }

    /// Number of lines that are back in their queue.
    pub fn count(&self) -> usize {
        self.through + self.beyond.len()
    }

    /// True if another run than `me` is replaying the object at `now`.
    pub fn is_taken(&self, me: &str, now: EpochMillis) -> bool {
        self.by != me && self.until.is_some_and(|until| until > now)
    }
}

#[cfg(test)]
mod tests;
