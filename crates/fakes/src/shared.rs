use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// State that all handles of one fake service share. A clone is another handle.
///
/// A mutex instead of a cell, because the sandboxes use the handles from several threads. No lock
/// is held across an await.
#[derive(Default)]
pub(crate) struct SharedState<T>(Arc<Mutex<T>>);

impl<T> SharedState<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// Runs `act` on the state. A poisoned lock is ignored: the test whose handle panicked has
    /// failed already.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Clone for SharedState<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for SharedState<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}
