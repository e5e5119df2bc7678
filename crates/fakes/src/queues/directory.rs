//! `ListQueues` and `ListQueueTags` in memory.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use tidegate_delivery::ports::{Directory, FailureKind, PortError, QueueUrl};

use super::MemoryQueues;
use crate::faults::Operation;

impl MemoryQueues {
    /// Sets a tag of a queue, or removes it if `value` is `None`. Without such a queue this does
    /// nothing.
    pub fn tag(&self, url: &QueueUrl, name: &str, value: Option<&str>) {
        self.queues.with(|queues| {
            let Some(served) = queues.get_mut(url) else { return };
            match value {
                Some(value) => drop(served.tags.insert(name.to_owned(), value.to_owned())),
                None => drop(served.tags.remove(name)),
            }
        });
    }

    /// One call that lists queues or tags: it has latency and is counted, but touches no message.
    async fn look<R>(
        &self,
        operation: Operation,
        resource: &str,
        act: impl FnOnce() -> Result<R, FailureKind>,
    ) -> Result<R, PortError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let latency = self.latency.with(|latency| *latency);
        let look = latency.around(&self.entropy, async { act() });
        self.faults.call(operation, resource, look).await
    }
}

impl Directory for MemoryQueues {
    async fn queues(&self, prefix: &str) -> Result<Vec<QueueUrl>, PortError> {
        let mut urls = self.look(Operation::ListQueues, prefix, || Ok(self.urls())).await?;
        urls.retain(|url| url.name().starts_with(prefix));
        Ok(urls)
    }

    async fn tags(&self, queue: &QueueUrl) -> Result<BTreeMap<String, String>, PortError> {
        let tags = || {
            let tags = self.queues.with(|queues| queues.get(queue).map(|s| s.tags.clone()));
            tags.ok_or(FailureKind::NotFound)
        };
        self.look(Operation::ListTags, queue.as_str(), tags).await
    }
}
