//! The contract of the `Announce` port.

use tidegate_delivery::ports::{Announce, FailureKind};

use super::{behaviours, hold_together};

/// Gives the contract fresh topics of one adapter.
pub trait TopicRoom {
    type Topic: Announce;

    fn open(&self) -> impl Future<Output = Self::Topic>;

    /// A topic that does not exist.
    fn missing(&self) -> impl Future<Output = Self::Topic>;

    /// The subjects that arrived at the topic, once there are so many.
    fn told(&self, topic: &Self::Topic, count: usize) -> impl Future<Output = Vec<String>>;
}

/// Runs all behaviours of a topic on one adapter.
pub async fn topic_contract(room: &impl TopicRoom) {
    hold_together(behaviours![room =>
        each_announcement_arrives,
        a_topic_that_does_not_exist_is_named,
    ])
    .await;
}

async fn each_announcement_arrives(room: &impl TopicRoom) {
    let topic = room.open().await;
    let longest = "x".repeat(100);
    for subject in ["mail: the campaign big is held: paused", &longest] {
        topic.announce(subject, "Since now.\n\nSee `tidegate status`.").await.unwrap();
    }
    let mut told = room.told(&topic, 2).await;
    told.sort();
    assert_eq!(told, ["mail: the campaign big is held: paused", &longest]);
}

async fn a_topic_that_does_not_exist_is_named(room: &impl TopicRoom) {
    let error = room.missing().await.announce("subject", "text").await.unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound, "{error}");
}
