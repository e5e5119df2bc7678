use crate::config::is_campaign_name;
use crate::text::{InvalidText, is_word_of};
use crate::timestamp::Window;
use std::fmt;
use std::str::FromStr;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

/// Describes the allowed locations, for error messages and the documentation of settings.
pub const ALLOWED: &str = "s3://BUCKET or s3://BUCKET/PREFIX (a bucket's name of 3 to 63 small letters, digits, dots and -; a prefix of at most 256 letters, digits and !_.*'()-/, without a / at either end)";

/// The S3 location of deferred mail: `s3://bucket/prefix`.
///
/// ```
/// use tidegate_core::deferral::Location;
/// let location = Location::parse("s3://tides/deferral").unwrap();
/// assert_eq!((location.bucket.as_str(), location.prefix.as_str()), ("tides", "deferral"));
/// assert_eq!(Location::parse("https://tides/deferral"), None);
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
    /// Reads `s3://bucket/prefix`. None for a text that [`ALLOWED`] does not describe.
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

    /// The key of the object `name` in `folder`: `prefix/folder/name`.
    pub fn key(&self, folder: &str, name: &str) -> String {
        match self.prefix.as_str() {
            "" => format!("{folder}/{name}"),
            prefix => format!("{prefix}/{folder}/{name}"),
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

/// An object's name: window, campaign, number of mails and token, separated by dots.
///
/// ```
/// use tidegate_core::deferral::ObjectName;
/// let name: ObjectName = "20261120T203607Z.big.250.1a2b3c4d.jsonl.gz".parse()?;
/// assert_eq!((&*name.campaign, name.mails), ("big", 250));
/// assert_eq!(name.window.to_string(), "2026-11-20T20:36:07Z");
/// # Ok::<(), tidegate_core::InvalidText>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// The window in which the mails were received.
    pub window: Window,
    /// The campaign of all mails in the object.
    pub campaign: String,
    /// Number of mails in the object.
    pub mails: u64,
    /// Makes the name unique: 1 to 32 letters and digits.
    pub token: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = i64::try_from(self.window.epoch_second()).map_err(|_| fmt::Error)?;
        let at = OffsetDateTime::from_unix_timestamp(second).map_err(|_| fmt::Error)?;
        let at = at.format(WRITTEN).map_err(|_| fmt::Error)?;
        write!(f, "{at}.{}.{}.{}{ENDING}", self.campaign, self.mails, self.token)
    }
}

impl FromStr for ObjectName {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        read(text).ok_or_else(|| InvalidText::new(text, "is no name of an object of deferred mail"))
    }
}

fn read(text: &str) -> Option<ObjectName> {
    let mut parts = text.strip_suffix(ENDING)?.split('.');
    let mut part = || parts.next();
    let (at, campaign, mails, token) = (part()?, part()?, part()?, part()?);
    let at = PrimitiveDateTime::parse(at, WRITTEN).ok()?.assume_utc();
    let window = Window::from_epoch_second(u64::try_from(at.unix_timestamp()).ok()?);
    let is_token = is_word_of(token, 32, "");
    let digits = mails.bytes().all(|byte| byte.is_ascii_digit());
    let mails = mails.parse().ok().filter(|_| digits)?;
    (parts.next().is_none() && is_token && is_campaign_name(campaign)).then(|| ObjectName {
        window,
        campaign: campaign.to_owned(),
        mails,
        token: token.to_owned(),
    })
}
