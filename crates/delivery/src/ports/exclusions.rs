use std::collections::BTreeSet;
use std::future::Future;

use tidegate_core::exclusions::AddressKey;

use super::PortError;

/// One shard of the exclusion list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExclusionShard {
    /// Number of its writes; 0 if it was never written.
    pub version: u64,
    /// The keys of its addresses.
    pub keys: BTreeSet<AddressKey>,
}

/// The exclusion list, in shards.
pub trait Exclusions {
    /// Reads shards, in the order of `numbers`.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer, or a shard cannot be read.
    fn shards(
        &self,
        numbers: &[u8],
    ) -> impl Future<Output = Result<Vec<ExclusionShard>, PortError>>;

    /// Writes a shard if its version is still that of `shard`, and adds 1 to it. False if another write came
    /// first. A write that took effect and whose answer was lost may give false.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer; the shard may have been written all the same.
    fn set_shard(
        &self,
        number: u8,
        shard: &ExclusionShard,
    ) -> impl Future<Output = Result<bool, PortError>>;
}
