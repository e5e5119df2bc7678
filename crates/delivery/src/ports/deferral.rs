use std::future::Future;

use tidegate_core::deferral::{ObjectName, Progress};

use super::PortError;

/// What an object stood as when it was read; it changes with every write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    /// The version that the store calls so.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// As the store calls it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An object of deferred mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeferredObject {
    /// Its name.
    pub name: ObjectName,
    /// Its size, packed.
    pub bytes: u64,
}

/// Some of the objects, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeferredPage {
    /// The objects.
    pub objects: Vec<DeferredObject>,
    /// Names that are no object's: nobody of Tidegate's put them there. They are left alone.
    pub strange: Vec<String>,
    /// What to ask for the next page with; none where this is the last.
    pub next: Option<String>,
}

/// Where deferred mail stands outside the queues.
pub trait DeferralStore {
    /// Writes an object, whole or not at all. One of the same name holds the same mails: writing it
    /// twice is writing it once.
    ///
    /// # Errors
    /// [`PortError`]; then it may have been written all the same.
    fn put(&self, name: &ObjectName, bytes: Vec<u8>)
    -> impl Future<Output = Result<(), PortError>>;

    /// The objects, the oldest first, at most a thousand at a time: from the beginning, or `after` the
    /// page that gave this.
    ///
    /// # Errors
    /// [`PortError`].
    fn list(&self, after: Option<&str>) -> impl Future<Output = Result<DeferredPage, PortError>>;

    /// An object's bytes.
    ///
    /// # Errors
    /// [`PortError`]; [`NotFound`](super::FailureKind::NotFound) where there is none (any more).
    fn get(&self, name: &ObjectName) -> impl Future<Output = Result<Vec<u8>, PortError>>;

    /// Deletes an object; one that is not there is deleted.
    ///
    /// # Errors
    /// [`PortError`]; then it may have been deleted all the same.
    fn delete(&self, name: &ObjectName) -> impl Future<Output = Result<(), PortError>>;

    /// How far an object is brought back; none where nobody began.
    ///
    /// # Errors
    /// [`PortError`].
    fn progress(
        &self,
        name: &ObjectName,
    ) -> impl Future<Output = Result<Option<(Progress, Version)>, PortError>>;

    /// Writes how far an object is brought back, where `stands` still does (none: nothing). Gives what
    /// stands then; none where another came first. A write of one's own, answered late, is success.
    ///
    /// # Errors
    /// [`PortError`]; then it may have been written all the same.
    fn set_progress(
        &self,
        name: &ObjectName,
        progress: &Progress,
        stands: Option<&Version>,
    ) -> impl Future<Output = Result<Option<Version>, PortError>>;

    /// Forgets how far an object was brought back, once it is deleted.
    ///
    /// # Errors
    /// [`PortError`].
    fn forget_progress(&self, name: &ObjectName) -> impl Future<Output = Result<(), PortError>>;
}
