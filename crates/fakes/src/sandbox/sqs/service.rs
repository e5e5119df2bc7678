//! SQS's calls: read, done on the queues, answered.
//!
//! Errors with SQS's codes and messages: a refused call has what a refused entry of a batch has.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tidegate_core::Timestamp;
use tidegate_delivery::ports::{
    BATCH, BATCH_BYTES, Directory as _, EntryError, FailureKind, Fifo, Outgoing, PortError,
    QueueUrl, Queues as _, Received,
};

use super::wire::{
    AttributeIn, AttributeOut, BatchAnswer, BatchRequest, DeleteEntry, EmptyAnswer, ListRequest,
    MessageAnswer, QueueRequest, QueueSpec, ReceiveAnswer, ReceiveRequest, SendAnswer, SendEntry,
    SingleRequest, VisibilityEntry,
};
use super::{SqsSandboxConfig, SqsStats, wire};
use crate::sandbox::server::Stop;
use crate::{MemoryQueues, QueueSettings, Universe};

/// The account number in queue URLs and ARNs.
const ACCOUNT: &str = "000000000000";
const LONGEST_NAME: usize = 80;
/// Queues in a list that does not say how many it wants.
const QUEUES_LISTED: usize = 1_000;
/// The most attribute names that are kept: more than any program has.
const MOST_ATTRIBUTE_NAMES: usize = 1_000;

/// State that all requests and the handle share.
pub struct SqsState {
    queues: MemoryQueues,
    /// The queues there are, by name.
    made: Mutex<BTreeMap<String, QueueSettings>>,
    config: SqsSandboxConfig,
    /// The endpoint, with which queue URLs begin.
    url: String,
    /// Names that live as long as the program, as the `Queues` port wants them.
    attribute_names: Mutex<HashSet<&'static str>>,
    calls: Mutex<BTreeMap<String, u64>>,
    pub(super) stop: Stop,
}

/// The entries of a call: the only one, or those of a batch with its ids.
struct EntryCall<T> {
    queue: QueueUrl,
    ids: Option<Vec<String>>,
    entries: Vec<T>,
}

impl SqsState {
    pub(super) fn new(config: SqsSandboxConfig, url: &str, now_ns: u64, stop: Stop) -> Self {
        let universe = Universe::starting_at(Timestamp::from_nanos(now_ns));
        Self {
            // Message ids must differ from those of earlier runs, because identities are derived from them.
            queues: MemoryQueues::new(universe, now_ns),
            made: Mutex::default(),
            config,
            url: url.to_owned(),
            attribute_names: Mutex::default(),
            calls: Mutex::default(),
            stop,
        }
    }

    /// The answer to one call, in JSON.
    pub(super) async fn call(&self, operation: &str, body: &[u8]) -> Result<Vec<u8>, EntryError> {
        {
            let mut calls = lock(&self.calls);
            if let Some(count) = calls.get_mut(operation) {
                *count += 1;
            } else {
                calls.insert(operation.to_owned(), 1);
            }
        }
        match operation {
            "ReceiveMessage" => self.receive(read(body)?).await,
            "SendMessage" | "SendMessageBatch" => self.send(self.entries(operation, body)?).await,
            "DeleteMessage" | "DeleteMessageBatch" => {
                self.delete(self.entries(operation, body)?).await
            }
            "ChangeMessageVisibility" | "ChangeMessageVisibilityBatch" => {
                self.set_visibility(self.entries(operation, body)?).await
            }
            "GetQueueAttributes" => self.attributes(read(body)?).await,
            "GetQueueUrl" => {
                let asked: QueueSpec = read(body)?;
                self.queue(&asked.queue_name).and_then(|queue| self.url_answer(&queue))
            }
            "CreateQueue" => self.create_queue(&read(body)?),
            "DeleteQueue" => {
                let queue = self.queue_asked(body)?.0;
                lock(&self.made).remove(queue.as_str());
                self.queues.remove(&queue);
                answer(&EmptyAnswer {})
            }
            "ListQueues" => self.list(&read(body)?),
            "ListQueueTags" => {
                let tags = self.queues.tags(&self.queue_asked(body)?.0).await.map_err(of_call)?;
                answer(&json!({ "Tags": tags }))
            }
            "TagQueue" => {
                let (queue, asked) = self.queue_asked(body)?;
                self.tag(&queue, &asked.tags);
                answer(&EmptyAnswer {})
            }
            "UntagQueue" => {
                let (queue, asked) = self.queue_asked(body)?;
                for name in &asked.tag_keys {
                    self.queues.tag(&queue, name, None);
                }
                answer(&EmptyAnswer {})
            }
            other => {
                let said = format!("The action `{other}` is not valid for this endpoint.");
                Err(refused("InvalidAction", said))
            }
        }
    }

