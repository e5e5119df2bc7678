//! The contract of the `Directory` port.

use std::collections::BTreeSet;

use tidegate_delivery::ports::{Directory, FailureKind, QueueUrl};

use super::{Behaviour, behaviours, hold_in_turn};

/// Creates, tags and deletes queues for the contract.
pub trait DirectoryRoom {
    type Directory: Directory;

    fn directory(&self) -> &Self::Directory;

    /// Makes a queue of this name, FIFO where it ends in `.fifo`.
    fn create(&self, name: &str) -> impl Future<Output = QueueUrl>;

    /// Tags a queue, or takes the tag off it (none).
    fn tag(&self, queue: &QueueUrl, name: &str, value: Option<&str>) -> impl Future<Output = ()>;

    fn delete(&self, queue: &QueueUrl) -> impl Future<Output = ()>;
}

/// Runs all behaviours of the port on one adapter.
pub async fn directory_contract(room: &impl DirectoryRoom) {
    let behaviours: Vec<Behaviour<'_>> = behaviours![room =>
        queues_are_listed_by_the_beginning_of_their_names,
        tags_are_told_as_they_stand,
        a_queue_that_is_gone_is_not_listed_and_has_no_tags,
    ];
    hold_in_turn(behaviours).await;
}

async fn names(room: &impl DirectoryRoom, prefix: &str) -> BTreeSet<String> {
    let listed = room.directory().queues(prefix).await.unwrap();
    let names: BTreeSet<String> = listed.iter().map(|queue| queue.name().to_owned()).collect();
    assert_eq!(names.len(), listed.len(), "each once");
    names
}

async fn queues_are_listed_by_the_beginning_of_their_names(room: &impl DirectoryRoom) {
    assert_eq!(names(room, "listed-campaign-").await, BTreeSet::new());
    let mut made = BTreeSet::new();
    for name in ["listed-campaign-a", "listed-campaign-b", "listed-campaign-c.fifo"] {
        made.insert(room.create(name).await);
    }
    for name in ["listed-express", "other-listed-campaign-a", "listed-campaign"] {
        room.create(name).await;
    }
    let listed = room.directory().queues("listed-campaign-").await.unwrap();
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), made);
    assert_eq!(names(room, "listed-campaign-b").await, ["listed-campaign-b".to_owned()].into());
}

async fn tags_are_told_as_they_stand(room: &impl DirectoryRoom) {
    let queue = room.create("tagged-queue").await;
    let told = async || room.directory().tags(&queue).await.unwrap();
    assert_eq!(told().await, [].into());
    let tag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    room.tag(&queue, "tidegate:weight", Some("30")).await;
    room.tag(&queue, "Team", Some("news & more: é")).await;
    let both = [tag("tidegate:weight", "30"), tag("Team", "news & more: é")];
    assert_eq!(told().await, both.into());
    room.tag(&queue, "tidegate:weight", Some("7")).await;
    room.tag(&queue, "Team", None).await;
    assert_eq!(told().await, [tag("tidegate:weight", "7")].into());
}

async fn a_queue_that_is_gone_is_not_listed_and_has_no_tags(room: &impl DirectoryRoom) {
    let queue = room.create("gone-queue").await;
    room.tag(&queue, "tidegate:weight", Some("30")).await;
    room.delete(&queue).await;
    assert_eq!(names(room, "gone-").await, BTreeSet::new());
    let error = room.directory().tags(&queue).await.unwrap_err();
    assert_eq!((error.kind, error.operation), (FailureKind::NotFound, "ListQueueTags"));
    assert_eq!(error.resource, queue.as_str());
}
