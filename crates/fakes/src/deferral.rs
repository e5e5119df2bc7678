use std::collections::BTreeMap;
use std::ops::Bound;

use tidegate_core::deferral::{ObjectName, Progress};
use tidegate_delivery::ports::{
    DeferralStore, DeferredObject, DeferredPage, FailureKind, PortError, Version,
};

use crate::faults::{Fake, Operation};

/// S3 lists at most this many objects in one page.
const PAGE: usize = 1_000;

/// Deferred mail in memory. A clone is the same store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tidegate_delivery::ports::DeferralStore;
/// use tidegate_fakes::MemoryDeferralStore;
/// let deferral = MemoryDeferralStore::default();
/// let name = "20261120T203607Z.big.250.1a2b.jsonl.gz".parse().unwrap();
/// deferral.put(&name, vec![1, 2, 3]).await.unwrap();
/// assert_eq!(deferral.list(None).await.unwrap().objects[0].name, name);
/// # }
/// ```
pub type MemoryDeferralStore = Fake<StoreState>;

#[derive(Debug)]
pub struct StoreState {
    objects: BTreeMap<String, Vec<u8>>,
    progress: BTreeMap<String, (Progress, u64)>,
    writes: u64,
    page: usize,
}

impl Default for StoreState {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), progress: BTreeMap::new(), writes: 0, page: PAGE }
    }
}

impl MemoryDeferralStore {
    /// This store, with pages of so many objects.
    pub fn with_pages_of(self, page: usize) -> Self {
        self.state.with(|state| state.page = page.max(1));
        self
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

impl StoreState {
    fn list(&self, after: Option<&str>) -> DeferredPage {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut left = self.objects.range::<str, _>((from, Bound::Unbounded)).peekable();
        let mut page = DeferredPage::default();
        for (name, bytes) in left.by_ref().take(self.page) {
            match name.parse() {
                Ok(name) => page.objects.push(DeferredObject { name, bytes: bytes.len() as u64 }),
                Err(_) => page.strange.push(name.clone()),
            }
            page.next = Some(name.clone());
        }
        page.next = page.next.filter(|_| left.peek().is_some());
        page
    }
}

impl DeferralStore for MemoryDeferralStore {
    async fn put(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<(), PortError> {
        let put = |state: &mut StoreState| drop(state.objects.insert(name.to_string(), bytes));
        self.call(Operation::PutDeferred, name, put).await
    }

    async fn list(&self, after: Option<&str>) -> Result<DeferredPage, PortError> {
        self.call(Operation::ListDeferred, "", |state| state.list(after)).await
    }

    async fn get(&self, name: &ObjectName) -> Result<Vec<u8>, PortError> {
        let get = |state: &mut StoreState| {
            state.objects.get(&name.to_string()).cloned().ok_or(FailureKind::NotFound)
        };
        self.try_call(Operation::GetDeferred, name, get).await
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), PortError> {
        let delete = |state: &mut StoreState| drop(state.objects.remove(&name.to_string()));
        self.call(Operation::DeleteDeferred, name, delete).await
    }

    async fn progress(&self, name: &ObjectName) -> Result<Option<(Progress, Version)>, PortError> {
        let read = |state: &mut StoreState| {
            let (progress, version) = state.progress.get(&name.to_string())?;
            Some((progress.clone(), Version::new(version.to_string())))
        };
        self.call(Operation::ReadProgress, name, read).await
    }

    async fn set_progress(
        &self,
        name: &ObjectName,
        progress: &Progress,
        stands: Option<&Version>,
    ) -> Result<Option<Version>, PortError> {
        let set = |state: &mut StoreState| {
            let key = name.to_string();
            let standing = state.progress.get(&key).map(|(_, version)| version.to_string());
            if standing.as_deref() != stands.map(Version::as_str) {
                return None;
            }
            state.writes += 1;
            state.progress.insert(key, (progress.clone(), state.writes));
            Some(Version::new(state.writes.to_string()))
        };
        self.call(Operation::SetProgress, name, set).await
    }

    async fn forget_progress(&self, name: &ObjectName) -> Result<(), PortError> {
        let forget = |state: &mut StoreState| drop(state.progress.remove(&name.to_string()));
        self.call(Operation::ForgetProgress, name, forget).await
    }
}
