use std::collections::BTreeMap;

use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{
    PortError, SuppressedAddress, SuppressionList, SuppressionPage, SuppressionReason,
};

use crate::faults::{Fake, Operation};

/// A suppression list in memory. A clone is the same list.
///
/// As AWS, it finds an address only in the spelling in which it was put. AWS does not promise that a page with a successor has an address: here the first one has none.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tidegate_core::identity::EpochMillis;
/// use tidegate_delivery::ports::{SuppressionList, SuppressionReason};
/// use tidegate_fakes::MemorySuppressionList;
/// let list = MemorySuppressionList::default();
/// list.put("Ada@example.com", SuppressionReason::Bounce, EpochMillis::new(7));
/// assert!(list.find("Ada@example.com").await.unwrap().is_some());
/// assert!(list.find("ada@example.com").await.unwrap().is_none());
/// # }
/// ```
pub type MemorySuppressionList = Fake<BTreeMap<String, SuppressedAddress>>;

impl MemorySuppressionList {
    /// Puts an address on the list, or changes its entry.
    pub fn put(&self, address: &str, reason: SuppressionReason, since: EpochMillis) {
        let address = address.to_owned();
        let entry = SuppressedAddress { address: address.clone(), reason, since, tenant: None };
        self.state.with(|all| all.insert(address, entry));
    }

    /// Takes an address off the list, if it is there.
    pub(crate) fn remove(&self, address: &str) -> Option<SuppressedAddress> {
        self.state.with(|all| all.remove(address))
    }

    /// At most `size` addresses after the cursor.
    pub(crate) fn page_of(&self, size: usize, after: Option<&str>) -> SuppressionPage {
        self.state.with(|all| page_of(all, size, after))
    }

    pub(crate) fn entry(&self, address: &str) -> Option<SuppressedAddress> {
        self.state.with(|all| all.get(address).cloned())
    }
}

impl SuppressionList for MemorySuppressionList {
    async fn page(&self, after: Option<&str>) -> Result<SuppressionPage, PortError> {
        const SIZE: usize = 2;
        self.call(Operation::ListSuppressed, "", |all| page_of(all, SIZE, after)).await
    }

    async fn find(&self, address: &str) -> Result<Option<SuppressedAddress>, PortError> {
        self.call(Operation::FindSuppressed, address, |all| all.get(address).cloned()).await
    }
}

fn page_of(
    all: &BTreeMap<String, SuppressedAddress>,
    size: usize,
    after: Option<&str>,
) -> SuppressionPage {
    let Some(after) = after else {
        return SuppressionPage { addresses: Vec::new(), next: Some(String::new()) };
    };
    let mut rest = all.iter().filter(|(key, _)| key.as_str() > after);
    let addresses: Vec<_> = rest.by_ref().take(size).map(|(_, entry)| entry.clone()).collect();
    let last = addresses.last().map(|entry| entry.address.clone());
    SuppressionPage { addresses, next: last.filter(|_| rest.next().is_some()) }
}
