//! The contract of the `DeferralStore` port.

use std::collections::BTreeSet;

use tidegate_core::deferral::{ObjectName, Progress};
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{DeferralStore, DeferredPage, FailureKind, Version};

use super::{behaviours, hold_in_turn};

/// Gives the contract fresh stores of one adapter.
pub trait DeferralRoom {
    type DeferralStore: DeferralStore;

    /// A new store, empty, with pages of two objects.
    fn open(&self) -> impl Future<Output = Self::DeferralStore>;

    /// Puts an object of any name beside the others, as another's hand does.
    fn put_strange(&self, deferral: &Self::DeferralStore, name: &str) -> impl Future<Output = ()>;
}

/// Runs all behaviours of the port on one adapter.
pub async fn deferral_contract(room: &impl DeferralRoom) {
    hold_in_turn(behaviours![room =>
        an_empty_store_lists_nothing,
        an_object_is_given_as_it_was_put,
        an_object_put_again_is_one_object,
        objects_are_listed_the_oldest_first_page_by_page,
        what_is_no_object_is_named_and_keeps_no_page_from_the_next,
        what_is_deleted_is_gone_and_may_be_deleted_again,
        progress_is_none_until_it_is_written,
        progress_is_written_where_what_was_read_still_stands,
        progress_is_begun_once,
        progress_survives_its_object_until_it_is_forgotten,
    ])
    .await;
}

fn name(second: u64, campaign: &str) -> ObjectName {
    let text = format!("20261120T2036{second:02}Z.{campaign}.3.1a2b3c4d.jsonl.gz");
    text.parse().expect("a name")
}

async fn names(deferral: &impl DeferralStore) -> Vec<ObjectName> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = deferral.list(after.as_deref()).await.expect("the list is answered");
        assert!(page.objects.len() + page.strange.len() <= 2, "{page:?}");
        names.extend(page.objects.into_iter().map(|object| object.name));
        match page.next {
            Some(next) => after = Some(next),
            None => return names,
        }
    }
}

async fn an_empty_store_lists_nothing(room: &impl DeferralRoom) {
    let deferral = room.open().await;
    assert_eq!(deferral.list(None).await.unwrap(), DeferredPage::default());
    let error = deferral.get(&name(1, "big")).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound, "{error}");
}

async fn an_object_is_given_as_it_was_put(room: &impl DeferralRoom) {
    let deferral = room.open().await;
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    deferral.put(&name(1, "big"), bytes.clone()).await.unwrap();
    assert_eq!(deferral.get(&name(1, "big")).await.unwrap(), bytes);
    let page = deferral.list(None).await.unwrap();
    assert_eq!((page.objects[0].name.clone(), page.objects[0].bytes), (name(1, "big"), 70_000));
}

async fn an_object_put_again_is_one_object(room: &impl DeferralRoom) {
    let deferral = room.open().await;
    for _ in 0..2 {
        deferral.put(&name(1, "big"), vec![7]).await.unwrap();
    }
    assert_eq!(names(&deferral).await, [name(1, "big")]);
}

async fn objects_are_listed_the_oldest_first_page_by_page(room: &impl DeferralRoom) {
    let deferral = room.open().await;
    let put = [(3, "a-3"), (1, "z_1"), (5, "big"), (2, "Big"), (2, "big")];
    for (second, campaign) in put {
        deferral.put(&name(second, campaign), vec![1]).await.unwrap();
    }
    let listed = names(&deferral).await;
    let sorted: BTreeSet<ObjectName> = put.iter().map(|(s, c)| name(*s, c)).collect();
    assert_eq!(listed.len(), 5);
    assert!(listed.windows(2).all(|pair| pair[0].window <= pair[1].window), "{listed:?}");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), sorted);
}

async fn what_is_no_object_is_named_and_keeps_no_page_from_the_next(room: &impl DeferralRoom) {
    let deferral = room.open().await;
    for strange in ["0", "1-notes", "2-notes"] {
        room.put_strange(&deferral, strange).await;
    }
    deferral.put(&name(1, "big"), vec![1]).await.unwrap();
    let page = deferral.list(None).await.unwrap();
    assert_eq!((page.objects.len(), page.strange.len()), (0, 2), "{page:?}");
    assert_eq!(names(&deferral).await, [name(1, "big")]);
}

async fn what_is_deleted_is_gone_and_may_be_deleted_again(room: &impl DeferralRoom) {
    let deferral = room.open().await;
    deferral.put(&name(1, "big"), vec![1]).await.unwrap();
    deferral.put(&name(2, "big"), vec![1]).await.unwrap();
    deferral.delete(&name(1, "big")).await.unwrap();
    deferral.delete(&name(1, "big")).await.unwrap();
    assert_eq!(names(&deferral).await, [name(2, "big")]);
    assert!(deferral.get(&name(1, "big")).await.is_err());
}

fn progress(through: usize) -> Progress {
    Progress {
        through,
        beyond: [through + 2].into(),
        by: "ada".to_owned(),
        until: Some(EpochMillis::new(1_795_207_000_000)),
    }
}

async fn written(
    deferral: &impl DeferralStore,
    through: usize,
    stands: Option<&Version>,
) -> Option<Version> {
    deferral
        .set_progress(&name(1, "big"), &progress(through), stands)
        .await
        .expect("it is answered")
}

async fn progress_is_none_until_it_is_written(room: &impl DeferralRoom) {
    let deferral = room.open().await;
    assert_eq!(deferral.progress(&name(1, "big")).await.unwrap(), None);
    let version = written(&deferral, 1, None).await.expect("nobody came first");
    assert_eq!(deferral.progress(&name(1, "big")).await.unwrap(), Some((progress(1), version)));
    assert_eq!(deferral.progress(&name(2, "big")).await.unwrap(), None);
    assert_eq!(names(&deferral).await, [], "it is no object");
}

async fn progress_is_written_where_what_was_read_still_stands(room: &impl DeferralRoom) {
    let deferral = room.open().await;
    let first = written(&deferral, 1, None).await.expect("nobody came first");
    let second = written(&deferral, 2, Some(&first)).await.expect("it stands");
    assert_eq!(written(&deferral, 3, Some(&first)).await, None, "another came first");
    assert_eq!(
        deferral.progress(&name(1, "big")).await.unwrap(),
        Some((progress(2), second.clone()))
    );
    assert!(written(&deferral, 4, Some(&second)).await.is_some());
}

async fn progress_is_begun_once(room: &impl DeferralRoom) {
    let deferral = room.open().await;
    assert!(written(&deferral, 1, None).await.is_some());
    assert_eq!(written(&deferral, 2, None).await, None);
}

async fn progress_survives_its_object_until_it_is_forgotten(room: &impl DeferralRoom) {
    let deferral = room.open().await;
    deferral.put(&name(1, "big"), vec![1]).await.unwrap();
    assert!(written(&deferral, 1, None).await.is_some());
    deferral.delete(&name(1, "big")).await.unwrap();
    assert!(deferral.progress(&name(1, "big")).await.unwrap().is_some());
    deferral.forget_progress(&name(1, "big")).await.unwrap();
    deferral.forget_progress(&name(1, "big")).await.unwrap();
    assert_eq!(deferral.progress(&name(1, "big")).await.unwrap(), None);
}
