//! The store: the S3 bucket in which mail waits, or its stand-in. A key is what follows the store's prefix, such as
//! `deferred/20261120T203607Z.big.1a2b.250.jsonl.gz`.

use std::future::Future;

use super::PortError;

/// The version of a stored object, such as S3's `ETag`; it changes with every write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    /// The version whose text in the store is `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text that the store uses for this version.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A stored object, as a list has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The object's key.
    pub key: String,
    /// The stored (compressed) size in bytes.
    pub bytes: u64,
}

/// One page of a list, in the order of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorePage {
    /// The objects of this page, at most 1,000.
    pub objects: Vec<StoredObject>,
    /// The cursor for the next page; `None` if this is the last page.
    pub next: Option<String>,
}

/// The store of mail outside the queues.
pub trait Store {
    /// Writes an object completely or not at all.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer; the object may have been written all the same.
    fn put(&self, key: &str, bytes: Vec<u8>) -> impl Future<Output = Result<(), PortError>>;

    /// Lists the objects of a folder in the order of their keys' bytes, at most 1,000 per page. `after` is
    /// [`StorePage::next`] of the page before, or `None` for the first page.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer.
    fn list(
        &self,
        folder: &str,
        after: Option<&str>,
    ) -> impl Future<Output = Result<StorePage, PortError>>;

    /// Reads an object's bytes and version; `None` if it does not exist.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer.
    fn get(&self, key: &str)
    -> impl Future<Output = Result<Option<(Vec<u8>, Version)>, PortError>>;

    /// Reads an object's first `most` bytes, at least 1; all of an object that has fewer. `None` if it does not exist.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer.
    fn get_most(
        &self,
        key: &str,
        most: u64,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, PortError>>;

    /// Deletes an object; deleting one that does not exist succeeds.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer; the object may have been deleted all the same.
    fn delete(&self, key: &str) -> impl Future<Output = Result<(), PortError>>;

    /// Writes an object if the stored version is still `stands` (`None`: there is none). Returns the new version, or
    /// `None` if another write came first. A write that took effect but was answered late counts as a success.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer; the object may have been written all the same.
    fn replace(
        &self,
        key: &str,
        bytes: Vec<u8>,
        stands: Option<&Version>,
    ) -> impl Future<Output = Result<Option<Version>, PortError>>;
}
