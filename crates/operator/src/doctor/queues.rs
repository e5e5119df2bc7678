use tidegate_core::dead_letter::SQS_LIMIT_BYTES;
use tidegate_core::identity::CAMPAIGN_QUEUE_BYTES;
use tidegate_delivery::ports::VISIBILITY_TIMEOUT;

use super::{CheckState, DeploymentFacts, Finding, ReadResult, unread};

const RETENTION_S: u64 = 1_209_600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// A campaign's: producers send to it.
    Campaign,
    /// The express queue: producers send to it.
    Express,
    Domain,
    Merge,
    DeadLetter,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployedQueue {
    /// The name under which it is shown.
    pub name: String,
    pub kind: QueueKind,
    /// The attributes; `None` if SQS has no such queue.
    pub attributes: ReadResult<Option<QueueAttributes>>,
}

/// A queue's attributes, as SQS reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueAttributes {
    pub visibility_s: u64,
    pub retention_s: u64,
    pub max_bytes: u64,
    /// `FifoThroughputLimit` is `perMessageGroupId` and `DeduplicationScope` `messageGroup`.
    pub high_throughput: bool,
    pub redrive: Option<String>,
    /// Encrypted at rest, by SQS or a key.
    pub encrypted: bool,
}

pub(super) fn judge(facts: &DeploymentFacts) -> Vec<Finding> {
    facts.queues.iter().flat_map(of_queue).collect()
}

fn of_queue(queue: &DeployedQueue) -> Vec<Finding> {
    let check = |what: &str| format!("queue {}: {what}", queue.name);
    let attributes = match &queue.attributes {
        Ok(Some(attributes)) => attributes,
        Ok(None) => return vec![missing(queue.kind, check("existence"))],
        Err(why) => return vec![unread(check("attributes"), why)],
    };
    let wrong: Vec<Finding> = [
        visibility(queue, attributes, check("visibility timeout")),
        size(queue, attributes, check("largest message")),
        fifo(queue, attributes, check("throughput")),
        redrive(attributes, check("redrive policy")),
        retention(attributes, check("retention")),
        encryption(attributes, check("encryption")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if wrong.is_empty() { vec![Finding::ok(check("attributes"), "as deployed")] } else { wrong }
}

fn missing(kind: QueueKind, check: String) -> Finding {
    let remedy = match kind {
        QueueKind::Domain => {
            "deploy the template again, or take its URL out of TIDEGATE_LIMIT_QUEUES: mail to its recipient domains cannot be sent"
        }
        _ => "deploy the template again: no mail passes through it",
    };
    Finding::of(CheckState::Failed, check, "SQS has no such queue", remedy)
}

fn visibility(queue: &DeployedQueue, found: &QueueAttributes, check: String) -> Option<Finding> {
    let expected = VISIBILITY_TIMEOUT.as_secs();
    let said = format!("{} s, expected {expected} s", found.visibility_s);
    // No poller receives from the dead-letter queue, so a wrong timeout there sends nothing twice.
    let state =
        if queue.kind == QueueKind::DeadLetter { CheckState::Warning } else { CheckState::Failed };
    let remedy = "set it to 30: shorter sends mails twice, longer keeps unsent mail back";
    (found.visibility_s != expected).then(|| Finding::of(state, check, said, remedy))
}

fn size(queue: &DeployedQueue, found: &QueueAttributes, check: String) -> Option<Finding> {
    let campaign = matches!(queue.kind, QueueKind::Campaign | QueueKind::Express);
    let expected = if campaign { CAMPAIGN_QUEUE_BYTES } else { SQS_LIMIT_BYTES } as u64;
    let said = format!("{} bytes, expected {expected}", found.max_bytes);
    match found.max_bytes.cmp(&expected) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(Finding::of(
            CheckState::Warning,
            check,
            said,
            "lower it: a larger mail has no room for its attributes, and is dead-lettered",
        )),
        std::cmp::Ordering::Less if campaign => Some(Finding::of(
            CheckState::Warning,
            check,
            said,
            "raise it where producers send larger mails: SQS refuses them",
        )),
        std::cmp::Ordering::Less => Some(Finding::of(
            CheckState::Failed,
            check,
            said,
            "raise it: a mail that a campaign's queue took does not fit here",
        )),
    }
}

fn fifo(queue: &DeployedQueue, found: &QueueAttributes, check: String) -> Option<Finding> {
    let slow = queue.kind == QueueKind::Merge && !found.high_throughput;
    slow.then(|| {
        Finding::of(
            CheckState::Failed,
            check,
            "not high-throughput: 300 calls a second for all groups together",
            "set FifoThroughputLimit to perMessageGroupId and DeduplicationScope to messageGroup",
        )
    })
}

fn redrive(found: &QueueAttributes, check: String) -> Option<Finding> {
    found.redrive.as_ref().map(|policy| {
        Finding::of(
            CheckState::Failed,
            check,
            policy.clone(),
            "take it away: mail that waits is received again and again, and SQS would move it, without a reason, to the dead letters",
        )
    })
}

fn retention(found: &QueueAttributes, check: String) -> Option<Finding> {
    (found.retention_s < RETENTION_S).then(|| {
        let said = format!("{} s, expected {RETENTION_S} s (14 days)", found.retention_s);
        Finding::of(CheckState::Warning, check, said, "raise it: SQS deletes what waits longer")
    })
}

fn encryption(found: &QueueAttributes, check: String) -> Option<Finding> {
    (!found.encrypted).then(|| {
        Finding::of(
            CheckState::Warning,
            check,
            "off",
            "turn SQS's own encryption on (SqsManagedSseEnabled)",
        )
    })
}
