//! A received message, parsed: its mail and envelope, or the reason why it must not be sent.

use tidegate_core::channel::Content;
use tidegate_core::compression::decompress;
use tidegate_core::config::{EXPRESS, PollerConfig, queue_key};
use tidegate_core::control::Cancel;
use tidegate_core::dead_letter::{DeadLetter, LastError, SQS_LIMIT_BYTES};
use tidegate_core::email::{Priority, addressed_to, id_of};
use tidegate_core::identity::{
    CAMPAIGN_QUEUE_BYTES, CampaignMessage, Envelope, EpochMillis, Identity, deduplication_id,
    group_id,
};
use tidegate_core::in_full;
use tidegate_core::limiter::Line;
use tidegate_core::limits::{Demands, MailFacts};

use crate::poll::plan::limits::idle_key;
use crate::poll::plan::{CampaignQueue, Plan, PlannedCampaign};
use crate::ports::{Body, Fifo, MERGE_QUEUE, Monotonic, Outgoing, QueueUrl, Received};

/// The queue from which a message was received.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) queue: QueueUrl,
    pub(crate) line: Line,
    /// The campaign whose queue it is; none for a queue with mail of several campaigns.
    pub(crate) campaign: Option<String>,
    /// The place of the limit queue, if it is one.
    pub(crate) limit_queue: Option<usize>,
    /// The queue's priority: mail of a critical or high one has at least that priority.
    pub(crate) priority: Priority,
}

impl Source {
    pub(crate) fn express(queue: QueueUrl) -> Self {
        Self { campaign: Some(EXPRESS.to_owned()), ..Self::mixed(queue, Line::Express, None) }
    }

    /// One of a campaign's queues.
    pub(crate) fn campaign(campaign: &PlannedCampaign, queue: &CampaignQueue, line: Line) -> Self {
        Self {
            campaign: Some(campaign.name.clone()),
            priority: queue.priority,
            ..Self::mixed(queue.url.clone(), line, None)
        }
    }

    /// The priority of a mail from this queue: that of its body, or the queue's if that is higher.
    fn priority_of(&self, content: &Content) -> Priority {
        match self.priority {
            Priority::Normal | Priority::Low => content.priority(),
            raised => raised.max(content.priority()),
        }
    }

    /// A queue with mail of several campaigns: the merge queue, or a limit queue.
    pub(crate) fn mixed(queue: QueueUrl, line: Line, limit_queue: Option<usize>) -> Self {
        Self { queue, line, campaign: None, limit_queue, priority: Priority::Normal }
    }

    /// The queue's name for the idle pauses: a campaign's, or one with a dot.
    pub(crate) fn idle_key(&self) -> String {
        match (&self.campaign, self.limit_queue) {
            (Some(campaign), _) => queue_key(campaign, self.priority),
            (None, Some(place)) => idle_key(place),
            (None, None) => MERGE_QUEUE.to_owned(),
        }
    }
}

/// A valid mail or text message, ready to be sent.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) content: Content,
    pub(crate) envelope: Envelope,
    /// SES's tenant of its campaign; none without one.
    pub(crate) tenant: Option<String>,
    pub(crate) line: Line,
    /// The priority of its body, or that of its queue if that is higher.
    pub(crate) priority: Priority,
    /// The place of the limit queue it comes from, if it does.
    pub(crate) limit_queue: Option<usize>,
    /// Recipients that it has under each limit.
    pub(crate) demands: Demands,
    /// The configuration set through which it is sent in place of its own.
    pub(crate) through: Option<String>,
    pub(crate) held: Held,
    /// The token of its mark; none without deduplication.
    pub(crate) mark: Option<String>,
}

/// The parts of a message that settling it needs.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) queue: QueueUrl,
    pub(crate) message_id: String,
    pub(crate) receipt: String,
    pub(crate) body: Body,
    /// An instant not later than the begin of its visibility timeout.
    pub(crate) since: Monotonic,
    /// When it was put on this queue (SQS's `SentTimestamp`).
    pub(crate) put_at: EpochMillis,
    pub(crate) receive_count: u32,
}

