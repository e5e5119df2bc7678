use std::collections::BTreeMap;
use std::ops::Bound;

use tidegate_core::deferral::{ObjectName, Progress};
use tidegate_delivery::ports::{
    DeferralStore, DeferredObject, DeferredPage, FailureKind, PortError, Version,
};

use crate::shared::SharedState;

/// S3 lists at most this many objects in one page.
const PAGE: usize = 1_000;

/// Deferred mail in memory. A clone is the same store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tidegate_delivery::ports::DeferralStore;
/// use tidegate_memory::MemoryDeferralStore;
/// let deferral = MemoryDeferralStore::default();
/// let name = "20261120T203607Z.big.250.1a2b.jsonl.gz".parse().unwrap();
/// deferral.put(&name, vec![1, 2, 3]).await.unwrap();
/// assert_eq!(deferral.list(None).await.unwrap().objects[0].name, name);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryDeferralStore {
    state: SharedState<StoreState>,
    page: usize,
}

#[derive(Debug, Default)]
struct StoreState {
    objects: BTreeMap<String, Vec<u8>>,
    progress: BTreeMap<String, (Progress, u64)>,
    writes: u64,
}

impl Default for MemoryDeferralStore {
    fn default() -> Self {
        Self { state: SharedState::new(StoreState::default()), page: PAGE }
    }
}

impl MemoryDeferralStore {
    /// This store, with pages of so many objects.
    pub fn with_pages_of(self, page: usize) -> Self {
        Self { page: page.max(1), ..self }
    }

    /// Every object with its bytes, the oldest first; names that are not Tidegate's are left out.
    pub fn contents(&self) -> Vec<(ObjectName, Vec<u8>)> {
        self.state.with(|state| {
            let named =
                |(name, bytes): (&String, &Vec<u8>)| Some((name.parse().ok()?, bytes.clone()));
            state.objects.iter().filter_map(named).collect()
        })
    }

    /// Stores an object under any name, as other software could.
    pub fn put_raw(&self, name: &str, bytes: Vec<u8>) {
        self.state.with(|state| state.objects.insert(name.to_owned(), bytes));
    }
}

impl DeferralStore for MemoryDeferralStore {
    async fn put(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<(), PortError> {
        self.put_raw(&name.to_string(), bytes);
        Ok(())
    }

    async fn list(&self, after: Option<&str>) -> Result<DeferredPage, PortError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.state.with(|state| {
            let mut left = state.objects.range::<str, _>((from, Bound::Unbounded)).peekable();
            let mut page = DeferredPage::default();
            for (name, bytes) in left.by_ref().take(self.page) {
                match name.parse() {
                    Ok(name) => {
                        page.objects.push(DeferredObject { name, bytes: bytes.len() as u64 });
                    }
                    Err(_) => page.strange.push(name.clone()),
                }
                page.next = Some(name.clone());
            }
            page.next = page.next.filter(|_| left.peek().is_some());
            page
        }))
    }

    async fn get(&self, name: &ObjectName) -> Result<Vec<u8>, PortError> {
        let name = name.to_string();
        let found = self.state.with(|state| state.objects.get(&name).cloned());
        found.ok_or_else(|| PortError {
            operation: "GetObject",
            resource: name,
            kind: FailureKind::NotFound,
            source: None,
        })
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), PortError> {
        self.state.with(|state| state.objects.remove(&name.to_string()));
        Ok(())
    }

    async fn progress(&self, name: &ObjectName) -> Result<Option<(Progress, Version)>, PortError> {
        let stands = self.state.with(|state| state.progress.get(&name.to_string()).cloned());
        Ok(stands.map(|(progress, version)| (progress, Version::new(version.to_string()))))
    }

    async fn set_progress(
        &self,
        name: &ObjectName,
        progress: &Progress,
        stands: Option<&Version>,
    ) -> Result<Option<Version>, PortError> {
        Ok(self.state.with(|state| {
            let name = name.to_string();
            let standing = state.progress.get(&name).map(|(_, version)| version.to_string());
            if standing.as_deref() != stands.map(Version::as_str) {
                return None;
            }
            state.writes += 1;
            state.progress.insert(name, (progress.clone(), state.writes));
            Some(Version::new(state.writes.to_string()))
        }))
    }

    async fn forget_progress(&self, name: &ObjectName) -> Result<(), PortError> {
        self.state.with(|state| state.progress.remove(&name.to_string()));
        Ok(())
    }
}
