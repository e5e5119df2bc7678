use std::fmt;

/// Describes the allowed locations, for error messages and the documentation of settings.
pub const ALLOWED: &str = "s3://BUCKET or s3://BUCKET/PREFIX (a bucket's name of 3 to 63 small letters, digits, dots and -; a prefix of at most 256 letters, digits and !_.*'()-/, without a / at either end)";

/// The S3 location of deferred mail: `s3://bucket/prefix`.
///
/// ```
/// use tidegate_core::deferral::Location;
/// let location = Location::parse("s3://tides/deferral").unwrap();
/// assert_eq!((location.bucket(), location.prefix()), ("tides", "deferral"));
/// assert_eq!(Location::parse("https://tides/deferral"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    bucket: String,
    prefix: String,
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

    /// Name of the S3 bucket, 3 to 63 characters.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The prefix of all keys, without a slash at its end; empty if there is none.
    pub fn prefix(&self) -> &str {
        &self.prefix
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
