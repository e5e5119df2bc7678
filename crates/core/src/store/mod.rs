//! The store: the S3 bucket in which mail waits longer than a queue should. An object has the mail of one campaign
//! and one second, as JSON Lines compressed with gzip.
//!
//! An object's name begins with its folder and its window, so the names of a folder sort by time. It also contains
//! the campaign and the number of mails, so a listing of the names shows how much waits.

pub mod refill;
pub mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::str::FromStr;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};
use thiserror::Error;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::config::is_campaign_name;
use crate::identity::{Envelope, EnvelopeError, EpochMillis};
use crate::runs::RowRanges;
use crate::stored::is_default;
use crate::text::{InvalidText, is_word_of};
use crate::timestamp::Window;

/// Describes the allowed locations, for error messages and the documentation of settings.
pub const ALLOWED_LOCATION: &str = "s3://BUCKET or s3://BUCKET/PREFIX (a bucket's name of 3 to 63 small letters, digits, dots and -; a prefix of at most 256 letters, digits and !_.*'()-/, without a / at either end)";

/// The S3 location of the store: `s3://bucket/prefix`.
///
/// ```
/// use tidegate_core::store::Location;
/// let location = Location::parse("s3://tides/store").unwrap();
/// assert_eq!((location.bucket.as_str(), location.prefix.as_str()), ("tides", "store"));
/// assert_eq!(Location::parse("https://tides/store"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// Name of the S3 bucket, 3 to 63 characters.
    pub bucket: String,
    /// The prefix of all keys, without a slash at its end; empty if there is none.
    pub prefix: String,
}

impl Location {
    /// Reads `s3://bucket/prefix`. None for a text that [`ALLOWED_LOCATION`] does not describe.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("s3://")?;
        let (bucket, prefix) = rest.split_once('/').map_or((rest, None), |(b, p)| (b, Some(p)));
        let in_bucket = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        let at_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let in_prefix = |c: char| c.is_ascii_alphanumeric() || "!_.*'()-/".contains(c);
        let named = (3..=63).contains(&bucket.len())
            && bucket.chars().all(in_bucket)
            && bucket.starts_with(at_end)
            && bucket.ends_with(at_end);
        let placed = prefix.is_none_or(|prefix| {
            (1..=256).contains(&prefix.len())
                && prefix.chars().all(in_prefix)
                && prefix.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
        });
        let prefix = prefix.unwrap_or_default().to_owned();
        (named && placed).then(|| Self { bucket: bucket.to_owned(), prefix })
    }

    /// The bucket's key of the object that the store knows as `key`: `prefix/key`.
    pub fn key(&self, key: &str) -> String {
        match self.prefix.as_str() {
            "" => key.to_owned(),
            prefix => format!("{prefix}/{key}"),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

const WRITTEN: &[BorrowedFormatItem<'static>] =
    format_description!("[year][month][day]T[hour][minute][second]Z");
const ENDING: &str = ".jsonl.gz";

/// The reason why an object's mail waits; each kind has a folder of the store.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Waits {
    /// Deferred: for the back-pressure level to be clear, or for its campaign's limit to begin again.
    Deferred,
    /// Timed: for its `not_before`.
    Timed,
    /// Rows of a list: for room on their campaign's queue.
    Rows,
}

impl Waits {
    /// The kinds, in the order in which their mail is brought back.
    pub const ALL: [Self; 3] = [Self::Timed, Self::Deferred, Self::Rows];

    /// The folder, without slashes; also the name in reports.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An object's name: its folder, then window, campaign, token and number of mails, separated by dots.
///
/// ```
/// use tidegate_core::store::ObjectName;
/// let name: ObjectName = "deferred/20261120T203607Z.big.1a2b3c4d.250.jsonl.gz".parse()?;
/// assert_eq!((&*name.campaign, name.mails), ("big", 250));
/// assert_eq!(name.window.to_string(), "2026-11-20T20:36:07Z");
/// # Ok::<(), tidegate_core::InvalidText>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// The reason why its mails wait.
    pub waits: Waits,
    /// The window in which deferred mails were received, before which timed ones may not be sent, or in which a run began.
    pub window: Window,
    /// The campaign of all mails in the object.
    pub campaign: String,
    /// Makes the name unique: 1 to 32 letters and digits.
    pub token: String,
    /// Number of mails or rows in the object.
    pub mails: u64,
}

impl ObjectName {
    /// The key of the object's [`Progress`].
    pub fn progress_key(&self) -> String {
        format!("progress/{self}")
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = i64::try_from(self.window.epoch_second()).map_err(|_| fmt::Error)?;
        let at = OffsetDateTime::from_unix_timestamp(second).map_err(|_| fmt::Error)?;
        let at = at.format(WRITTEN).map_err(|_| fmt::Error)?;
        let Self { waits, campaign, token, mails, .. } = self;
        write!(f, "{}/{at}.{campaign}.{token}.{mails}{ENDING}", waits.as_str())
    }
}

impl FromStr for ObjectName {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        object_name(text).ok_or_else(|| InvalidText::new(text, "is no name of an object of mail"))
    }
}

fn object_name(text: &str) -> Option<ObjectName> {
    let (folder, name) = text.split_once('/')?;
    let mut parts = name.strip_suffix(ENDING)?.split('.');
    let mut part = || parts.next();
    let (at, campaign, token, mails) = (part()?, part()?, part()?, part()?);
    let at = PrimitiveDateTime::parse(at, WRITTEN).ok()?.assume_utc();
    let window = Window::from_epoch_second(u64::try_from(at.unix_timestamp()).ok()?);
    let is_token = is_word_of(token, 32, "");
    let digits = mails.bytes().all(|byte| byte.is_ascii_digit());
    let mails = mails.parse().ok().filter(|_| digits)?;
    let waits = folder.parse().ok()?;
    (parts.next().is_none() && is_token && is_campaign_name(campaign)).then(|| ObjectName {
        waits,
        window,
        campaign: campaign.to_owned(),
        token: token.to_owned(),
        mails,
    })
}

/// Most bytes of bodies and attributes that one window puts into the store. The poller holds them in memory until
/// they are written.
pub const MOST_BYTES: usize = 8 * 1_048_576;

/// Most bytes of an unpacked object. It is eight times [`MOST_BYTES`], because JSON may write one byte
/// as six (`\u0001`).
const MOST_UNPACKED: u64 = 64 * 1_048_576;

/// A mail in the store: one line of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredMail {
    /// The original body of the message, unchanged.
    pub body: String,
    /// The envelope as message attributes, by name.
    pub attributes: BTreeMap<String, String>,
    /// The message's own `not_before`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<EpochMillis>,
}

