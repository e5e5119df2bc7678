//! A received message, parsed: its mail and envelope, or the reason why it must not be sent; and for each outcome the
//! job that settles it, and the one log event.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::channel::Content;
use tidegate_core::compression::decompress;
use tidegate_core::config::{EXPRESS, queue_key};
use tidegate_core::control::{CANCELLED, Cancel};
use tidegate_core::dead_letter::{DeadLetter, LastError, SQS_LIMIT_BYTES};
use tidegate_core::deduplication::{Mark, MarkState};
use tidegate_core::email::{EmailErrorKind, Priority, StoredContent, addressed_to, id_of};
use tidegate_core::events::{FateKind, MailFate};
use tidegate_core::identity::{
    CAMPAIGN_QUEUE_BYTES, CampaignMessage, Envelope, EpochMillis, Identity, deduplication_id,
    group_id,
};
use tidegate_core::limiter::Line;
use tidegate_core::limits::{Demands, MailFacts};
use tidegate_core::outcome::{Failure, Outcome};
use tidegate_core::store::refill::LONGEST_WAIT;
use tidegate_core::trace::TraceParent;
use tidegate_core::{Timestamp, in_full, retry};

use crate::poll::context::Context;
use crate::poll::limits::idle_key;
use crate::poll::plan::{CampaignQueue, PlannedCampaign};
use crate::poll::room::{Ahead, ContentKey};
use crate::poll::settle::{Job, Receipt};
use crate::ports::{Body, Environment, Fifo, MERGE_QUEUE, Monotonic, Outgoing, QueueUrl, Received};

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
        let (campaign, priority) = (Some(campaign.name.clone()), queue.priority);
        Self { campaign, priority, ..Self::mixed(queue.url.clone(), line, None) }
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

    /// The name under which the mean recipients of its mails are kept: the campaign's, or the URL of a shared queue.
    pub(crate) fn lane(&self) -> &str {
        self.campaign.as_deref().unwrap_or(self.queue.as_str())
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
    pub(crate) content: Arc<Content>,
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
    /// The key of the object in the store that has its content; none of a mail that comes whole.
    pub(crate) object: Option<String>,
    pub(crate) ahead: Rc<Ahead>,
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
/// The code of a failure without one, such as a lost connection.
const NO_CODE: &str = "ConnectionFailed";
/// The dead letters' code of mail that was possibly sent.
const OUTCOME_UNKNOWN: &str = "unknown";

/// Reads `received`: parses the body, and takes the envelope from the attributes. In campaign queues, which
/// producers write, attributes that cannot be Tidegate's are ignored; they never make a mail a dead letter.
pub(crate) fn read<E: Environment>(
    ctx: &Context<'_, E>,
    received: Received,
    source: &Source,
    since: Monotonic,
) -> Result<Message, Box<Rejected>> {
    let (config, plan) = (ctx.config, ctx.plan);
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
    let reject = |held, envelope, code, what, redacted| {
        Box::new(Rejected { held, envelope, reason: own_reason(code, what), redacted })
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
        let trace = TraceParent::of_attributes(attribute);
        Envelope { trace, ..Envelope::fresh(campaign, identity, held.put_at) }
    };
    let known = match &source.campaign {
        Some(campaign) => {
            let (sent_at, max_attempts) = (held.put_at, config.max_attempts);
            let message = CampaignMessage { campaign, id: id.as_deref(), sent_at, max_attempts };
            Ok(message.envelope(attribute))
        }
        None => Envelope::from_attributes(attribute),
    };
    let mut envelope = match known {
        Ok(known) => known.unwrap_or_else(fresh),
        Err(error) => {
            let (envelope, text) = (fresh(), in_full(&error));
            return Err(reject(held, envelope, "InvalidAttribute", text.clone(), text));
        }
    };
    // A mail is not given up for its trace.
    if held.body.len() + envelope.most_bytes() > CAMPAIGN_QUEUE_BYTES {
        envelope.trace = None;
    }
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
    if let Some((code, said)) = cannot_wait(&content, &envelope, held.body.len(), ctx.now()) {
        return Err(reject(held, envelope, code, said.clone(), said));
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
        envelope,
        demands,
        through: None,
        object: content.stored().map(StoredContent::key),
        ahead: Rc::default(),
        content: content.into(),
        held,
        mark: None,
    })
}

