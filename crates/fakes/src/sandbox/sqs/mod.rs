//! An Amazon SQS endpoint in memory, for benchmarks and tests: it answers in a fraction of a
//! millisecond however deep its queues are, so that a benchmark does not measure the fake.
//!
//! It speaks SQS's JSON protocol as the SDKs do, over [`MemoryQueues`]: visibility,
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
//! | `ReceiveMessage` | short polls find what is there, unless [`QueueSettings`] says otherwise; gives the system attributes `SentTimestamp` and `ApproximateReceiveCount`; `ReceiveRequestAttemptId` is ignored |
//! | `DeleteMessage`, `DeleteMessageBatch` | |
//! | `ChangeMessageVisibility`, `ChangeMessageVisibilityBatch` | |
//! | `GetQueueAttributes` | exact numbers of messages, unless [`QueueSettings`] lets them lag, timeout, size, ARN and kind |
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

mod wire;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_core::Timestamp;
use tidegate_delivery::ports::{
    BATCH, BATCH_BYTES, Directory as _, EntryError, FailureKind, Fifo, Outgoing, PortError,
    QueueDepth, QueueUrl, Queues as _, Received,
};
use tokio_util::sync::CancellationToken;

use crate::sandbox::listener::{ListenError, Listener};
use crate::sandbox::server::{Sandbox, next_request_id, steady_clock, with_request_id};
use crate::shared::SharedState;
use crate::{MemoryQueues, QueueSettings, Universe};
use wire::{
    AttributeIn, BatchRequest, DeleteEntry, EntryRequest, ListRequest, QueueRequest, QueueSpec,
    ReceiveRequest, SendEntry, VisibilityEntry,
};

/// The account number in queue URLs and ARNs.
const ACCOUNT: &str = "000000000000";
const LONGEST_NAME: usize = 80;
/// Queues in a list that does not say how many it wants.
const QUEUES_LISTED: usize = 1_000;
/// The most attribute names that are kept: more than any program has.
const MOST_ATTRIBUTE_NAMES: usize = 1_000;
/// A batch of 1 MiB whose every byte is written as six (`\u0001`), and more.
const MOST_BYTES: usize = 8 << 20;
const TARGET: &str = "x-amz-target";
const PREFIX: &str = "AmazonSQS.";
const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");
/// The error's code in the older protocol: what some SDKs show.
const QUERY_ERROR: HeaderName = HeaderName::from_static("x-amzn-query-error");

/// Settings of the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SqsSandboxConfig {
    /// Whether a queue is created at its first use; otherwise such a call is refused, as SQS does.
    pub create: bool,
    /// Settings of new queues.
    pub queues: QueueSettings,
}

/// Counters of calls, and the depth of each queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SqsStats {
    /// Calls by operation, refused and unknown ones too.
    pub calls: BTreeMap<String, u64>,
    /// Number of messages on each queue, by name; exact where SQS's are approximate.
    pub queues: BTreeMap<String, QueueDepth>,
}

/// State that all requests and the handle share.
pub struct SqsState {
    queues: MemoryQueues,
    config: SqsSandboxConfig,
    /// The endpoint, with which queue URLs begin.
    url: String,
    /// Names that live as long as the program, as the `Queues` port wants them.
    attribute_names: SharedState<HashSet<&'static str>>,
    calls: SharedState<BTreeMap<String, u64>>,
    stop: CancellationToken,
}

/// The SQS endpoint.
pub type SqsSandbox = Sandbox<SqsState>;

impl Sandbox<SqsState> {
    /// Binds `addr` (port 0 takes a free one) and serves from the current tokio runtime until
    /// [`Sandbox::shutdown`], or until the handle is dropped.
    ///
    /// # Errors
    /// [`ListenError`] where the address cannot be bound.
    pub async fn start(config: SqsSandboxConfig, addr: SocketAddr) -> Result<Self, ListenError> {
        Ok(Self::start_on(config, Listener::bind(addr).await?))
    }

    /// Like [`Sandbox::start`], on a listener of the caller's.
    pub fn start_on(config: SqsSandboxConfig, listener: Listener) -> Self {
        let now_ns = steady_clock()();
        let state = |url: &str, stop| SqsState {
            // Message ids must differ from those of earlier runs, because identities are derived from them.
            queues: MemoryQueues::new(Universe::starting_at(Timestamp::from_nanos(now_ns)), now_ns),
            config,
            url: url.to_owned(),
            attribute_names: SharedState::default(),
            calls: SharedState::default(),
            stop,
        };
        Self::serve(listener, state, router)
    }