/// Reason why an object cannot be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The bytes are not gzip, end too early, or unpack to more than 64 MiB.
    #[error("it cannot be unpacked")]
    Packed(#[from] io::Error),
    /// A line is not the JSON of a mail.
    #[error("line {line} is no mail of the store")]
    StoredMail {
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

impl StoredMail {
    /// Makes the line for a mail with this body, envelope and `not_before`.
    pub fn of(body: String, envelope: &Envelope, not_before: Option<EpochMillis>) -> Self {
        let named = |(name, value): (&str, String)| (name.to_owned(), value);
        let attributes = envelope.to_attributes().into_iter().map(named).collect();
        Self { body, attributes, not_before }
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
/// use tidegate_core::store::{StoredMail, pack, unpack};
/// let envelope = Envelope::fresh("news", Identity::from_body_id("news", "7"), EpochMillis::new(0));
/// let line = StoredMail::of("{}".to_owned(), &envelope, None);
/// let read = unpack(&pack(&[line.clone()])?).unwrap();
/// assert_eq!(read, [(line, envelope)]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn pack<T: Serialize>(lines: &[T]) -> io::Result<Vec<u8>> {
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
pub fn unpack(bytes: &[u8]) -> Result<Vec<(StoredMail, Envelope)>, Unreadable> {
    let read = |(line, text): (usize, &str)| {
        let read: StoredMail =
            serde_json::from_str(text).map_err(|source| Unreadable::StoredMail { line, source })?;
        match read.envelope() {
            Ok(Some(envelope)) => Ok((read, envelope)),
            Ok(None) => Err(Unreadable::Envelope { line, source: None }),
            Err(source) => Err(Unreadable::Envelope { line, source: Some(source) }),
        }
    };
    (1..).zip(unpacked(bytes)?.lines()).map(read).collect()
}

/// The text of an object.
fn unpacked(bytes: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    let unpacked = GzDecoder::new(bytes).take(MOST_UNPACKED + 1).read_to_string(&mut text)?;
    if unpacked as u64 > MOST_UNPACKED {
        let said = format!("more than {MOST_UNPACKED} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, said));
    }
    Ok(text)
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
    /// The rows by the version of the template that they get, from before they are enqueued.
    #[serde(default, skip_serializing_if = "is_default")]
    pub versions: BTreeMap<u32, RowRanges>,
    /// The rows that their template refused: they are not enqueued.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused: RowRanges,
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

    /// Notes that the template of a line refuses its row: nothing is left to do for it.
    pub fn refuse(&mut self, line: usize, row: u64) {
        self.note(line);
        self.refused.insert(row, row);
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
