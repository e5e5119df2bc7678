//! The contract of the `Spill` port.

use std::collections::BTreeSet;

use tidegate_core::identity::EpochMillis;
use tidegate_core::spill::{ObjectName, Progress};
use tidegate_delivery::ports::{FailureKind, Spill, SpillPage, Version};

use super::{behaviours, hold_in_turn};

/// Where stores of deferred mail come from.
pub trait SpillRoom {
    /// The store.
    type Spill: Spill;

    /// A new store, empty, with pages of two objects.
    fn open(&self) -> impl Future<Output = Self::Spill>;

    /// Puts an object of any name beside the others, as another's hand does.
    fn put_strange(&self, spill: &Self::Spill, name: &str) -> impl Future<Output = ()>;
}

/// What every adapter promises.
pub async fn spill_contract(room: &impl SpillRoom) {
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

async fn names(spill: &impl Spill) -> Vec<ObjectName> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = spill.list(after.as_deref()).await.expect("the list is answered");
        assert!(page.objects.len() + page.strange.len() <= 2, "{page:?}");
        names.extend(page.objects.into_iter().map(|object| object.name));
        match page.next {
            Some(next) => after = Some(next),
            None => return names,
        }
    }
}

async fn an_empty_store_lists_nothing(room: &impl SpillRoom) {
    let spill = room.open().await;
    assert_eq!(spill.list(None).await.unwrap(), SpillPage::default());
    let error = spill.get(&name(1, "big")).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound, "{error}");
}

async fn an_object_is_given_as_it_was_put(room: &impl SpillRoom) {
    let spill = room.open().await;
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    spill.put(&name(1, "big"), bytes.clone()).await.unwrap();
    assert_eq!(spill.get(&name(1, "big")).await.unwrap(), bytes);
    let page = spill.list(None).await.unwrap();
    assert_eq!((page.objects[0].name.clone(), page.objects[0].bytes), (name(1, "big"), 70_000));
}

async fn an_object_put_again_is_one_object(room: &impl SpillRoom) {
    let spill = room.open().await;
    for _ in 0..2 {
        spill.put(&name(1, "big"), vec![7]).await.unwrap();
    }
    assert_eq!(names(&spill).await, [name(1, "big")]);
}

async fn objects_are_listed_the_oldest_first_page_by_page(room: &impl SpillRoom) {
    let spill = room.open().await;
    let put = [(3, "a-3"), (1, "z_1"), (5, "big"), (2, "Big"), (2, "big")];
    for (second, campaign) in put {
        spill.put(&name(second, campaign), vec![1]).await.unwrap();
    }
    let listed = names(&spill).await;
    let sorted: BTreeSet<ObjectName> = put.iter().map(|(s, c)| name(*s, c)).collect();
    assert_eq!(listed.len(), 5);
    assert!(listed.windows(2).all(|pair| pair[0].window <= pair[1].window), "{listed:?}");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), sorted);
}

async fn what_is_no_object_is_named_and_keeps_no_page_from_the_next(room: &impl SpillRoom) {
    let spill = room.open().await;
    for strange in ["0", "1-notes", "2-notes"] {
        room.put_strange(&spill, strange).await;
    }
    spill.put(&name(1, "big"), vec![1]).await.unwrap();
    let page = spill.list(None).await.unwrap();
    assert_eq!((page.objects.len(), page.strange.len()), (0, 2), "{page:?}");
    assert_eq!(names(&spill).await, [name(1, "big")]);
}

async fn what_is_deleted_is_gone_and_may_be_deleted_again(room: &impl SpillRoom) {
    let spill = room.open().await;
    spill.put(&name(1, "big"), vec![1]).await.unwrap();
    spill.put(&name(2, "big"), vec![1]).await.unwrap();
    spill.delete(&name(1, "big")).await.unwrap();
    spill.delete(&name(1, "big")).await.unwrap();
    assert_eq!(names(&spill).await, [name(2, "big")]);
    assert!(spill.get(&name(1, "big")).await.is_err());
}

fn progress(through: usize) -> Progress {
    Progress {
        through,
        beyond: [through + 2].into(),
        by: "ada".to_owned(),
        until: Some(EpochMillis::new(1_795_207_000_000)),
    }
}

async fn written(spill: &impl Spill, through: usize, stands: Option<&Version>) -> Option<Version> {
    spill.set_progress(&name(1, "big"), &progress(through), stands).await.expect("it is answered")
}

async fn progress_is_none_until_it_is_written(room: &impl SpillRoom) {
    let spill = room.open().await;
    assert_eq!(spill.progress(&name(1, "big")).await.unwrap(), None);
    let version = written(&spill, 1, None).await.expect("nobody came first");
    assert_eq!(spill.progress(&name(1, "big")).await.unwrap(), Some((progress(1), version)));
    assert_eq!(spill.progress(&name(2, "big")).await.unwrap(), None);
    assert_eq!(names(&spill).await, [], "it is no object");
}

async fn progress_is_written_where_what_was_read_still_stands(room: &impl SpillRoom) {
    let spill = room.open().await;
    let first = written(&spill, 1, None).await.expect("nobody came first");
    let second = written(&spill, 2, Some(&first)).await.expect("it stands");
    assert_eq!(written(&spill, 3, Some(&first)).await, None, "another came first");
    assert_eq!(spill.progress(&name(1, "big")).await.unwrap(), Some((progress(2), second.clone())));
    assert!(written(&spill, 4, Some(&second)).await.is_some());
}

async fn progress_is_begun_once(room: &impl SpillRoom) {
    let spill = room.open().await;
    assert!(written(&spill, 1, None).await.is_some());
    assert_eq!(written(&spill, 2, None).await, None);
}

async fn progress_survives_its_object_until_it_is_forgotten(room: &impl SpillRoom) {
    let spill = room.open().await;
    spill.put(&name(1, "big"), vec![1]).await.unwrap();
    assert!(written(&spill, 1, None).await.is_some());
    spill.delete(&name(1, "big")).await.unwrap();
    assert!(spill.progress(&name(1, "big")).await.unwrap().is_some());
    spill.forget_progress(&name(1, "big")).await.unwrap();
    spill.forget_progress(&name(1, "big")).await.unwrap();
    assert_eq!(spill.progress(&name(1, "big")).await.unwrap(), None);
}