/// The code and the reason why a mail could not wait or be put back: its time is too far ahead, or its body so large that
/// the envelope does not fit beside it. It is refused now, not after a failed send.
fn cannot_wait(
    content: &Content,
    envelope: &Envelope,
    bytes: usize,
    now: Timestamp,
) -> Option<(&'static str, String)> {
    if content.not_before().is_some_and(|at| Timestamp::from(at) > now + LONGEST_WAIT) {
        return Some((
            EmailErrorKind::Invalid.code(),
            "not_before: must be at most 365 days ahead".to_owned(),
        ));
    }
    let allowed = CAMPAIGN_QUEUE_BYTES.saturating_sub(envelope.most_bytes());
    let said = format!(
        "body: {bytes} bytes are too many; allowed are at most {allowed}, so that Tidegate's attributes fit beside it"
    );
    (bytes > allowed).then_some(("TooLarge", said))
}

impl Message {
    /// The key of its content; none if it came whole.
    pub(crate) fn content_key(&self) -> Option<ContentKey> {
        self.content
            .stored()
            .map(|stored| ContentKey { object: stored.key(), through: self.through.clone() })
    }

    /// A mail's recipients, or a text's parts: the slots that it uses.
    pub(crate) fn recipients(&self) -> u64 {
        u64::from(self.content.slots())
    }

    /// The body under `envelope`, for a standard queue.
    fn under(&self, envelope: &Envelope, delay: Duration) -> Outgoing {
        let body = self.held.body.to_queue();
        Outgoing { body, attributes: envelope.to_attributes(), delay, fifo: None }
    }

    /// The message for a limit queue, with the same pass, since this is no further try.
    pub(crate) fn to_limit_queue(&self, delay: Duration) -> Outgoing {
        self.under(&self.envelope, delay)
    }

    /// The message for the merge queue: a message group of its own, and a deduplication id for this pass, after
    /// the `cancel` of its campaign.
    pub(crate) fn to_merge(&self, cancel: Option<&Cancel>) -> Outgoing {
        let (identity, cancel) = (&self.envelope.identity, cancel.map(|cancel| cancel.at));
        let fifo = Fifo {
            group: group_id(identity),
            deduplication: deduplication_id(identity, self.envelope.pass, cancel),
        };
        Outgoing { fifo: Some(fifo), ..self.under(&self.envelope, Duration::ZERO) }
    }

    /// The job that moves it to the dead letters: `last` is its envelope after the last attempt, which was `at` a time.
    fn letter(
        &self,
        dead_letters: &QueueUrl,
        last: &Envelope,
        reason: LastError,
        at: Option<EpochMillis>,
        buffered: bool,
    ) -> Job {
        let fate = fate_of(&self.envelope, reason.code.clone());
        let entry = dead_letter(&self.held, last, self.content.to().map(str::to_owned), reason, at);
        // The envelope's pass is the largest before a replay, so that deduplication and the merge queue can
        // tell the replay from every copy. The attempt is 0, so that a replay has all attempts again; the entry
        // states those already made.
        let envelope = Envelope { attempt: 0, ..self.envelope.clone().parked() };
        move_to(dead_letters, outgoing(entry, &envelope), &self.held, buffered).with_fate(fate)
    }
}

/// The fate of a mail that becomes a dead letter with this code.
fn fate_of(envelope: &Envelope, code: Option<String>) -> MailFate {
    let is_cancelled = code.as_deref() == Some(CANCELLED);
    let kind = if is_cancelled { FateKind::Cancelled } else { FateKind::DeadLettered };
    MailFate { code, ..gone(envelope, kind) }
}

/// The fate of a mail that is deleted.
fn gone(envelope: &Envelope, kind: FateKind) -> MailFate {
    let (campaign, identity) = (envelope.campaign.clone(), envelope.identity.clone());
    MailFate { kind, campaign, identity, code: None }
}

/// The reason of a mail that Tidegate itself gives up.
fn own_reason(code: &str, said: String) -> LastError {
    LastError { code: Some(code.to_owned()), http_status: None, provider_message: said }
}

fn dead_letter(
    held: &Held,
    envelope: &Envelope,
    to: impl IntoIterator<Item = String>,
    last_error: LastError,
    last_attempt_at: Option<EpochMillis>,
) -> DeadLetter {
    DeadLetter {
        message_id: held.message_id.clone(),
        campaign: envelope.campaign.clone(),
        to: to.into_iter().collect(),
        first_attempt_at: envelope.first_attempt_at,
        last_attempt_at,
        attempts: envelope.attempt,
        last_error,
        message: held.body.to_string(),
    }
}

