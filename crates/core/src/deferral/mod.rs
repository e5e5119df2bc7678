//! Deferred mail as it stands outside the queues: an object a campaign and window, JSON Lines in gzip.
//!
//! An object's name begins with its window, so that names sort by age, and says whose mails it holds
//! and how many, so that listing them is enough to tell what waits there.

mod location;
mod name;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::identity::{Envelope, EnvelopeError, EpochMillis};
pub use location::{ALLOWED as ALLOWED_LOCATION, Location};
pub use name::{InvalidName, ObjectName};

/// Bytes of bodies and attributes that one window defers at most: what a poller holds in memory until
/// they are written.
pub const MOST_BYTES: usize = 8 * 1_048_576;

/// Bytes that an object may come to when it is unpacked, at most: [`MOST_BYTES`] with every byte
/// escaped.
const MOST_UNPACKED: u64 = 64 * 1_048_576;

/// A deferred mail: a line of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeferredMail {
    /// The body, untouched.
    pub body: String,
    /// The envelope, as message attributes.
    pub attributes: BTreeMap<String, String>,
}

/// An object that cannot be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// It is no gzip, or cut off, or too large.
    #[error("it cannot be unpacked")]
    Packed(#[from] io::Error),
    /// A line is no deferred mail.
    #[error("line {line} is no deferred mail")]
    DeferredMail {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A line's envelope is none.
    #[error("line {line} has no envelope")]
    Envelope {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it; none where it has no identity.
        source: Option<EnvelopeError>,
    },
}

impl DeferredMail {
    /// The line of a mail.
    pub fn of(body: String, envelope: &Envelope) -> Self {
        let named = |(name, value): (&str, String)| (name.to_owned(), value);
        Self { body, attributes: envelope.to_attributes().into_iter().map(named).collect() }
    }

    /// Its envelope; none where it has no identity.
    ///
    /// # Errors
    /// [`EnvelopeError`] on an attribute that is missing or malformed.
    pub fn envelope(&self) -> Result<Option<Envelope>, EnvelopeError> {
        Envelope::from_attributes(|name| self.attributes.get(name).map(String::as_str))
    }
}

/// An object's bytes.
///
/// # Errors
/// None that can be: memory takes what is written.
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

/// The mails of an object, in the order of its lines.
///
/// # Errors
/// [`Unreadable`]: all of it is given, or nothing.
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

/// How far an object is brought back, and who is at it.
///
/// It is written before the first mail is sent back and after every batch, each time where the one
/// before still stands: so two who bring back the same object do not get far, and whoever comes after
/// a crash goes on where it stood.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Leading lines that stand in their campaign's queue again.
    #[serde(default)]
    pub through: usize,
    /// Lines after those, counted from 0, that do so too.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub beyond: BTreeSet<usize>,
    /// Who is at it.
    #[serde(default)]
    pub by: String,
    /// Until when nobody else may be, unless it is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<EpochMillis>,
}

impl Progress {
    /// Notes that a line stands in its queue.
    pub fn note(&mut self, line: usize) {
        if line >= self.through {
            self.beyond.insert(line);
        }
        while self.beyond.remove(&self.through) {
            self.through += 1;
        }
    }

    /// Whether a line stands in its queue.
    pub fn has(&self, line: usize) -> bool {
        line < self.through || self.beyond.contains(&line)
    }

    /// Lines that do.
    pub fn count(&self) -> usize {
        self.through + self.beyond.len()
    }

    /// Whether another than `me` is at it at `now`.
    pub fn is_taken(&self, me: &str, now: EpochMillis) -> bool {
        self.by != me && self.until.is_some_and(|until| until > now)
    }
}

#[cfg(test)]
mod tests;