/// A message that is not a valid mail.
#[derive(Debug)]
pub(crate) struct Rejected {
    pub(crate) held: Held,
    pub(crate) envelope: Envelope,
    pub(crate) reason: LastError,
    /// The reason without values of the message, for the log.
    pub(crate) redacted: String,
}

/// Campaign under which a message is counted if nothing tells its campaign.
const UNKNOWN: &str = "unknown";

/// Reads `received`: parses the body, and takes the envelope from the attributes. In campaign queues, which
/// producers write, attributes that cannot be Tidegate's are ignored; they never make a mail a dead letter.
pub(crate) fn read(
    received: Received,
    source: &Source,
    since: Monotonic,
    config: &PollerConfig,
    plan: &Plan,
) -> Result<Message, Box<Rejected>> {
    let attributes = received.attributes;
    let held = Held {
        queue: source.queue.clone(),
        message_id: received.message_id,
        receipt: received.receipt,
        body: received.body,
        since,
        put_at: EpochMillis::new(received.sent_at_millis),
        receive_count: received.receive_count,
    };
    let reject = |held, envelope, code: &str, what, redacted| {
        let reason =
            LastError { code: Some(code.to_owned()), http_status: None, provider_message: what };
        Box::new(Rejected { held, envelope, reason, redacted })
    };
    let parsed = Content::parse(config.rules.channel, &held.body);
    let id = match &parsed {
        Ok(content) => content.id().map(str::to_owned),
        Err(_) => id_of(&held.body),
    };
    let attribute = |name: &str| attributes.get(name).map(String::as_str);
    let fresh = || {
        let campaign = source.campaign.as_deref().unwrap_or(UNKNOWN);
        let identity = Identity::of(campaign, id.as_deref(), &held.message_id);
        Envelope::fresh(campaign, identity, held.put_at)
    };
    let known = match &source.campaign {
        Some(campaign) => {
            let (sent_at, max_attempts) = (held.put_at, config.max_attempts);
            let message = CampaignMessage { campaign, id: id.as_deref(), sent_at, max_attempts };
            Ok(message.envelope(attribute))
        }
        None => Envelope::from_attributes(attribute),
    };
    let envelope = match known {
        Ok(known) => known.unwrap_or_else(fresh),
        Err(error) => {
            let (envelope, text) = (fresh(), in_full(&error));
            return Err(reject(held, envelope, "InvalidAttribute", text.clone(), text));
        }
    };
    if let Some(Err(error)) = decompress(&held.body) {
        let (text, redacted) = (in_full(&error), error.to_string());
        return Err(reject(held, envelope, "InvalidCompression", text, redacted));
    }
    let content = match parsed.and_then(|content| config.rules.admit(content)) {
        Ok(content) => content,
        Err(error) => {
            let code = error.kind.code();
            return Err(reject(held, envelope, code, error.to_string(), error.redacted()));
        }
    };
    // A body so large that the envelope does not fit beside it could not be put back to its campaign: it is
    // refused now, not after a failed send.
    let allowed = CAMPAIGN_QUEUE_BYTES.saturating_sub(envelope.most_bytes());
    if held.body.len() > allowed {
        let said = format!(
            "body: {} bytes are too many; allowed are at most {allowed}, so that Tidegate's attributes fit beside it",
            held.body.len()
        );
        return Err(reject(held, envelope, "TooLarge", said.clone(), said));
    }
    let facts = MailFacts {
        campaign: &envelope.campaign,
        configuration_set: content.configuration_set().or(config.configuration_set.as_deref()),
        tenant: plan.tenants.get(&envelope.campaign).map(String::as_str),
    };
    let demands = Demands::of(&content, facts, &plan.limits.table);
    Ok(Message {
        tenant: facts.tenant.map(str::to_owned),
        line: source.line,
        priority: source.priority_of(&content),
        limit_queue: source.limit_queue,
        content,
        envelope,
        demands,
        through: None,
        held,
        mark: None,
    })
}