    pub(super) async fn stats(&self) -> SqsStats {
        let calls = lock(&self.calls).clone();
        let mut stats = SqsStats { calls, ..SqsStats::default() };
        for url in self.queues.urls() {
            if let Ok(depth) = self.queues.depth(&url).await {
                stats.queues.insert(url.as_str().to_owned(), depth);
            }
        }
        stats
    }

    fn entries<T: DeserializeOwned>(
        &self,
        operation: &str,
        body: &[u8],
    ) -> Result<EntryCall<T>, EntryError> {
        if !operation.ends_with("Batch") {
            let asked: SingleRequest<T> = read(body)?;
            let queue = self.queue(&asked.queue_url)?;
            return Ok(EntryCall { queue, ids: None, entries: vec![asked.entry] });
        }
        let asked: BatchRequest<T> = read(body)?;
        let queue = self.queue(&asked.queue_url)?;
        let (ids, entries): (Vec<_>, Vec<_>) =
            asked.entries.into_iter().map(|entry| (entry.id, entry.entry)).unzip();
        check_ids(&ids)?;
        Ok(EntryCall { queue, ids: Some(ids), entries })
    }

    async fn receive(&self, request: ReceiveRequest) -> Result<Vec<u8>, EntryError> {
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
        let messages = received.into_iter().map(|received| message(&request, received)).collect();
        answer(&ReceiveAnswer { messages })
    }

    async fn delete(&self, asked: EntryCall<DeleteEntry>) -> Result<Vec<u8>, EntryError> {
        let receipts: Vec<_> = asked.entries.into_iter().map(|it| it.receipt_handle).collect();
        let deleted = self.queues.delete(&asked.queue, &receipts).await.map_err(of_call)?;
        done(asked.ids, deleted)
    }

    /// One by one: on the wire each entry has a time of its own.
    async fn set_visibility(
        &self,
        asked: EntryCall<VisibilityEntry>,
    ) -> Result<Vec<u8>, EntryError> {
        let mut changed = Vec::with_capacity(asked.entries.len());
        for entry in asked.entries {
            let after = Duration::from_secs(entry.visibility_timeout);
            let receipt = [entry.receipt_handle];
            let set = self.queues.set_visibility(&asked.queue, &receipt, after).await;
            changed.extend(set.map_err(of_call)?);
        }
        done(asked.ids, changed)
    }

    /// Puts on a queue what can be put there, and tells of each entry what became of it.
    async fn send(&self, asked: EntryCall<SendEntry>) -> Result<Vec<u8>, EntryError> {
        let queue = &asked.queue;
        let mut good = Vec::with_capacity(asked.entries.len());
        let mut answers = Vec::with_capacity(asked.entries.len());
        for entry in asked.entries {
            answers.push(self.outgoing(entry, queue.is_fifo()).map(|message| {
                let attributes: BTreeMap<_, _> =
                    message.attributes.iter().map(|(name, value)| (*name, value)).collect();
                let answer = SendAnswer {
                    message_id: String::new(),
                    md5_of_body: wire::of_body(&message.body),
                    md5_of_attributes: wire::of_attributes(&attributes),
                };
                good.push(message);
                answer
            }));
        }
        let sent = if good.is_empty() {
            vec![]
        } else {
            self.queues.send_for_ids(queue, &good).await.map_err(of_call)?
        };
        let mut sent = sent.into_iter();
        let answers = answers.into_iter().map(|entry| {
            let entry = entry?;
            let message_id = sent.next().unwrap_or_else(|| Err(unanswered()))?;
            Ok(SendAnswer { message_id, ..entry })
        });
        entry_answers(asked.ids, answers.collect())
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

    fn attribute(
        &self,
        name: &str,
        value: AttributeIn,
    ) -> Result<(&'static str, String), EntryError> {
        let data_type = &value.data_type;
        if data_type != "String" {
            let said = format!("{name}: {data_type} is not `String`, the only type there is here");
            return Err(refused("AWS.SimpleQueueService.UnsupportedOperation", said));
        }
        let too_many = || refused("OverLimit", "more attribute names than this endpoint remembers");
        let name = kept(&mut lock(&self.attribute_names), name).ok_or_else(too_many)?;
        Ok((name, value.string_value.unwrap_or_default()))
    }

    /// The queue that a URL's last segment names.
    fn queue(&self, url: &str) -> Result<QueueUrl, EntryError> {
        self.settings(url)?;
        Ok(QueueUrl::new(name_in(url)))
    }

    fn queue_asked(&self, body: &[u8]) -> Result<(QueueUrl, QueueRequest), EntryError> {
        let asked: QueueRequest = read(body)?;
        Ok((self.queue(&asked.queue_url)?, asked))
    }

    fn settings(&self, url: &str) -> Result<QueueSettings, EntryError> {
        let known = lock(&self.made).get(name_in(url)).copied();
        match known {
            Some(known) => Ok(known),
            None if self.config.create => {
                self.make(name_in(url), self.config.queues)?;
                Ok(self.config.queues)
            }
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
        lock(&self.made).entry(name.to_owned()).or_insert_with(|| {
            self.queues.create(&queue, settings);
            tracing::info!(queue = name, "made");
            settings
        });
        Ok(queue)
    }

    fn create_queue(&self, request: &QueueSpec) -> Result<Vec<u8>, EntryError> {
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
        self.url_answer(&queue)
    }

    fn tag(&self, queue: &QueueUrl, tags: &BTreeMap<String, String>) {
        for (name, value) in tags {
            self.queues.tag(queue, name, Some(value));
        }
    }

    fn url_answer(&self, queue: &QueueUrl) -> Result<Vec<u8>, EntryError> {
        answer(&json!({ "QueueUrl": self.url_named(queue.as_str()) }))
    }

    fn url_named(&self, name: &str) -> String {
        format!("{}/{ACCOUNT}/{name}", self.url)
    }

    /// Queues by the beginning of their names; the next page begins after the token.
    fn list(&self, request: &ListRequest) -> Result<Vec<u8>, EntryError> {
        let made = lock(&self.made);
        let after = |name: &&String| request.next_token.as_ref().is_none_or(|token| *name > token);
        let meant = made.keys().filter(|name| name.starts_with(&request.queue_name_prefix));
        let mut meant = meant.filter(after).peekable();
        let page = request.max_results.unwrap_or(QUEUES_LISTED);
        let listed: Vec<&String> = meant.by_ref().take(page).collect();
        let next = listed.last().filter(|_| meant.peek().is_some());
        let urls: Vec<_> = listed.iter().map(|name| self.url_named(name)).collect();
        answer(&json!({ "QueueUrls": urls, "NextToken": next }))
    }

    async fn attributes(&self, request: QueueRequest) -> Result<Vec<u8>, EntryError> {
        let settings = self.settings(&request.queue_url)?;
        let queue = QueueUrl::new(name_in(&request.queue_url));
        let depth = self.queues.depth(&queue).await.map_err(of_call)?;
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
        let asked = |name: &str| request.attribute_names.iter().any(|n| n == name || n == "All");
        attributes.retain(|name, _| asked(name));
        answer(&json!({ "Attributes": attributes }))
    }
}

/// Every change under a lock is one step: a panic leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name_in(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, EntryError> {
    // SDKs may send an empty body for a request without members.
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| refused("SerializationException", error))
}