    /// Counters of calls, and the depth of each queue.
    pub async fn stats(&self) -> SqsStats {
        self.state.stats().await
    }
}

fn router(state: Arc<SqsState>) -> Router {
    Router::new()
        .route("/_sandbox/stats", get(stats))
        // SDKs call the endpoint itself or the queue's URL.
        .fallback(post(call))
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(state)
}

async fn stats(State(state): State<Arc<SqsState>>) -> Json<SqsStats> {
    Json(state.stats().await)
}

async fn call(State(state): State<Arc<SqsState>>, headers: HeaderMap, body: Bytes) -> Response {
    let target = headers.get(TARGET).and_then(|target| target.to_str().ok());
    let operation = target.and_then(|target| target.strip_prefix(PREFIX)).unwrap_or_default();
    // A long poll gives way when the sandbox stops; what it would have received is not lost.
    let answer = tokio::select! {
        biased;
        answer = state.call(operation, &body) => answer,
        () = state.stop.cancelled() => Err(refused("ServiceUnavailable", "the sandbox stops")),
    };
    let mut response = match answer {
        Ok(answer) => answer.to_string().into_response(),
        Err(error) => refusal(operation, &error),
    };
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    with_request_id(response, &next_request_id())
}

/// A refused call: the error's code is the older protocol's, which the newer one repeats in a header.
fn refusal(operation: &str, error: &EntryError) -> Response {
    tracing::info!(operation, code = error.code, reason = error.message, "refused");
    let shape = match &*error.code {
        "AWS.SimpleQueueService.NonExistentQueue" => "QueueDoesNotExist",
        code => code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code),
    };
    let body = json!({ "__type": format!("com.amazonaws.sqs#{shape}"), "message": error.message });
    let mut response = (StatusCode::BAD_REQUEST, body.to_string()).into_response();
    if let Ok(code) = HeaderValue::from_str(&format!("{};Sender", error.code)) {
        response.headers_mut().insert(QUERY_ERROR, code);
    }
    response
}

/// The entries of a call: the only one, or those of a batch with its ids.
struct EntryCall<T> {
    queue: QueueUrl,
    ids: Option<Vec<String>>,
    entries: Vec<T>,
}

impl SqsState {
    async fn stats(&self) -> SqsStats {
        let calls = self.calls.with(|calls| calls.clone());
        let mut stats = SqsStats { calls, queues: BTreeMap::new() };
        for url in self.queues.urls() {
            if let Ok(depth) = self.queues.depth(&url).await {
                stats.queues.insert(url.as_str().to_owned(), depth);
            }
        }
        stats
    }

    /// The answer to one call.
    async fn call(&self, operation: &str, body: &[u8]) -> Result<Value, EntryError> {
        self.calls.with(|calls| *calls.entry(operation.to_owned()).or_default() += 1);
        match operation {
            "ReceiveMessage" => self.receive(read(body)?).await,
            "SendMessage" | "SendMessageBatch" => self.send(self.entries(operation, body)?).await,
            "DeleteMessage" | "DeleteMessageBatch" => {
                self.delete(self.entries(operation, body)?).await
            }
            "ChangeMessageVisibility" | "ChangeMessageVisibilityBatch" => {
                self.set_visibility(self.entries(operation, body)?).await
            }
            "GetQueueUrl" => {
                let asked: QueueSpec = read(body)?;
                self.queue(&asked.queue_name).map(|queue| self.url_answer(&queue))
            }
            "CreateQueue" => self.create_queue(&read(body)?),
            "ListQueues" => Ok(self.list(&read(body)?)),
            "GetQueueAttributes" | "DeleteQueue" | "ListQueueTags" | "TagQueue" | "UntagQueue" => {
                let asked: QueueRequest = read(body)?;
                let queue = self.queue(&asked.queue_url)?;
                match operation {
                    "GetQueueAttributes" => return self.attributes(&queue, &asked).await,
                    "ListQueueTags" => {
                        let tags = self.queues.tags(&queue).await.map_err(of_call)?;
                        return Ok(json!({ "Tags": tags }));
                    }
                    "DeleteQueue" => self.queues.remove(&queue),
                    "TagQueue" => self.tag(&queue, &asked.tags),
                    _ => asked.tag_keys.iter().for_each(|key| self.queues.tag(&queue, key, None)),
                }
                Ok(json!({}))
            }
            other => {
                let said = format!("The action `{other}` is not valid for this endpoint.");
                Err(refused("InvalidAction", said))
            }
        }
    }