fn outgoing(entry: DeadLetter, envelope: &Envelope) -> Outgoing {
    let original = entry.message.clone();
    // The writer fails for no entry; if it should, the original body alone is better than nothing.
    let (body, attributes) = entry
        .into_queue_message(Some(envelope), SQS_LIMIT_BYTES)
        .map_or((original, Vec::new()), |message| (message.body, message.attributes));
    Outgoing { body: body.into(), attributes, delay: Duration::ZERO, fifo: None }
}

fn move_to(to: &QueueUrl, message: Outgoing, held: &Held, buffered: bool) -> Job {
    let from = receipt(held, buffered);
    Job::Move { to: to.clone(), message: Box::new(message), from, at_once: false }
}

/// A move that does not wait for a batch to fill: the message's delay counts from now.
fn move_now(to: &QueueUrl, message: Outgoing, held: &Held, buffered: bool) -> Job {
    let from = receipt(held, buffered);
    Job::Move { to: to.clone(), message: Box::new(message), from, at_once: true }
}

pub(crate) fn receipt(held: &Held, buffered: bool) -> Receipt {
    let (queue, handle) = (held.queue.clone(), held.receipt.clone());
    Receipt { queue, handle, object: None, buffered, fate: None }
}

/// Deletes a mail for good, and the object in the store with its content.
fn delete(message: &Message, buffered: bool) -> Job {
    Job::Delete(Receipt { object: message.object.clone(), ..receipt(&message.held, buffered) })
}

// The job that settles a message for each outcome, and the one log event of that outcome.

/// Logs an event about a mail, by its campaign and identity.
macro_rules! event {
    ($level:ident, $of:ident, $($rest:tt)+) => {
        tracing::$level!(
            campaign = $of.envelope.campaign,
            identity = %$of.envelope.identity,
            $($rest)+
        )
    };
}

/// SES accepted it: delete it. Only at the level `debug` is a line logged for each such mail, because a
/// million of them cost $0.20.
pub(crate) fn accepted(message: &Message, ses_message_id: &str, latency: Duration) -> Job {
    event!(
        debug,
        message,
        recipients = message.content.slots(),
        attempt = message.envelope.next_attempt(),
        latency_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX),
        ses_message_id,
        "sent"
    );
    delete(message, true)
}

/// The message is not a valid mail: dead-letter it, with the field and the fault.
pub(crate) fn reject(rejected: &Rejected, dead_letters: &QueueUrl, buffered: bool) -> Job {
    event!(
        warn,
        rejected,
        message_id = rejected.held.message_id,
        reason = rejected.redacted,
        "dead-lettered: not a mail"
    );
    let (held, envelope) = (&rejected.held, &rejected.envelope);
    let to = addressed_to(&held.body);
    let entry = dead_letter(held, envelope, to, rejected.reason.clone(), None);
    let fate = fate_of(envelope, rejected.reason.code.clone());
    move_to(dead_letters, outgoing(entry, envelope), held, buffered).with_fate(fate)
}

/// The content of a large mail cannot be fetched, or is none: dead-letter it, with the reason.
pub(crate) fn without_content(
    message: &Message,
    code: &str,
    said: String,
    redacted: &str,
    dead_letters: &QueueUrl,
) -> Job {
    event!(warn, message, reason = redacted, "dead-lettered: its content cannot be sent");
    message.letter(dead_letters, &message.envelope, own_reason(code, said), None, true)
}

/// SES refused it for good, or its attempts are used up: dead-letter it.
pub(crate) fn give_up(
    message: &Message,
    failure: &Failure,
    outcome: Outcome,
    dead_letters: &QueueUrl,
    at: EpochMillis,
) -> Job {
    let code = failure.code.clone().unwrap_or_else(|| NO_CODE.to_owned());
    log(message, failure, outcome, "dead-lettered");
    let (code, http_status) = (Some(code), failure.http_status);
    let reason = LastError { code, http_status, provider_message: failure.message.clone() };
    let last = message.envelope.clone().put_back_failed(at, &reason.provider_message);
    message.letter(dead_letters, &last, reason, Some(at), true)
}

/// An operator cancelled it: delete it, or move it to the dead letters that `keep` it.
pub(crate) fn cancelled(message: &Message, keep: Option<&QueueUrl>, buffered: bool) -> Job {
    event!(info, message, kept = keep.is_some(), "cancelled");
    let Some(dead_letters) = keep else {
        return delete(message, buffered).with_fate(gone(&message.envelope, FateKind::Cancelled));
    };
    let reason = own_reason(CANCELLED, "an operator cancelled its campaign's mail".to_owned());
    message.letter(dead_letters, &message.envelope, reason, None, buffered)
}

