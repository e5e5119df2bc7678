use std::time::Duration;

use tidegate_delivery::ports::{
    Entry, EntryError, FailureKind, Outgoing, PortError, QueueDepth, QueueUrl, Queues, Received,
};

use super::plan::CallFaults;
use super::{Faulty, Operation, Redelivery, failed};

impl<Q: Queues> Faulty<Q> {
    fn decide(&self, operation: Operation, queue: &QueueUrl) -> CallFaults<FailureKind> {
        let decision = self.plan.decide(operation, queue.as_str());
        if decision.before.is_some() {
            self.unseen_calls.with(|calls| *calls += 1);
        }
        decision
    }

    /// Removes and returns at most `max` redeliveries of `queue` that are due.
    fn due_redeliveries(&self, queue: &QueueUrl, max: usize) -> Vec<Received> {
        let now = self.plan.universe().now();
        self.redeliveries.with(|redeliveries| {
            let mut due = Vec::new();
            redeliveries.retain(|redelivery| {
                let is_due =
                    redelivery.queue == *queue && redelivery.from <= now && due.len() < max;
                if is_due {
                    let receive_count = redelivery.message.receive_count + 1;
                    due.push(Received { receive_count, ..redelivery.message.clone() });
                }
                !is_due
            });
            due
        })
    }

    async fn receive_with_redeliveries(
        &self,
        queue: &QueueUrl,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Received>, PortError> {
        let mut received = self.due_redeliveries(queue, max);
        if received.is_empty() || received.len() < max {
            let wait = if received.is_empty() { wait } else { Duration::ZERO };
            received.extend(self.inner.receive(queue, max - received.len(), wait).await?);
        }
        Ok(received)
    }

    /// Runs a batch in which single entries may fail; `act` gets the entries that are not refused.
    async fn batch<T: Clone>(
        &self,
        operation: Operation,
        queue: &QueueUrl,
        entries: &[T],
        act: impl AsyncFnOnce(&[T]) -> Result<Vec<Entry>, PortError>,
    ) -> Result<Vec<Entry>, PortError> {
        let decision = self.decide(operation, queue);
        let refused = self.plan.pick(entries.len(), decision.refuse_entries);
        let lost = self.plan.pick(entries.len(), decision.lose_entries);
        let passed: Vec<T> =
            entries.iter().zip(&refused).filter(|(_, r)| !**r).map(|(e, _)| e.clone()).collect();
        let acted = async {
            // If every entry is refused, no call is left to make. A batch that the caller sends
            // empty is passed on: SQS refuses it.
            if passed.is_empty() && !entries.is_empty() {
                Ok(Vec::new())
            } else {
                act(&passed).await
            }
        };
        let done = self.plan.run(decision, acted, failed(operation, queue.as_str())).await?;
        let mut done = done.into_iter();
        let answers = refused.into_iter().zip(lost).map(|(refused, lost)| {
            let answer = if refused { None } else { done.next() };
            answer.filter(|_| !lost).unwrap_or_else(|| Err(internal_error()))
        });
        Ok(answers.collect())
    }
}

fn internal_error() -> EntryError {
    let message = "The request processing has failed because of an unknown error.";
    EntryError { code: "InternalError".to_owned(), message: message.to_owned() }
}

impl<Q: Queues> Queues for Faulty<Q> {
    async fn receive(
        &self,
        queue: &QueueUrl,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Received>, PortError> {
        let decision = self.decide(Operation::Receive, queue);
        let (nothing, redelivered_at) = (decision.nothing, decision.duplicate_at(&self.plan));
        let act = async {
            if nothing {
                Ok(Vec::new())
            } else {
                self.receive_with_redeliveries(queue, max, wait).await
            }
        };
        let failed = failed(Operation::Receive, queue.as_str());
        let received = self.plan.run(decision, act, failed).await?;
        if let Some(from) = redelivered_at.filter(|_| !queue.is_fifo()) {
            let redelivery = |message: &Received| {
                let (queue, message) = (queue.clone(), message.clone());
                Redelivery { queue, from, message }
            };
            self.redeliveries
                .with(|redeliveries| redeliveries.extend(received.iter().map(redelivery)));
        }
        Ok(received)
    }

    async fn send(&self, queue: &QueueUrl, messages: &[Outgoing]) -> Result<Vec<Entry>, PortError> {
        self.batch(Operation::Send, queue, messages, async |messages| {
            self.inner.send(queue, messages).await
        })
        .await
    }

    async fn delete(&self, queue: &QueueUrl, receipts: &[String]) -> Result<Vec<Entry>, PortError> {
        self.batch(Operation::Delete, queue, receipts, async |receipts| {
            self.inner.delete(queue, receipts).await
        })
        .await
    }

    async fn set_visibility(
        &self,
        queue: &QueueUrl,
        receipts: &[String],
        after: Duration,
    ) -> Result<Vec<Entry>, PortError> {
        self.batch(Operation::SetVisibility, queue, receipts, async |receipts| {
            self.inner.set_visibility(queue, receipts, after).await
        })
        .await
    }

    async fn depth(&self, queue: &QueueUrl) -> Result<QueueDepth, PortError> {
        let decision = self.decide(Operation::Depth, queue);
        let failed = failed(Operation::Depth, queue.as_str());
        self.plan.run(decision, self.inner.depth(queue), failed).await
    }

    fn calls(&self) -> u64 {
        self.inner.calls() + self.unseen_calls.with(|calls| *calls)
    }
}