fn answer(answer: &impl Serialize) -> Result<Vec<u8>, EntryError> {
    serde_json::to_vec(answer).map_err(|error| refused("InternalFailure", error))
}

/// The answer to a call on a batch of these ids, or on the only entry.
fn entry_answers<T: Serialize>(
    ids: Option<Vec<String>>,
    mut answers: Vec<Result<T, EntryError>>,
) -> Result<Vec<u8>, EntryError> {
    match ids {
        Some(ids) => answer(&BatchAnswer::new(ids, answers)),
        None => answer(&answers.pop().unwrap_or_else(|| Err(unanswered()))?),
    }
}

/// As [`entry_answers`], of entries whose answer has no members.
fn done(
    ids: Option<Vec<String>>,
    answers: Vec<Result<(), EntryError>>,
) -> Result<Vec<u8>, EntryError> {
    let answers = answers.into_iter().map(|entry| entry.map(|()| EmptyAnswer {}));
    entry_answers(ids, answers.collect())
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

fn message(request: &ReceiveRequest, received: Received) -> MessageAnswer {
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
    let out = |string_value| AttributeOut { data_type: "String", string_value };
    MessageAnswer {
        message_id: received.message_id,
        receipt_handle: received.receipt,
        md5_of_body: wire::of_body(&received.body),
        body: received.body.to_string(),
        attributes,
        md5_of_attributes,
        message_attributes: own.into_iter().map(|(name, value)| (name, out(value))).collect(),
    }
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

fn unanswered() -> EntryError {
    refused("InternalFailure", "the queue gave no answer")
}

/// An error by the code of the older protocol, which the newer one repeats in a header.
pub(super) fn refused(code: &str, message: impl Display) -> EntryError {
    EntryError { code: code.to_owned(), message: message.to_string() }
}

pub(super) fn no_queue() -> EntryError {
    let said = "The specified queue does not exist.";
    refused("AWS.SimpleQueueService.NonExistentQueue", said)
}

/// The error of a call that the queues refuse as a whole.
pub(super) fn of_call(error: PortError) -> EntryError {
    match error.kind {
        FailureKind::NotFound => no_queue(),
        // The queues give no words with what refuses a whole call.
        FailureKind::Refused(code) => refused(&code, format!("{} is refused.", error.operation)),
        kind => refused("InternalFailure", kind),
    }
}

/// The JSON protocol's name for a code.
pub(super) fn shape(code: &str) -> &str {
    match code {
        "AWS.SimpleQueueService.NonExistentQueue" => "QueueDoesNotExist",
        code => code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
