//! The contract of the `Feedback` port.

use std::time::Duration;

use tidegate_delivery::ports::{FailureKind, Feedback, FeedbackMessage, QueueUrl};

use super::{behaviours, hold_in_turn};

/// Gives the contract fresh feedback queues of one adapter.
pub trait FeedbackRoom {
    type Feedback: Feedback;

    /// The feedback of a new queue with a visibility timeout of a second, and its URL.
    fn open(&self) -> impl Future<Output = (Self::Feedback, QueueUrl)>;

    /// The feedback of a queue that may not be there.
    fn missing(&self, url: &QueueUrl) -> Self::Feedback;

    /// Puts a message on the queue, as EventBridge does.
    fn report(&self, url: &QueueUrl, body: &str) -> impl Future<Output = ()>;
}

/// Runs all behaviours of the port on one adapter.
pub async fn feedback_contract(room: &impl FeedbackRoom) {
    hold_in_turn(behaviours![room =>
        an_empty_queue_gives_nothing_after_its_wait,
        a_message_is_given_as_it_was_put,
        a_wait_ends_with_the_first_message,
        at_most_ten_are_given_at_once,
        what_is_not_deleted_comes_again_under_its_id,
        what_is_deleted_does_not,
        a_receipt_that_is_none_is_refused_alone,
        a_queue_that_is_not_there_is_an_error,
    ])
    .await;
}

const AT_ONCE: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);
/// A second, and time for a server to notice that it is over.
const PAST_A_SECOND: Duration = Duration::from_millis(1_300);

async fn receive(feedback: &impl Feedback) -> Vec<FeedbackMessage> {
    feedback.receive(AT_ONCE).await.expect("the receive is answered")
}

async fn an_empty_queue_gives_nothing_after_its_wait(room: &impl FeedbackRoom) {
    let (feedback, _) = room.open().await;
    assert_eq!(receive(&feedback).await, []);
    let began = tokio::time::Instant::now();
    assert_eq!(feedback.receive(SECOND).await.unwrap(), []);
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
}

async fn a_message_is_given_as_it_was_put(room: &impl FeedbackRoom) {
    let (feedback, url) = room.open().await;
    let body = r#"{"kind": "bounce", "campaign": "größe", "id": "1"}"#;
    room.report(&url, body).await;
    let received = receive(&feedback).await;
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].body, body);
    assert!(!received[0].message_id.is_empty() && !received[0].receipt.is_empty());
}

async fn a_wait_ends_with_the_first_message(room: &impl FeedbackRoom) {
    let (feedback, url) = room.open().await;
    let began = tokio::time::Instant::now();
    let report = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        room.report(&url, "a").await;
    };
    let (received, ()) = tokio::join!(feedback.receive(SECOND * 10), report);
    assert_eq!(received.unwrap()[0].body, "a");
    assert!(began.elapsed() < SECOND * 5, "{:?}", began.elapsed());
}

async fn at_most_ten_are_given_at_once(room: &impl FeedbackRoom) {
    let (feedback, url) = room.open().await;
    for number in 0..12 {
        room.report(&url, &number.to_string()).await;
    }
    assert_eq!(receive(&feedback).await.len(), 10);
    assert_eq!(receive(&feedback).await.len(), 2);
}

async fn what_is_not_deleted_comes_again_under_its_id(room: &impl FeedbackRoom) {
    let (feedback, url) = room.open().await;
    room.report(&url, "a").await;
    let first = receive(&feedback).await;
    assert_eq!(receive(&feedback).await, []);
    tokio::time::sleep(PAST_A_SECOND).await;
    let second = receive(&feedback).await;
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].message_id, first[0].message_id);
}

async fn what_is_deleted_does_not(room: &impl FeedbackRoom) {
    let (feedback, url) = room.open().await;
    room.report(&url, "a").await;
    room.report(&url, "b").await;
    let received = receive(&feedback).await;
    let receipts: Vec<String> = received.iter().map(|m| m.receipt.clone()).collect();
    assert_eq!(feedback.delete(&receipts).await.unwrap(), [Ok(()), Ok(())]);
    tokio::time::sleep(PAST_A_SECOND).await;
    assert_eq!(receive(&feedback).await, []);
}

async fn a_receipt_that_is_none_is_refused_alone(room: &impl FeedbackRoom) {
    let (feedback, url) = room.open().await;
    room.report(&url, "a").await;
    let receipt = receive(&feedback).await.remove(0).receipt;
    let answers = feedback.delete(&["no receipt".to_owned(), receipt]).await.unwrap();
    assert!(answers[0].is_err() && answers[1].is_ok(), "{answers:?}");
}

async fn a_queue_that_is_not_there_is_an_error(room: &impl FeedbackRoom) {
    let (_, url) = room.open().await;
    let missing = QueueUrl::new(format!("{url}-missing"));
    let feedback = room.missing(&missing);
    let error = feedback.receive(AT_ONCE).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::NotFound);
    assert!(error.to_string().contains(missing.as_str()), "{error}");
}
