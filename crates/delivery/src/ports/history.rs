use std::future::Future;

use tidegate_core::control::ChangeRecord;

use super::PortError;

/// How many changes are kept, the newest.
pub const CHANGES_KEPT: usize = 200;

/// Who changed what, and why.
pub trait History {
    /// Keeps a change; beyond [`CHANGES_KEPT`] the oldest go.
    ///
    /// # Errors
    /// [`PortError`]; then it may be kept all the same, or kept twice.
    fn add(&self, change: &ChangeRecord) -> impl Future<Output = Result<(), PortError>>;

    /// The changes that are kept, the newest first.
    ///
    /// # Errors
    /// [`PortError`].
    fn changes(&self) -> impl Future<Output = Result<Vec<ChangeRecord>, PortError>>;
}
