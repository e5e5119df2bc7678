//! The control record in the memory ledger.

use tidegate_core::control::{Control, NOT_FOR_POLLERS, StoredControl};

use crate::ledger_size::of_claim;

/// The control record as it is stored, and as it is read. Each claim reads it, so it is read once when it is written.
#[derive(Debug)]
pub(crate) struct ControlItems {
    pub(crate) stored: StoredControl,
    pub(crate) version: u64,
    pub(crate) whole: Control,
    /// The record without what a claim does not return.
    pub(crate) for_pollers: Control,
    /// Size of the claim's item, of which the record is the largest part.
    pub(crate) claim_bytes: usize,
}

impl ControlItems {
    pub(crate) fn new(stored: StoredControl, version: u64) -> Self {
        let mut claimed = stored.clone();
        claimed.apart.remove(NOT_FOR_POLLERS);
        Self {
            whole: read(&stored),
            for_pollers: read(&claimed),
            claim_bytes: of_claim(&stored),
            stored,
            version,
        }
    }
}

impl Default for ControlItems {
    fn default() -> Self {
        Self::new(StoredControl::default(), 0)
    }
}

/// Reads a control record that was written by this ledger, so it always parses.
fn read(stored: &StoredControl) -> Control {
    stored.control().unwrap_or_default()
}
