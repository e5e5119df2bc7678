//! The contract of the `Store` port.

use tidegate_delivery::ports::{Store, StorePage, Version};

use super::{behaviours, hold_in_turn};

/// Gives the contract fresh stores of one adapter.
pub trait StoreRoom {
    type Store: Store;

    /// A new store, empty, with pages of two objects.
    fn open(&self) -> impl Future<Output = Self::Store>;
}

/// Runs all behaviours of the port on one adapter.
pub async fn store_contract(room: &impl StoreRoom) {
    hold_in_turn(behaviours![room =>
        an_empty_store_lists_nothing,
        an_object_is_given_as_it_was_put,
        no_more_of_an_object_is_read_than_was_asked_for,
        an_object_put_again_is_one_object,
        objects_of_a_folder_are_listed_in_order_page_by_page,
        what_is_deleted_is_gone_and_may_be_deleted_again,
        an_object_is_replaced_where_what_was_read_still_stands,
        an_object_is_begun_once,
        a_put_changes_the_version,
    ])
    .await;
}

async fn keys(store: &impl Store, folder: &str) -> Vec<String> {
    let (mut keys, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(folder, after.as_deref()).await.expect("the list is answered");
        assert!(page.objects.len() <= 2, "{page:?}");
        keys.extend(page.objects.into_iter().map(|object| object.key));
        match page.next {
            Some(next) => after = Some(next),
            None => return keys,
        }
    }
}

async fn an_empty_store_lists_nothing(room: &impl StoreRoom) {
    let store = room.open().await;
    assert_eq!(store.list("timed", None).await.unwrap(), StorePage::default());
    assert_eq!(store.get("timed/a").await.unwrap(), None);
}

async fn an_object_is_given_as_it_was_put(room: &impl StoreRoom) {
    let store = room.open().await;
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    store.put("timed/a", bytes.clone()).await.unwrap();
    assert_eq!(store.get("timed/a").await.unwrap().unwrap().0, bytes);
    let page = store.list("timed", None).await.unwrap();
    assert_eq!((page.objects[0].key.as_str(), page.objects[0].bytes), ("timed/a", 70_000));
}

async fn no_more_of_an_object_is_read_than_was_asked_for(room: &impl StoreRoom) {
    let store = room.open().await;
    assert_eq!(store.get_most("large/a", 3).await.unwrap(), None);
    store.put("large/a", vec![1, 2, 3, 4]).await.unwrap();
    for (most, bytes) in [(1, vec![1]), (3, vec![1, 2, 3]), (4, vec![1, 2, 3, 4])] {
        assert_eq!(store.get_most("large/a", most).await.unwrap(), Some(bytes));
    }
    assert_eq!(store.get_most("large/a", 99).await.unwrap(), Some(vec![1, 2, 3, 4]));
    store.put("large/b", Vec::new()).await.unwrap();
    assert_eq!(store.get_most("large/b", 9).await.unwrap(), Some(Vec::new()));
}

async fn an_object_put_again_is_one_object(room: &impl StoreRoom) {
    let store = room.open().await;
    for _ in 0..2 {
        store.put("timed/a", vec![7]).await.unwrap();
    }
    assert_eq!(keys(&store, "timed").await, ["timed/a"]);
}

async fn objects_of_a_folder_are_listed_in_order_page_by_page(room: &impl StoreRoom) {
    let store = room.open().await;
    let mut put = ["timed/3.a-3", "timed/1.z_1", "timed/5.big", "timed/2.Big", "timed/2.big"];
    for key in put.iter().chain(&["deferred/1", "timed2/1", "progress/timed/1"]) {
        store.put(key, vec![1]).await.unwrap();
    }
    put.sort_unstable();
    assert_eq!(keys(&store, "timed").await, put);
    assert_eq!(keys(&store, "deferred").await, ["deferred/1"]);
}

async fn what_is_deleted_is_gone_and_may_be_deleted_again(room: &impl StoreRoom) {
    let store = room.open().await;
    store.put("timed/a", vec![1]).await.unwrap();
    store.put("timed/b", vec![1]).await.unwrap();
    store.delete("timed/a").await.unwrap();
    store.delete("timed/a").await.unwrap();
    assert_eq!(keys(&store, "timed").await, ["timed/b"]);
    assert_eq!(store.get("timed/a").await.unwrap(), None);
}

async fn replaced(store: &impl Store, byte: u8, stands: Option<&Version>) -> Option<Version> {
    store.replace("progress/a", vec![byte], stands).await.expect("it is answered")
}

async fn an_object_is_replaced_where_what_was_read_still_stands(room: &impl StoreRoom) {
    let store = room.open().await;
    let first = replaced(&store, 1, None).await.expect("nobody came first");
    let second = replaced(&store, 2, Some(&first)).await.expect("it stands");
    assert_eq!(replaced(&store, 3, Some(&first)).await, None, "another came first");
    assert_eq!(store.get("progress/a").await.unwrap(), Some((vec![2], second.clone())));
    assert!(replaced(&store, 4, Some(&second)).await.is_some());
}

async fn an_object_is_begun_once(room: &impl StoreRoom) {
    let store = room.open().await;
    assert!(replaced(&store, 1, None).await.is_some());
    assert_eq!(replaced(&store, 2, None).await, None);
}

async fn a_put_changes_the_version(room: &impl StoreRoom) {
    let store = room.open().await;
    let first = replaced(&store, 1, None).await.expect("nobody came first");
    store.put("progress/a", vec![2]).await.unwrap();
    assert_eq!(replaced(&store, 3, Some(&first)).await, None);
}
