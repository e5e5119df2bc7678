use std::collections::BTreeMap;
use std::ops::Bound;

use tidegate_core::draft::{CampaignDraft, DraftContent, Templates};
use tidegate_core::email::AllowedSenders;
use tidegate_core::identity::EpochMillis;
use tidegate_core::store::ObjectName;
use tidegate_delivery::ports::{PortError, Store, StorePage, StoredObject, Version};

use crate::faults::{Fake, Operation};

/// S3 lists at most this many objects in one page.
const PAGE: usize = 1_000;

/// The store in memory. A clone is the same store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tidegate_delivery::ports::Store;
/// use tidegate_fakes::MemoryStore;
/// let store = MemoryStore::default();
/// store.put("deferred/a", vec![1, 2, 3]).await.unwrap();
/// assert_eq!(store.list("deferred", None).await.unwrap().objects[0].key, "deferred/a");
/// # }
/// ```
pub type MemoryStore = Fake<StoreState>;

#[derive(Debug)]
pub struct StoreState {
    objects: BTreeMap<String, (Vec<u8>, u64)>,
    writes: u64,
    page: usize,
}

impl Default for StoreState {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), writes: 0, page: PAGE }
    }
}

impl MemoryStore {
    /// This store, with pages of so many objects.
    pub fn with_pages_of(self, page: usize) -> Self {
        self.state.with(|state| state.page = page.max(1));
        self
    }

    /// Every object of mail with its bytes, in the order of the keys.
    pub fn contents(&self) -> Vec<(ObjectName, Vec<u8>)> {
        self.state.with(|state| {
            let named = |(key, (bytes, _)): (&String, &(Vec<u8>, u64))| {
                Some((key.parse().ok()?, bytes.clone()))
            };
            state.objects.iter().filter_map(named).collect()
        })
    }
}

impl StoreState {
    fn put(&mut self, key: &str, bytes: Vec<u8>) -> Version {
        self.writes += 1;
        self.objects.insert(key.to_owned(), (bytes, self.writes));
        Version::new(self.writes.to_string())
    }

    fn list(&self, folder: &str, after: Option<&str>) -> StorePage {
        let folder = format!("{folder}/");
        let from = after.map_or(Bound::Included(folder.as_str()), Bound::Excluded);
        let of_folder = self.objects.range::<str, _>((from, Bound::Unbounded));
        let mut left = of_folder.take_while(|(key, _)| key.starts_with(&folder)).peekable();
        let listed = left.by_ref().take(self.page);
        let listed = listed
            .map(|(key, (bytes, _))| StoredObject { key: key.clone(), bytes: bytes.len() as u64 });
        let objects: Vec<StoredObject> = listed.collect();
        let last = objects.last().map(|object| object.key.clone());
        StorePage { next: last.filter(|_| left.peek().is_some()), objects }
    }
}

impl Store for MemoryStore {
    async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), PortError> {
        self.call(Operation::PutObject, key, |state| drop(state.put(key, bytes))).await
    }

    async fn list(&self, folder: &str, after: Option<&str>) -> Result<StorePage, PortError> {
        self.call(Operation::ListObjects, folder, |state| state.list(folder, after)).await
    }

    async fn get(&self, key: &str) -> Result<Option<(Vec<u8>, Version)>, PortError> {
        let get = |state: &mut StoreState| {
            let (bytes, version) = state.objects.get(key)?;
            Some((bytes.clone(), Version::new(version.to_string())))
        };
        self.call(Operation::GetObject, key, get).await
    }

    async fn get_most(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>, PortError> {
        let found = self.get(key).await?;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(found.map(|(mut bytes, _)| {
            bytes.truncate(most);
            bytes
        }))
    }

    async fn delete(&self, key: &str) -> Result<(), PortError> {
        self.call(Operation::DeleteObject, key, |state| drop(state.objects.remove(key))).await
    }

    async fn replace(
        &self,
        key: &str,
        bytes: Vec<u8>,
        stands: Option<&Version>,
    ) -> Result<Option<Version>, PortError> {
        let replace = |state: &mut StoreState| {
            let standing = state.objects.get(key).map(|(_, version)| version.to_string());
            (standing.as_deref() == stands.map(Version::as_str)).then(|| state.put(key, bytes))
        };
        self.call(Operation::ReplaceObject, key, replace).await
    }
}
/// The draft `november` of a list that the stack enqueues: these templates, one sender, and nothing else.
pub fn list_draft(campaign: &str, templates: Templates) -> CampaignDraft {
    CampaignDraft {
        campaign: campaign.to_owned(),
        run: "november".to_owned(),
        from: Some("news@example.org".to_owned()),
        reply_to: Vec::new(),
        priority: None,
        tags: BTreeMap::new(),
        configuration_set: None,
        content: DraftContent::Templates(templates),
        to_column: None,
        id_column: None,
        not_before: None,
        began: EpochMillis::new(1_795_207_000_000),
        uploaded: true,
        rules: AllowedSenders::everyone().into(),
    }
}