impl Message {
    /// A mail's recipients, or a text's parts: the slots that it uses.
    pub(crate) fn recipients(&self) -> u64 {
        u64::from(self.content.slots())
    }

    /// The message for a limit queue, with the same pass, since this is no further try.
    pub(crate) fn to_limit_queue(&self, delay: std::time::Duration) -> Outgoing {
        Outgoing {
            body: self.held.body.to_queue(),
            attributes: self.envelope.to_attributes(),
            delay,
            fifo: None,
        }
    }

    /// The message for the merge queue: a message group of its own, and a deduplication id for this pass, after
    /// the `cancel` of its campaign.
    pub(crate) fn to_merge(&self, cancel: Option<&Cancel>) -> Outgoing {
        let (identity, cancel) = (&self.envelope.identity, cancel.map(|cancel| cancel.at));
        Outgoing {
            body: self.held.body.to_queue(),
            attributes: self.envelope.to_attributes(),
            delay: std::time::Duration::ZERO,
            fifo: Some(Fifo {
                group: group_id(identity),
                deduplication: deduplication_id(identity, self.envelope.pass, cancel),
            }),
        }
    }
}

/// The dead letter of a mail whose last attempt, at `at`, failed for good.
pub(crate) fn dead_letter(message: &Message, reason: LastError, at: EpochMillis) -> Outgoing {
    let envelope = message.envelope.clone().put_back_failed(at, &reason.provider_message);
    letter(message, &envelope, reason, Some(at))
}

/// The dead letter of a mail that was cancelled.
pub(crate) fn cancelled_letter(message: &Message, reason: LastError) -> Outgoing {
    letter(message, &message.envelope, reason, None)
}

/// The dead letter of a mail that may have been sent at `at`: the outcome is unknown.
pub(crate) fn unknown_letter(message: &Message, reason: LastError, at: EpochMillis) -> Outgoing {
    let envelope = message.envelope.clone().put_back_uncounted(at, &reason.provider_message);
    letter(message, &envelope, reason, Some(at))
}

fn letter(
    message: &Message,
    last: &Envelope,
    reason: LastError,
    at: Option<EpochMillis>,
) -> Outgoing {
    let entry = DeadLetter {
        message_id: message.held.message_id.clone(),
        campaign: last.campaign.clone(),
        to: message.content.to().map(str::to_owned).collect(),
        first_attempt_at: last.first_attempt_at,
        last_attempt_at: at,
        attempts: last.attempt,
        last_error: reason,
        message: message.held.body.to_string(),
    };
    // The envelope's pass is the largest before a replay, so that deduplication and the merge queue can
    // tell the replay from every copy. The attempt is 0, so that a replay has all attempts again; the entry
    // states those already made.
    let envelope = Envelope { attempt: 0, ..message.envelope.clone().parked() };
    outgoing(entry, &envelope)
}

/// The dead letter of a message that is not a valid mail.
pub(crate) fn rejected_letter(rejected: &Rejected) -> Outgoing {
    let envelope = &rejected.envelope;
    let entry = DeadLetter {
        message_id: rejected.held.message_id.clone(),
        campaign: envelope.campaign.clone(),
        to: addressed_to(&rejected.held.body),
        first_attempt_at: envelope.first_attempt_at,
        last_attempt_at: None,
        attempts: envelope.attempt,
        last_error: rejected.reason.clone(),
        message: rejected.held.body.to_string(),
    };
    outgoing(entry, envelope)
}

fn outgoing(entry: DeadLetter, envelope: &Envelope) -> Outgoing {
    let original = entry.message.clone();
    // The writer fails for no entry; if it should, the original body alone is better than nothing.
    let (body, attributes) = entry
        .into_queue_message(Some(envelope), SQS_LIMIT_BYTES)
        .map_or((original, Vec::new()), |message| (message.body, message.attributes));
    let body = body.into();
    Outgoing { body, attributes, delay: std::time::Duration::ZERO, fifo: None }
}
