use std::future::Future;

use tidegate_core::runs::Run;

use super::PortError;

/// A run as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    /// Number of its writes; 0 of one that was never written.
    pub version: u64,
    /// The run itself.
    pub run: Run,
}

/// The runs of the stack: who enqueues which list, and how far that has come.
pub trait Runs {
    /// Reads the newest `most` runs, at most `RUNS_KEPT`, the newest first.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer, or a run cannot be read.
    fn runs(&self, most: usize) -> impl Future<Output = Result<Vec<StoredRun>, PortError>>;

    /// Writes a run if its version is still that of `stored`, and adds 1 to it. False if another write came first. A
    /// write that took effect and whose answer was lost may give false.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer, or the run has more than DynamoDB's 400 KB; it may have been
    /// written all the same.
    fn set_run(&self, stored: &StoredRun) -> impl Future<Output = Result<bool, PortError>>;
}
