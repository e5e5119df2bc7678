//! The ledger's table, and the client that calls it.

use aws_sdk_dynamodb::Client;
use tidegate_delivery::ports::{FailureKind, PortError};

/// A table's name and the client for it.
#[derive(Clone, Debug)]
pub(super) struct LedgerTable {
    pub(super) client: Client,
    pub(super) name: String,
}

impl LedgerTable {
    pub(super) fn timed_out(&self) -> PortError {
        PortError {
            operation: "BatchGetItem",
            resource: self.name.clone(),
            kind: FailureKind::TimedOut,
            source: None,
        }
    }
}
