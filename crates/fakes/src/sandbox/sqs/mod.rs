//! An Amazon SQS endpoint in memory, for benchmarks and tests: it answers in a fraction of a
//! millisecond however deep its queues are, so that a benchmark does not measure the fake.
//!
//! It speaks SQS's JSON protocol as the SDKs do, over [`MemoryQueues`](crate::MemoryQueues): visibility,
//! groups, deduplication, delays, long polls and limits are theirs. Point an SDK at it with
//! `AWS_ENDPOINT_URL_SQS=http://127.0.0.1:4580`; signatures are not checked.
//!
//! The last segment of a URL names the queue, whatever comes before it; a queue is FIFO if its name ends
//! in `.fifo` (deduplicated by group). With [`SqsSandboxConfig::create`] it is made when it is first
//! used: so a stack that was deployed elsewhere can be pointed here, queue URLs and all.
//!
//! | call | what differs from SQS |
//! |---|---|
//! | `SendMessage`, `SendMessageBatch` | attributes are of type `String` only; no content-based deduplication |
//! | `ReceiveMessage` | short polls find what is there, unless [`QueueSettings`](crate::QueueSettings) says otherwise; gives the system attributes `SentTimestamp` and `ApproximateReceiveCount`; `ReceiveRequestAttemptId` is ignored |
//! | `DeleteMessage`, `DeleteMessageBatch` | |
//! | `ChangeMessageVisibility`, `ChangeMessageVisibilityBatch` | |
//! | `GetQueueAttributes` | exact numbers of messages, unless [`QueueSettings`](crate::QueueSettings) lets them lag, timeout, size, ARN and kind |
//! | `GetQueueUrl` | |
//! | `CreateQueue` | heeds `VisibilityTimeout` and `MaximumMessageSize`; an existing queue stays as it is, but for its tags |
//! | `DeleteQueue` | at once; its name may be used again |
//! | `ListQueues`, `ListQueueTags`, `TagQueue`, `UntagQueue` | |
//!
//! `GET /_sandbox/stats` counts the calls by operation and tells how deep each queue is; see
//! [`SqsStats`].
//!
//! ```
//! use tidegate_fakes::sandbox::sqs::{SqsSandbox, SqsSandboxConfig};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let config = SqsSandboxConfig { create: true, ..SqsSandboxConfig::default() };
//! let sandbox = SqsSandbox::start(config, "127.0.0.1:0".parse()?).await?;
//! println!("AWS_ENDPOINT_URL_SQS={}", sandbox.url());
//! assert!(sandbox.stats().await.queues.is_empty());
//! sandbox.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attribute_names;
mod digest;
mod error;
mod http;
mod server;
mod service;
mod wire;

pub use http::SqsState;
pub use server::SqsSandbox;
pub use service::{QueueMessages, SqsSandboxConfig, SqsStats};