/// A recipient is excluded: delete it.
pub(crate) fn excluded(message: &Message, buffered: bool) -> Job {
    event!(info, message, "deleted: its recipient is excluded");
    delete(message, buffered).with_fate(gone(&message.envelope, FateKind::Excluded))
}

/// Deduplication knows that it was sent: delete this copy.
pub(crate) fn already_sent(message: &Message) -> Job {
    event!(info, message, "deleted: it was sent already");
    delete(message, true)
}

/// Deduplication knows that it was possibly sent: dead-letter it, for a person to decide.
pub(crate) fn unknown(message: &Message, mark: &Mark, dead_letters: &QueueUrl) -> Job {
    event!(
        error,
        message,
        since = %mark.since,
        "dead-lettered: nobody knows whether it was sent"
    );
    let again = if mark.state == MarkState::Parked { ", and dead-lettered before" } else { "" };
    let since = mark.since;
    let said =
        format!("a poller set out to send it at {since}, and its outcome is not known{again}");
    let reason = own_reason(OUTCOME_UNKNOWN, said);
    // The last attempt's time, as far as it is known: the later of the first attempt and the mark's begin.
    let at = message.envelope.first_attempt_at.map_or(since, |first| first.max(since));
    let last = message.envelope.clone().put_back_uncounted(at, &reason.provider_message);
    message.letter(dead_letters, &last, reason, Some(at), true)
}

/// It failed for a passing reason: back to its campaign, delayed (60 s doubling to 900 s). `jitter` is 0.0
/// to 1.0. If not `counted`, this was no attempt.
pub(crate) fn retry(
    message: &Message,
    failure: &Failure,
    outcome: Outcome,
    campaign: &QueueUrl,
    at: EpochMillis,
    jitter: f64,
    counted: bool,
) -> Job {
    log(message, failure, outcome, "to be retried");
    let code = failure.code.as_deref().unwrap_or(NO_CODE);
    let said = format!("{code}: {}", failure.message);
    let envelope = message.envelope.clone();
    let envelope = if counted {
        envelope.put_back_failed(at, &said)
    } else {
        envelope.put_back_uncounted(at, &said)
    };
    let outgoing = message.under(&envelope, retry::delay(envelope.attempt, jitter));
    move_to(campaign, outgoing, &message.held, true)
}

/// It is under a limit: move it to that limit's queue, visible after `delay`.
pub(crate) fn move_on(message: &Message, queue: &QueueUrl, delay: Duration) -> Job {
    let moved = if delay.is_zero() { move_to } else { move_now };
    moved(queue, message.to_limit_queue(delay), &message.held, true)
}

/// The mail's campaign is held: put it back to the campaign queue, which is not asked meanwhile.
pub(crate) fn put_back(message: &Message, campaign: &QueueUrl) -> Job {
    event!(info, message, "put back: its campaign is held");
    let outgoing = message.under(&message.envelope.clone().put_back(), Duration::ZERO);
    move_to(campaign, outgoing, &message.held, true)
}

/// It is over a limit that has no queue, or its time has not come: put it back to `queue`, visible after `delay`.
pub(crate) fn put_off(message: &Message, queue: &QueueUrl, delay: Duration, buffered: bool) -> Job {
    let outgoing = message.under(&message.envelope.clone().put_back(), delay);
    move_now(queue, outgoing, &message.held, buffered)
}

/// The one log event for a send that was not accepted.
pub(crate) fn log(message: &Message, failure: &Failure, outcome: Outcome, then: &'static str) {
    event!(
        warn,
        message,
        outcome = outcome.as_str(),
        code = failure.code.as_deref().unwrap_or(NO_CODE),
        http_status = failure.http_status,
        possibly_sent = outcome.possibly_sent(),
        attempt = message.envelope.next_attempt(),
        then,
        "not sent"
    );
}

#[cfg(test)]
mod tests {
    use tidegate_core::channel::Channel;

    use super::*;

    #[test]
    fn a_body_may_be_as_large_as_leaves_room_for_the_attributes() {
        let body = r#"{"to": "a@b.example", "from": "c@d.example", "subject": "S", "text": "T"}"#;
        let content = Content::parse(Channel::Email, body).unwrap();
        let identity = Identity::from_body_id("big", "1");
        let envelope = Envelope::fresh("big", identity, EpochMillis::new(0));
        let allowed = CAMPAIGN_QUEUE_BYTES - envelope.most_bytes();
        let fits = |bytes| cannot_wait(&content, &envelope, bytes, Timestamp::default()).is_none();
        assert_eq!([allowed, allowed + 1].map(fits), [true, false]);
    }
}
