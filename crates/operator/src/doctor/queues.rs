//! The queues: their attributes as SQS has them.

use std::cmp::Ordering;
use std::collections::HashMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::get_queue_attributes::GetQueueAttributesError;
use aws_sdk_sqs::types::QueueAttributeName as Name;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::config::{Campaign, queue_key};
use tidegate_core::dead_letter::SQS_LIMIT_BYTES;
use tidegate_core::identity::CAMPAIGN_QUEUE_BYTES;
use tidegate_delivery::ports::VISIBILITY_TIMEOUT;

use super::finding::{CheckState, Finding, ReadResult, answered};

/// 14 days, the longest that SQS keeps a message.
const RETENTION_S: u64 = 1_209_600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueKind {
    /// A campaign's, or the express queue: producers send to it.
    Campaign,
    Domain,
    Merge,
    DeadLetter,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeployedQueue {
    /// The name under which it is shown.
    pub(super) name: String,
    pub(super) kind: QueueKind,
    /// The attributes; `None` if SQS has no such queue.
    pub(super) attributes: ReadResult<Option<QueueAttributes>>,
}

/// A queue's attributes, as SQS reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueAttributes {
    pub(super) visibility_s: u64,
    pub(super) retention_s: u64,
    pub(super) max_bytes: u64,
    /// `FifoThroughputLimit` is `perMessageGroupId` and `DeduplicationScope` `messageGroup`.
    pub(super) high_throughput: bool,
    pub(super) redrive: Option<String>,
    /// Encrypted at rest, by SQS or a key.
    pub(super) encrypted: bool,
}

/// The queues, and the attributes of each.
pub(super) async fn read(stack: &Stack, campaigns: &[Campaign]) -> Vec<DeployedQueue> {
    let mut all = Vec::new();
    for campaign in campaigns {
        for (priority, url) in campaign.queues() {
            all.push((queue_key(&campaign.name, priority), QueueKind::Campaign, url.to_owned()));
        }
    }
    let mut add = |name: &str, kind, url: &str| all.push((name.to_owned(), kind, url.to_owned()));
    if let Some(url) = stack.express() {
        add("express", QueueKind::Campaign, url.as_str());
    }
    if let Some(url) = stack.merge() {
        add("merge", QueueKind::Merge, url.as_str());
    }
    for (url, place) in stack.poller.limits.queues.iter().zip(1..) {
        add(&format!("domain {place}"), QueueKind::Domain, url);
    }
    add("dead letters", QueueKind::DeadLetter, stack.dead_letter().as_str());
    let client = Client::new(stack.clients().sqs_config());
    let mut queues = Vec::new();
    for (name, kind, url) in all {
        let attributes = attributes(&client, &url).await;
        queues.push(DeployedQueue { name, kind, attributes });
    }
    queues
}

/// The attributes of a queue; none if it does not exist.
async fn attributes(client: &Client, url: &str) -> ReadResult<Option<QueueAttributes>> {
    let call = client.get_queue_attributes().queue_url(url).attribute_names(Name::All);
    let answer = call.send().await;
    let error = answer.as_ref().err().and_then(|error| error.as_service_error());
    if error.is_some_and(GetQueueAttributesError::is_queue_does_not_exist) {
        return Ok(None);
    }
    let answer = answered("GetQueueAttributes", url, answer)?;
    Ok(Some(answer.attributes().map_or_else(QueueAttributes::default, QueueAttributes::of)))
}

impl QueueAttributes {
    fn of(all: &HashMap<Name, String>) -> Self {
        let text = |name: Name| all.get(&name).map(String::as_str).unwrap_or_default();
        let number = |name: Name| text(name).parse().unwrap_or(0);
        Self {
            visibility_s: number(Name::VisibilityTimeout),
            retention_s: number(Name::MessageRetentionPeriod),
            max_bytes: number(Name::MaximumMessageSize),
            high_throughput: text(Name::FifoThroughputLimit) == "perMessageGroupId"
                && text(Name::DeduplicationScope) == "messageGroup",
            redrive: all.get(&Name::RedrivePolicy).filter(|policy| !policy.is_empty()).cloned(),
            encrypted: text(Name::SqsManagedSseEnabled) == "true"
                || !text(Name::KmsMasterKeyId).is_empty(),
        }
    }
}