    fn entries<T: DeserializeOwned>(
        &self,
        operation: &str,
        body: &[u8],
    ) -> Result<EntryCall<T>, EntryError> {
        if !operation.ends_with("Batch") {
            let asked: EntryRequest<T> = read(body)?;
            let said = "The request must contain the parameter QueueUrl.";
            let missing = || refused("MissingParameter", said);
            let queue = self.queue(&asked.queue_url.ok_or_else(missing)?)?;
            return Ok(EntryCall { queue, ids: None, entries: vec![asked.entry] });
        }
        let asked: BatchRequest<T> = read(body)?;
        let queue = self.queue(&asked.queue_url)?;
        let (ids, entries): (Vec<_>, Vec<_>) =
            asked.entries.into_iter().map(|entry| (entry.id, entry.entry)).unzip();
        check_ids(&ids)?;
        Ok(EntryCall { queue, ids: Some(ids), entries })
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Value, EntryError> {
        let queue = self.queue(&request.queue_url)?;
        let max = request.max_number_of_messages.unwrap_or(1);
        let wait = Duration::from_secs(request.wait_time_seconds);
        let received = self.queues.receive(&queue, max, wait).await.map_err(of_call)?;
        if let Some(seconds) = request.visibility_timeout.filter(|_| !received.is_empty()) {
            let receipts: Vec<_> = received.iter().map(|m| m.receipt.clone()).collect();
            let after = Duration::from_secs(seconds);
            let set = self.queues.set_visibility(&queue, &receipts, after).await;
            set.map_err(of_call)?.into_iter().collect::<Result<(), _>>()?;
        }
        let messages = received.into_iter().map(|received| message(&request, received));
        Ok(json!({ "Messages": messages.collect::<Value>() }))
    }

    async fn delete(&self, asked: EntryCall<DeleteEntry>) -> Result<Value, EntryError> {
        let receipts: Vec<_> = asked.entries.into_iter().map(|it| it.receipt_handle).collect();
        let deleted = self.queues.delete(&asked.queue, &receipts).await.map_err(of_call)?;
        answers(asked.ids, deleted.into_iter().map(|entry| entry.map(|()| json!({}))))
    }

    /// One by one: on the wire each entry has a time of its own.
    async fn set_visibility(&self, asked: EntryCall<VisibilityEntry>) -> Result<Value, EntryError> {
        let mut changed = Vec::with_capacity(asked.entries.len());
        for entry in asked.entries {
            let after = Duration::from_secs(entry.visibility_timeout);
            let receipt = [entry.receipt_handle];
            let set = self.queues.set_visibility(&asked.queue, &receipt, after).await;
            changed.extend(set.map_err(of_call)?);
        }
        answers(asked.ids, changed.into_iter().map(|entry| entry.map(|()| json!({}))))
    }

    /// Puts on a queue what can be put there, and tells of each entry what became of it.
    async fn send(&self, asked: EntryCall<SendEntry>) -> Result<Value, EntryError> {
        let queue = &asked.queue;
        let mut good = Vec::with_capacity(asked.entries.len());
        let mut digests = Vec::with_capacity(asked.entries.len());
        for entry in asked.entries {
            digests.push(self.outgoing(entry, queue.is_fifo()).map(|message| {
                let attributes: BTreeMap<_, _> =
                    message.attributes.iter().map(|(name, value)| (*name, value)).collect();
                let digests = without_absent(json!({
                    "MD5OfMessageBody": wire::of_body(&message.body),
                    "MD5OfMessageAttributes": wire::of_attributes(&attributes),
                }));
                good.push(message);
                digests
            }));
        }
        let sent = if good.is_empty() {
            vec![]
        } else {
            self.queues.send_for_ids(queue, &good).await.map_err(of_call)?
        };
        let mut sent = sent.into_iter();
        let sent = digests.into_iter().map(|entry| {
            let mut answer = entry?;
            answer["MessageId"] = sent.next().unwrap_or_else(|| Err(unanswered()))?.into();
            Ok(answer)
        });
        answers(asked.ids, sent)
    }

    fn outgoing(&self, entry: SendEntry, fifo: bool) -> Result<Outgoing, EntryError> {
        let attributes = entry.message_attributes.into_iter();
        let attributes: Result<_, EntryError> =
            attributes.map(|(name, value)| self.attribute(&name, value)).collect();
        Ok(Outgoing {
            body: entry.message_body.into(),
            attributes: attributes?,
            delay: Duration::from_secs(entry.delay_seconds),
            fifo: fifo_ids(fifo, entry.message_group_id, entry.message_deduplication_id)?,
        })
    }

    fn attribute(&self, name: &str, of: AttributeIn) -> Result<(&'static str, String), EntryError> {
        let data_type = &of.data_type;
        if data_type != "String" {
            let said = format!("{name}: {data_type} is not `String`, the only type there is here");
            return Err(refused("AWS.SimpleQueueService.UnsupportedOperation", said));
        }
        let too_many = || refused("OverLimit", "more attribute names than this endpoint remembers");
        let name = self.attribute_names.with(|names| kept(names, name)).ok_or_else(too_many)?;
        Ok((name, of.string_value.unwrap_or_default()))
    }

    /// The queue that a URL's last segment names; made now, if that is asked for.
    fn queue(&self, url: &str) -> Result<QueueUrl, EntryError> {
        let name = url.rsplit('/').next().unwrap_or(url);
        let queue = QueueUrl::new(name);
        match self.queues.settings(&queue) {
            Some(_) => Ok(queue),
            None if self.config.create => self.make(name, self.config.queues),
            None => Err(no_queue()),
        }
    }

    /// Makes a queue; one that is there already stays as it is.
    fn make(&self, name: &str, settings: QueueSettings) -> Result<QueueUrl, EntryError> {
        let stem = name.strip_suffix(".fifo").unwrap_or(name);
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if stem.is_empty() || name.len() > LONGEST_NAME || !stem.chars().all(legal) {
            let reason = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length";
            let said =
                format!("Value {name} for parameter QueueName is invalid. Reason: {reason}.");
            return Err(refused("InvalidParameterValue", said));
        }
        let queue = QueueUrl::new(name);
        if self.queues.create_missing(&queue, settings) {
            tracing::info!(queue = name, "made");
        }
        Ok(queue)
    }

    fn create_queue(&self, request: &QueueSpec) -> Result<Value, EntryError> {
        let mut settings = self.config.queues;
        let attributes = &request.attributes;
        if let Some(seconds) = number(attributes, "VisibilityTimeout", 0, 43_200)? {
            settings.visibility = Duration::from_secs(seconds);
        }
        if let Some(bytes) = number(attributes, "MaximumMessageSize", 1_024, BATCH_BYTES as u64)? {
            settings.max_message_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        let queue = self.make(&request.queue_name, settings)?;
        self.tag(&queue, &request.tags);
        Ok(self.url_answer(&queue))
    }

    fn tag(&self, queue: &QueueUrl, tags: &BTreeMap<String, String>) {
        for (name, value) in tags {
            self.queues.tag(queue, name, Some(value));
        }
    }

    fn url_answer(&self, queue: &QueueUrl) -> Value {
        json!({ "QueueUrl": self.url_named(queue.as_str()) })
    }

    fn url_named(&self, name: &str) -> String {
        format!("{}/{ACCOUNT}/{name}", self.url)
    }

    /// Queues by the beginning of their names; the next page begins after the token.
    fn list(&self, request: &ListRequest) -> Value {
        let mut urls = self.queues.urls();
        urls.retain(|url| {
            let after = request.next_token.as_deref().is_none_or(|token| url.as_str() > token);
            after && url.as_str().starts_with(&request.queue_name_prefix)
        });
        let page = request.max_results.unwrap_or(QUEUES_LISTED);
        let more = urls.len() > page;
        urls.truncate(page);
        let next = urls.last().filter(|_| more).map(QueueUrl::as_str);
        let listed: Vec<_> = urls.iter().map(|url| self.url_named(url.as_str())).collect();
        without_absent(json!({ "QueueUrls": listed, "NextToken": next }))
    }

    async fn attributes(&self, queue: &QueueUrl, want: &QueueRequest) -> Result<Value, EntryError> {
        let settings = self.queues.settings(queue).ok_or_else(no_queue)?;
        let depth = self.queues.depth(queue).await.map_err(of_call)?;
        let mut attributes = BTreeMap::from([
            ("ApproximateNumberOfMessages", depth.visible.to_string()),
            ("ApproximateNumberOfMessagesNotVisible", depth.in_flight.to_string()),
            ("ApproximateNumberOfMessagesDelayed", depth.delayed.to_string()),
            ("VisibilityTimeout", settings.visibility.as_secs().to_string()),
            ("MaximumMessageSize", settings.max_message_bytes.to_string()),
            ("QueueArn", format!("arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}")),
        ]);
        if queue.is_fifo() {
            attributes.insert("FifoQueue", "true".to_owned());
        }
        let asked = |name: &str| want.attribute_names.iter().any(|n| n == name || n == "All");
        attributes.retain(|name, _| asked(name));
        Ok(json!({ "Attributes": attributes }))
    }
}

/// An error by the code of the older protocol.
fn refused(code: &str, message: impl Display) -> EntryError {
    EntryError { code: code.to_owned(), message: message.to_string() }
}

fn no_queue() -> EntryError {
    let said = "The specified queue does not exist.";
    refused("AWS.SimpleQueueService.NonExistentQueue", said)
}

fn unanswered() -> EntryError {
    refused("InternalFailure", "the queue gave no answer")
}

/// The error of a call that the queues refuse as a whole.
fn of_call(error: PortError) -> EntryError {
    match error.kind {
        FailureKind::NotFound => no_queue(),
        // The queues give no words with what refuses a whole call.
        FailureKind::Refused(code) => refused(&code, format!("{} is refused.", error.operation)),
        kind => refused("InternalFailure", kind),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, EntryError> {
    // SDKs may send an empty body for a request without members.
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| refused("SerializationException", error))
}

/// The answer to a call on a batch of these ids, or on the only entry.
fn answers(
    ids: Option<Vec<String>>,
    mut answers: impl Iterator<Item = Result<Value, EntryError>>,
) -> Result<Value, EntryError> {
    let Some(ids) = ids else { return answers.next().unwrap_or_else(|| Err(unanswered())) };
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for (id, answer) in ids.into_iter().zip(answers) {
        match answer {
            Ok(mut answer) => {
                answer["Id"] = id.into();
                successful.push(answer);
            }
            Err(EntryError { code, message }) => failed.push(json!({
                "Id": id, "SenderFault": code != "InternalError", "Code": code, "Message": message,
            })),
        }
    }
    Ok(json!({ "Successful": successful, "Failed": failed }))
}

/// A batch has 1 to 10 entries, with different ids.
fn check_ids(ids: &[String]) -> Result<(), EntryError> {
    let refused =
        |code: &str, said: String| Err(refused(&format!("AWS.SimpleQueueService.{code}"), said));
    if ids.is_empty() {
        let said = "There should be at least one entry in the request.";
        return refused("EmptyBatchRequest", said.to_owned());
    }
    if ids.len() > BATCH {
        let more = ids.len();
        let said = format!("Maximum number of entries per request are 10. You have sent {more}.");
        return refused("TooManyEntriesInBatchRequest", said);
    }
    let mut seen = HashSet::new();
    match ids.iter().find(|id| !seen.insert(*id)) {
        Some(twice) => refused("BatchEntryIdsNotDistinct", format!("Id {twice} repeated.")),
        None => Ok(()),
    }
}

fn message(request: &ReceiveRequest, received: Received) -> Value {
    let system = |name: &str| {
        let mut asked =
            request.message_system_attribute_names.iter().chain(&request.attribute_names);
        asked.any(|asked| asked == name || asked == "All")
    };
    let mut attributes = BTreeMap::from([
        ("SentTimestamp", received.sent_at_millis.to_string()),
        ("ApproximateReceiveCount", received.receive_count.to_string()),
    ]);
    attributes.retain(|name, _| system(name));
    let mut own = received.attributes;
    own.retain(|name, _| request.message_attribute_names.iter().any(|asked| selects(asked, name)));
    let md5_of_attributes = wire::of_attributes(&own);
    let out = |(name, value)| (name, json!({ "DataType": "String", "StringValue": value }));
    without_absent(json!({
        "MessageId": received.message_id,
        "ReceiptHandle": received.receipt,
        "MD5OfBody": wire::of_body(&received.body),
        "Body": *received.body,
        "Attributes": (!attributes.is_empty()).then_some(attributes),
        "MD5OfMessageAttributes": md5_of_attributes,
        "MessageAttributes":
            (!own.is_empty()).then(|| own.into_iter().map(out).collect::<BTreeMap<_, _>>()),
    }))
}

/// As SQS, which leaves out what is not there or what nobody asked for.
fn without_absent(mut answer: Value) -> Value {
    if let Some(members) = answer.as_object_mut() {
        members.retain(|_, member| !member.is_null());
    }
    answer
}

/// Whether a request's pattern selects an attribute: by name, by prefix (`x.*`), or `All`.
fn selects(asked: &str, name: &str) -> bool {
    asked == name
        || asked == "All"
        || asked.strip_suffix(".*").is_some_and(|start| name.starts_with(start))
}

/// Group and deduplication id, as far as the queues are to judge them.
fn fifo_ids(
    fifo: bool,
    group: Option<String>,
    deduplication: Option<String>,
) -> Result<Option<Fifo>, EntryError> {
    match (fifo, group, deduplication) {
        // On a standard queue a group only divides a backlog fairly.
        (true, None, _) | (false, _, None) => Ok(None),
        (_, group, Some(deduplication)) => {
            Ok(Some(Fifo { group: group.unwrap_or_default(), deduplication }))
        }
        (true, Some(_), None) => Err(refused(
            "InvalidParameterValue",
            "The queue should either have ContentBasedDeduplication enabled or \
             MessageDeduplicationId provided explicitly",
        )),
    }
}

/// A name for ever; none where too many different ones came.
fn kept(names: &mut HashSet<&'static str>, name: &str) -> Option<&'static str> {
    if let Some(known) = names.get(name) {
        return Some(known);
    }
    (names.len() < MOST_ATTRIBUTE_NAMES).then(|| {
        let kept: &'static str = Box::leak(name.into());
        names.insert(kept);
        kept
    })
}

/// An attribute of a queue that is a number from `least` to `most`.
fn number(
    attributes: &BTreeMap<String, String>,
    name: &str,
    least: u64,
    most: u64,
) -> Result<Option<u64>, EntryError> {
    let Some(value) = attributes.get(name) else { return Ok(None) };
    let read = value.parse().ok().filter(|number| (least..=most).contains(number));
    let wrong = || {
        let said = format!("{name}: {value} is not a whole number from {least} to {most}");
        refused("InvalidAttributeValue", said)
    };
    read.map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_there_is_not_made_again() {
        let queues = MemoryQueues::new(Universe::starting_at(Timestamp::from_nanos(0)), 1);
        let queue = QueueUrl::new("spring");
        assert!(queues.create_missing(&queue, QueueSettings::default()));
        assert!(!queues.create_missing(&queue, QueueSettings::default()));
    }

    #[tokio::test]
    async fn no_answer_has_a_member_that_is_absent() {
        let config = SqsSandboxConfig { create: true, ..SqsSandboxConfig::default() };
        let address = "127.0.0.1:0".parse().unwrap();
        let sandbox = SqsSandbox::start(config, address).await.unwrap();
        let asked = json!({ "QueueUrl": "spring", "MessageBody": "hello" }).to_string();
        for operation in ["SendMessage", "ReceiveMessage", "ListQueues"] {
            let answer = sandbox.state.call(operation, asked.as_bytes()).await.unwrap();
            assert!(!answer.to_string().contains("null"), "{operation}: {answer}");
        }
        sandbox.shutdown().await;
    }

    #[test]
    fn a_name_is_kept_once_and_endless_new_ones_are_refused() {
        let mut names = HashSet::new();
        let first = kept(&mut names, "campaign").unwrap();
        assert!(std::ptr::eq(first, kept(&mut names, &String::from("campaign")).unwrap()));
        let most = MOST_ATTRIBUTE_NAMES;
        let taken = (0..2 * most).filter(|n| kept(&mut names, &n.to_string()).is_some()).count();
        assert_eq!((taken, kept(&mut names, "campaign")), (most - 1, Some("campaign")));
    }
}
