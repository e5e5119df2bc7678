use std::future::Future;

use tidegate_core::deferral::{ObjectName, Progress};

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

/// One stored object of deferred mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredObject {
    /// The object's name; it tells the campaign and the time.
    pub name: ObjectName,
    /// The stored (compressed) size in bytes.
    pub bytes: u64,
}

/// One page of the list of objects, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeferredPage {
    /// The objects of this page, at most 1,000.
    pub objects: Vec<DeferredObject>,
    /// Names that no object of Tidegate's can have. Other software put them there; they are left alone.
    pub strange: Vec<String>,
    /// The cursor for the next page; `None` if this is the last page.
    pub next: Option<String>,
}

/// The store of deferred mail, outside the queues.
pub trait DeferralStore {
    /// Writes an object completely or not at all. The name is derived from the mails, so writing the same
    /// name again has no further effect.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer; the object may have been written all the same.
    fn put(&self, name: &ObjectName, bytes: Vec<u8>)
    -> impl Future<Output = Result<(), PortError>>;

    /// Lists objects, the oldest first, at most 1,000 per page. `after` is [`DeferredPage::next`] of the
    /// page before, or `None` for the first page.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer.
    fn list(&self, after: Option<&str>) -> impl Future<Output = Result<DeferredPage, PortError>>;

    /// Reads an object's bytes.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer; its kind is [`NotFound`](super::FailureKind::NotFound) if
    /// the object does not exist.
    fn get(&self, name: &ObjectName) -> impl Future<Output = Result<Vec<u8>, PortError>>;

    /// Deletes an object; deleting one that does not exist succeeds.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer; the object may have been deleted all the same.
    fn delete(&self, name: &ObjectName) -> impl Future<Output = Result<(), PortError>>;

    /// Reads an object's replay progress; `None` if no replay of it has begun.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer.
    fn progress(
        &self,
        name: &ObjectName,
    ) -> impl Future<Output = Result<Option<(Progress, Version)>, PortError>>;

    /// Writes an object's replay progress if the stored version is still `stands` (`None`: none is stored).
    /// Returns the new version, or `None` if another run has written first. A write that took effect but was
    /// answered late counts as a success.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer; the progress may have been written all the same.
    fn set_progress(
        &self,
        name: &ObjectName,
        progress: &Progress,
        stands: Option<&Version>,
    ) -> impl Future<Output = Result<Option<Version>, PortError>>;

    /// Deletes the progress of an object that has been deleted.
    ///
    /// # Errors
    /// [`PortError`] if the store does not answer.
    fn forget_progress(&self, name: &ObjectName) -> impl Future<Output = Result<(), PortError>>;
}
