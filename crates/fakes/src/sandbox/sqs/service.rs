//! SQS's calls: read, done on the queues, answered.

mod calls;
mod directory;
mod queue;
mod send;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{MemoryQueues, QueueSettings, Universe};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidegate_delivery::ports::{QueueUrl, Queues as _};

use crate::sandbox::sqs::attribute_names::AttributeNames;
use crate::sandbox::sqs::error::SqsError;

/// Settings of the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SqsSandboxConfig {
    /// Whether a queue is created at its first use; otherwise such a call is refused, as SQS does.
    pub create: bool,
    /// Settings of new queues.
    pub queues: QueueSettings,
}

/// All operations, as indices into the counters.
const OPERATIONS: [&str; 16] = [
    "ReceiveMessage",
    "SendMessage",
    "SendMessageBatch",
    "DeleteMessage",
    "DeleteMessageBatch",
    "ChangeMessageVisibility",
    "ChangeMessageVisibilityBatch",
    "GetQueueAttributes",
    "GetQueueUrl",
    "CreateQueue",
    "DeleteQueue",
    "ListQueues",
    "ListQueueTags",
    "TagQueue",
    "UntagQueue",
    // Every other one.
    "",
];

/// Counters of calls, and the depth of each queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqsStats {
    /// Calls by operation, refused ones too; those of an unknown operation under "".
    pub calls: BTreeMap<String, u64>,
    /// Depth of each queue, by name.
    pub queues: BTreeMap<String, QueueMessages>,
}

/// Number of messages on a queue, exact where SQS's are approximate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueMessages {
    /// Messages that can be received now.
    pub visible: u64,
    /// Received, and neither deleted nor visible again.
    pub in_flight: u64,
    /// Sent with a delay that has not passed.
    pub delayed: u64,
}

/// The queues, and who answers for them.
pub(crate) struct Service {
    queues: MemoryQueues,
    /// The queues there are, by name.
    made: Mutex<BTreeMap<String, (QueueUrl, QueueSettings)>>,
    config: SqsSandboxConfig,
    /// The endpoint, with which queue URLs begin.
    url: String,
    attribute_names: AttributeNames,
    counts: [AtomicU64; OPERATIONS.len()],
}

impl Service {
    pub(crate) fn new(universe: Universe, config: SqsSandboxConfig, url: String) -> Self {
        // Message ids must differ from those of earlier runs, because identities are derived from them.
        let queues = MemoryQueues::new(universe, universe.now().as_nanos());
        Self {
            queues,
            made: Mutex::default(),
            config,
            url,
            attribute_names: AttributeNames::default(),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The answer to one call, in JSON.
    pub(crate) async fn call(&self, operation: &str, body: &[u8]) -> Result<Vec<u8>, SqsError> {
        let index = OPERATIONS.iter().position(|known| *known == operation);
        self.counts[index.unwrap_or(OPERATIONS.len() - 1)].fetch_add(1, Ordering::Relaxed);
        match operation {
            "ReceiveMessage" => answer(&self.receive(read(body)?).await?),
            "SendMessage" => answer(&self.send(read(body)?).await?),
            "SendMessageBatch" => answer(&self.send_batch(read(body)?).await?),
            "DeleteMessage" => answer(&self.delete(read(body)?).await?),
            "DeleteMessageBatch" => answer(&self.delete_batch(read(body)?).await?),
            "ChangeMessageVisibility" => answer(&self.set_visibility(read(body)?).await?),
            "ChangeMessageVisibilityBatch" => {
                answer(&self.set_visibility_batch(read(body)?).await?)
            }
            "GetQueueAttributes" => answer(&self.attributes(read(body)?).await?),
            "GetQueueUrl" => answer(&self.url_of(&read(body)?)?),
            "CreateQueue" => answer(&self.create_queue(&read(body)?)?),
            "DeleteQueue" => answer(&self.delete_queue(&read(body)?)?),
            "ListQueues" => answer(&self.list(&read(body)?)),
            "ListQueueTags" => answer(&self.tags(read(body)?).await?),
            "TagQueue" => answer(&self.tag(&read(body)?)?),
            "UntagQueue" => answer(&self.untag(&read(body)?)?),
            other => {
                let said = format!("The action `{other}` is not valid for this endpoint.");
                Err(SqsError::new("InvalidAction", said))
            }
        }
    }

    pub(crate) async fn stats(&self) -> SqsStats {
        let counted = OPERATIONS.iter().zip(&self.counts);
        let calls =
            counted.map(|(name, count)| ((*name).to_owned(), count.load(Ordering::Relaxed)));
        let mut stats = SqsStats {
            calls: calls.filter(|(_, count)| *count > 0).collect(),
            ..SqsStats::default()
        };
        for url in self.queues.urls() {
            if let Ok(depth) = self.queues.depth(&url).await {
                let tidegate_delivery::ports::QueueDepth { visible, in_flight, delayed } = depth;
                let depth = QueueMessages { visible, in_flight, delayed };
                stats.queues.insert(url.as_str().to_owned(), depth);
            }
        }
        stats
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, SqsError> {
    // SDKs may send an empty body for a request without members.
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| SqsError::new("SerializationException", error))
}

fn answer<T: Serialize>(answer: &T) -> Result<Vec<u8>, SqsError> {
    serde_json::to_vec(answer).map_err(|error| SqsError::new("InternalFailure", error))
}
