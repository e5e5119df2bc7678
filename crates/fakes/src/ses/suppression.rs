use std::collections::BTreeMap;

use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{
    PortError, SuppressedAddress, SuppressionList, SuppressionPage, SuppressionReason,
};

use crate::faults::{FaultPlan, Faults, Operation};
use crate::shared::SharedState;

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
#[derive(Clone, Debug, Default)]
pub struct MemorySuppressionList {
    addresses: SharedState<BTreeMap<String, SuppressedAddress>>,
    faults: Faults,
}

impl MemorySuppressionList {
    /// A handle on this list whose calls fail as `plan` says.
    pub fn with_faults(self, plan: &FaultPlan) -> Self {
        Self { faults: plan.into(), ..self }
    }

    /// Puts an address on the list, or changes its entry.
    pub fn put(&self, address: &str, reason: SuppressionReason, since: EpochMillis) {
        let address = address.to_owned();
        let entry = SuppressedAddress { address: address.clone(), reason, since, tenant: None };
        self.addresses.with(|all| all.insert(address, entry));
    }

    /// Takes an address off the list, if it is there.
    pub(crate) fn remove(&self, address: &str) -> Option<SuppressedAddress> {
        self.addresses.with(|all| all.remove(address))
    }

    /// At most `size` addresses after the cursor.
    pub(crate) fn page_of(&self, size: usize, after: Option<&str>) -> SuppressionPage {
        let Some(after) = after else {
            return SuppressionPage { addresses: Vec::new(), next: Some(String::new()) };
        };
        self.addresses.with(|all| {
            let mut rest = all.iter().filter(|(key, _)| key.as_str() > after);
            let page: Vec<_> = rest.by_ref().take(size).collect();
            let last = page.last().map(|(key, _)| (*key).clone());
            SuppressionPage {
                addresses: page.into_iter().map(|(_, entry)| entry.clone()).collect(),
                next: last.filter(|_| rest.next().is_some()),
            }
        })
    }

    pub(crate) fn entry(&self, address: &str) -> Option<SuppressedAddress> {
        self.addresses.with(|all| all.get(address).cloned())
    }
}

impl SuppressionList for MemorySuppressionList {
    async fn page(&self, after: Option<&str>) -> Result<SuppressionPage, PortError> {
        const SIZE: usize = 2;
        let page = async { Ok(self.page_of(SIZE, after)) };
        self.faults.call(Operation::ListSuppressed, "", page).await
    }

    async fn find(&self, address: &str) -> Result<Option<SuppressedAddress>, PortError> {
        let find = async { Ok(self.entry(address)) };
        self.faults.call(Operation::FindSuppressed, address, find).await
    }
}