pub(super) fn judge(queue: &DeployedQueue) -> Vec<Finding> {
    let check = |what: &str| format!("queue {}: {what}", queue.name);
    let attributes = match &queue.attributes {
        Ok(Some(attributes)) => attributes,
        Ok(None) => return vec![missing(queue.kind, check("existence"))],
        Err(why) => return vec![Finding::unread(check("attributes"), why)],
    };
    let mut wrong = Vec::new();
    wrong.extend(visibility(queue, attributes, check("visibility timeout")));
    wrong.extend(size(queue, attributes, check("largest message")));
    if queue.kind == QueueKind::Merge && !attributes.high_throughput {
        let found = "not high-throughput: 300 calls a second for all groups together";
        let remedy =
            "set FifoThroughputLimit to perMessageGroupId and DeduplicationScope to messageGroup";
        wrong.push(Finding::failed(check("throughput"), found, remedy));
    }
    if let Some(policy) = &attributes.redrive {
        let remedy = "take it away: mail that waits is received again and again, and SQS would move it, without a reason, to the dead letters";
        wrong.push(Finding::failed(check("redrive policy"), policy, remedy));
    }
    if attributes.retention_s < RETENTION_S {
        let found = format!("{} s, expected {RETENTION_S} s (14 days)", attributes.retention_s);
        let remedy = "raise it: SQS deletes what waits longer";
        wrong.push(Finding::warning(check("retention"), found, remedy));
    }
    if !attributes.encrypted {
        let remedy = "turn SQS's own encryption on (SqsManagedSseEnabled)";
        wrong.push(Finding::warning(check("encryption"), "off", remedy));
    }
    if wrong.is_empty() { vec![Finding::ok(check("attributes"), "as deployed")] } else { wrong }
}

fn missing(kind: QueueKind, check: String) -> Finding {
    let remedy = match kind {
        QueueKind::Domain => {
            "deploy the template again, or take its URL out of TIDEGATE_LIMIT_QUEUES: mail to its recipient domains cannot be sent"
        }
        _ => "deploy the template again: no mail passes through it",
    };
    Finding::failed(check, "SQS has no such queue", remedy)
}

fn visibility(queue: &DeployedQueue, found: &QueueAttributes, check: String) -> Option<Finding> {
    let expected = VISIBILITY_TIMEOUT.as_secs();
    let said = format!("{} s, expected {expected} s", found.visibility_s);
    // No poller receives from the dead-letter queue, so a wrong timeout there sends nothing twice.
    let state =
        if queue.kind == QueueKind::DeadLetter { CheckState::Warning } else { CheckState::Failed };
    let remedy = "set it to 30: shorter sends mails twice, longer keeps unsent mail back";
    (found.visibility_s != expected).then(|| Finding::new(state, check, said, remedy))
}

fn size(queue: &DeployedQueue, found: &QueueAttributes, check: String) -> Option<Finding> {
    let campaign = queue.kind == QueueKind::Campaign;
    let expected = if campaign { CAMPAIGN_QUEUE_BYTES } else { SQS_LIMIT_BYTES } as u64;
    let said = format!("{} bytes, expected {expected}", found.max_bytes);
    let (state, remedy) = match found.max_bytes.cmp(&expected) {
        Ordering::Equal => return None,
        Ordering::Greater => (
            CheckState::Warning,
            "lower it: a larger mail has no room for its attributes, and is dead-lettered",
        ),
        Ordering::Less if campaign => {
            (CheckState::Warning, "raise it where producers send larger mails: SQS refuses them")
        }
        Ordering::Less => {
            (CheckState::Failed, "raise it: a mail that a campaign's queue took does not fit here")
        }
    };
    Some(Finding::new(state, check, said, remedy))
}
