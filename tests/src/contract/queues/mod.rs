//! The contract of the `Queues` port.

mod basics;
mod fifo;
mod limits;
mod receipts;
mod sqs;

use std::time::Duration;

use tidegate_delivery::ports::{Entry, Fifo, Outgoing, QueueUrl, Queues, Received};

use super::{Behaviour, behaviours, hold_together};

/// Gives the contract fresh queues of one adapter.
pub trait QueueRoom {
    type Queues: Queues;

    fn queues(&self) -> &Self::Queues;

    /// Number of short polls that together ask all of a queue's servers.
    fn short_polls(&self) -> usize {
        1
    }

    /// Makes a new queue with a visibility timeout of 30 s: standard, or FIFO with deduplication by
    /// group.
    fn create(&self, fifo: bool) -> impl Future<Output = QueueUrl>;
}

/// Runs the behaviours that hold on every server.
pub async fn queues_contract(room: &impl QueueRoom) {
    let behaviours = [
        basics::behaviours(room),
        receipts::behaviours(room),
        fifo::behaviours(room),
        limits::behaviours(room),
    ];
    hold_together(behaviours.into_iter().flatten().collect()).await;
}

/// Runs the behaviours that AWS documents for SQS, and that local stand-ins have only in part. It
/// holds for adapters that decide these things themselves, and on SQS.
pub async fn sqs_contract(room: &impl QueueRoom) {
    hold_together(sqs::behaviours(room)).await;
}

const AT_ONCE: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);
/// A second, and time for a server to notice that it is over.
const PAST_A_SECOND: Duration = Duration::from_millis(1_300);

fn message(body: &str) -> Outgoing {
    Outgoing { body: body.into(), attributes: vec![], delay: AT_ONCE, fifo: None }
}

fn in_group(body: &str, group: &str, deduplication: &str) -> Outgoing {
    let ids = Fifo { group: group.to_owned(), deduplication: deduplication.to_owned() };
    Outgoing { fifo: Some(ids), ..message(body) }
}

/// A queue, and short ways to what the behaviours do with it.
struct Bench<'a, R> {
    room: &'a R,
    url: QueueUrl,
}

impl<'a, R: QueueRoom> Bench<'a, R> {
    async fn standard(room: &'a R) -> Self {
        Self { room, url: room.create(false).await }
    }

    async fn fifo(room: &'a R) -> Self {
        Self { room, url: room.create(true).await }
    }

    fn queues(&self) -> &'a R::Queues {
        self.room.queues()
    }

    async fn send_batch(&self, messages: &[Outgoing]) -> Vec<Entry> {
        self.queues().send(&self.url, messages).await.expect("the batch is answered")
    }

    async fn send(&self, message: Outgoing) {
        assert_eq!(self.send_batch(&[message]).await, [Ok(())]);
    }

    /// Receives up to `max` messages by short polls that ask all servers.
    async fn receive(&self, max: usize) -> Vec<Received> {
        let mut received = Vec::new();
        for _ in 0..self.room.short_polls() {
            if received.len() < max {
                let more = self.queues().receive(&self.url, max - received.len(), AT_ONCE).await;
                received.extend(more.expect("the receive is answered"));
            }
        }
        received
    }

    /// The bodies of up to ten messages.
    async fn bodies(&self) -> Vec<String> {
        self.receive(10).await.into_iter().map(|message| message.body.to_string()).collect()
    }

    async fn receive_one(&self) -> Received {
        let mut received = self.receive(10).await;
        assert_eq!(received.len(), 1, "{received:?}");
        received.remove(0)
    }

    async fn delete(&self, receipt: &str) -> Entry {
        let receipts = [receipt.to_owned()];
        let answers = self.queues().delete(&self.url, &receipts).await;
        answers.expect("the delete is answered").remove(0)
    }

    async fn show_again(&self, receipt: &str, after: Duration) -> Entry {
        let receipts = [receipt.to_owned()];
        let answers = self.queues().set_visibility(&self.url, &receipts, after).await;
        answers.expect("the change is answered").remove(0)
    }
}
