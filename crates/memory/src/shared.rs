use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// State that every handle of one service shares. A clone is another handle.
///
/// A mutex rather than a cell, so that the handles can cross threads; it is never held while waiting.
pub(crate) struct SharedState<T>(Arc<Mutex<T>>);

impl<T> SharedState<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    /// Runs `act` on the state. A panic of another handle does not make the state unreadable: the
    /// test that panicked has failed already.
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
