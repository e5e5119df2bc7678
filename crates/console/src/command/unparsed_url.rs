use std::fmt;

use tidegate_core::config::{BucketUrl, InvalidBucketUrl};

/// The URL of a server, as an option has it. It is not parsed by clap, whose errors show the value, which may
/// contain a password.
#[derive(Clone)]
pub(super) struct UnparsedUrl(String);

impl UnparsedUrl {
    /// Whether the option has a value.
    pub(super) const fn is_given(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn parse(&self) -> Result<BucketUrl, InvalidBucketUrl> {
        self.0.parse()
    }
}

impl From<String> for UnparsedUrl {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for UnparsedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not shown")
    }
}
