use std::future::Future;

use tidegate_core::control::ChangeRecord;

use super::PortError;

/// The number of changes that are kept; older ones are deleted.
pub const CHANGES_KEPT: usize = 200;

/// The record of operators' and policies' changes: who changed what, when and why.
pub trait History {
    /// Adds a change. Beyond [`CHANGES_KEPT`] the oldest are deleted.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer; the change may have been added all the same, even twice.
    fn add(&self, change: &ChangeRecord) -> impl Future<Output = Result<(), PortError>>;

    /// Reads the changes that are kept, the newest first.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer.
    fn changes(&self) -> impl Future<Output = Result<Vec<ChangeRecord>, PortError>>;
}
