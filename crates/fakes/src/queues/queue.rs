//! One queue as a state machine over true time.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_delivery::ports::{
    BATCH_BYTES, Body, Entry, EntryError, Outgoing, QueueDepth, Received, VISIBILITY_TIMEOUT,
};
use tokio::sync::Notify;

use super::check;

/// SQS remembers a deduplication id for 5 minutes, even after the message was deleted.
pub(super) const DEDUPLICATION_INTERVAL: Duration = Duration::from_mins(5);

/// How many servers a queue's messages are spread over: few enough that a short poll of a thousand
/// messages finds ten.
pub(super) const SERVERS: u32 = 10;
/// The mask of all servers: each bit is one server.
pub(super) const ALL_SERVERS: u16 = (1 << SERVERS) - 1;

/// The group and the deduplication id: with `DeduplicationScope=messageGroup` an id repeats only
/// within its group.
type DeduplicationKey = (String, String);

/// A queue's attributes, and how often it uses the freedom that SQS's documentation gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueSettings {
    pub visibility: Duration,
    /// `MaximumMessageSize` in bytes, attributes included; 1 MiB.
    pub max_message_bytes: usize,
    /// The most messages in flight; default 120,000. Above it a standard queue refuses a receive
    /// (`OverLimit`), and a FIFO queue returns nothing.
    pub max_in_flight: usize,
    /// The probability that a short poll asks each of the queue's ten servers, 0.0 to 1.0; default
    /// 1.0. A message is stored on one server, and all messages of a FIFO group on the same one.
    /// Long polls ask all servers.
    pub sampling: f64,
    /// How old the reported depth may be; default zero.
    pub depth_lag: Duration,
    /// The probability that a standard queue delivers a message twice, 0.0 to 1.0; default 0.0. It
    /// is drawn at a receive (the message becomes visible before its timeout) and at a delete
    /// (which is acknowledged without effect).
    pub doubled: f64,
    /// The probability that a single entry of an answered batch fails without effect, 0.0 to 1.0;
    /// default 0.0.
    pub failing: f64,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            visibility: VISIBILITY_TIMEOUT,
            max_message_bytes: BATCH_BYTES,
            max_in_flight: 120_000,
            sampling: 1.0,
            depth_lag: Duration::ZERO,
            doubled: 0.0,
            failing: 0.0,
        }
    }
}

/// The state of a message on its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    Visible,
    /// Sent with a delay, ready at this true time.
    Delayed(Timestamp),
    /// Received, visible again at this true time.
    InFlight(Timestamp),
}

/// A message on a queue, read by a test without receiving it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedMessage {
    pub message_id: String,
    pub body: String,
    pub attributes: std::collections::BTreeMap<String, String>,
    pub receive_count: u32,
    pub place: MessageState,
}

#[derive(Debug)]
struct StoredMessage {
    id: String,
    body: Arc<str>,
    attributes: BTreeMap<String, String>,
    sent_at: Timestamp,
    group: Option<String>,
    /// The bit of the server that stores it.
    server: u16,
    receive_count: u32,
    place: MessageState,
}

/// One SQS queue. Every method takes the current time, which must not decrease.
#[derive(Debug, Default)]
// More than 12 fields: one for each attribute of an SQS queue, and the messages.
pub(super) struct Queue {
    pub(super) settings: QueueSettings,
    pub(super) fifo: bool,
    pub(super) tags: BTreeMap<String, String>,
    /// Wakes long polls.
    pub(super) changed: Arc<Notify>,
    /// Part of every receipt, so that receipts of other queues are refused.
    tag: u64,
    next: u64,
    messages: BTreeMap<u64, StoredMessage>,
    visible: BTreeSet<u64>,
    /// Delayed messages and messages in flight, ordered by the time at which they become visible.
    hidden: BTreeSet<(Timestamp, u64)>,
    in_flight: usize,
    /// Messages in flight by FIFO group: while a group has one, none of its others is delivered.
    locks: HashMap<String, usize>,
    remembered: HashMap<DeduplicationKey, Timestamp>,
    forgetting: VecDeque<(Timestamp, DeduplicationKey)>,
    /// The depth that `GetQueueAttributes` shows, and the time until which it stays as it is.
    shown_depth: (QueueDepth, Timestamp),
    /// Deliveries that come once more, each from a time on, though the message may be deleted.
    again: Vec<(Timestamp, Received)>,
    /// Identities of the messages that were put here with one, each with the time.
    pub(super) taken: Vec<(Timestamp, String)>,
    /// Bodies of messages that were delivered twice without a need, each with the time of that
    /// decision.
    pub(super) doubled: Vec<(Timestamp, String)>,
}

impl Queue {
    pub(super) fn new(settings: QueueSettings, fifo: bool, tag: u64) -> Self {
        Self { settings, fifo, tag, ..Self::default() }
    }

    /// Puts `message` on the queue. If its deduplication id is remembered, the message is
    /// acknowledged and not stored.
    pub(super) fn send(&mut self, now: Timestamp, message: &Outgoing, id: String) -> Entry {
        check::message(message, self.fifo, self.settings.max_message_bytes)?;
        self.advance(now);
        if self.is_repeated(now, message) {
            return Ok(());
        }
        let sequence = self.next;
        self.next += 1;
        if let Some((_, identity)) = message.attributes.iter().find(|(name, _)| *name == "identity")
        {
            self.taken.push((now, identity.clone()));
        }
        let attributes = message.attributes.iter();
        let group = message.fifo.as_ref().map(|fifo| fifo.group.clone());
        self.messages.insert(
            sequence,
            StoredMessage {
                id,
                // A copy, as over a network: no later change of the sender shows here.
                body: Arc::from(&*message.body),
                attributes: attributes.map(|(n, v)| ((*n).to_owned(), v.clone())).collect(),
                sent_at: now,
                server: self.server(sequence, group.as_ref()),
                group,
                receive_count: 0,
                place: MessageState::Visible,
            },
        );
        self.visible.insert(sequence);
        if !message.delay.is_zero() {
            self.put(sequence, MessageState::Delayed(now + message.delay));
        }
        Ok(())
    }

    /// The bit of the server that stores a message. All messages of a FIFO group are on one server.
    fn server(&self, sequence: u64, group: Option<&String>) -> u16 {
        let mut hasher = DefaultHasher::new();
        self.tag.hash(&mut hasher);
        match group {
            Some(group) => group.hash(&mut hasher),
            None => sequence.hash(&mut hasher),
        }
        1 << (hasher.finish() % u64::from(SERVERS))
    }

    fn is_repeated(&mut self, now: Timestamp, message: &Outgoing) -> bool {
        let Some(fifo) = &message.fifo else { return false };
        let key = (fifo.group.clone(), fifo.deduplication.clone());
        if self.remembered.contains_key(&key) {
            return true;
        }
        let until = now + DEDUPLICATION_INTERVAL;
        // Remembered from the first send on, whether or not the message is deleted later.
        self.remembered.insert(key.clone(), until);
        self.forgetting.push_back((until, key));
        false
    }

    /// Whether the queue has reached its limit of messages in flight.
    pub(super) fn is_at_limit(&mut self, now: Timestamp) -> bool {
        self.advance(now);
        self.in_flight >= self.settings.max_in_flight
    }

    /// Receives at most `max` messages from the servers in the mask `asked`.
    pub(super) fn receive(&mut self, now: Timestamp, max: usize, asked: u16) -> Vec<Received> {
        self.advance(now);
        let mut received = self.take_again(now, max);
        // SQS delivers nothing above its limit of messages in flight.
        let room = self.settings.max_in_flight.saturating_sub(self.in_flight);
        // A poll sees the asked servers only, and a FIFO group with a message in flight is locked.
        let seen = |stored: &StoredMessage| {
            let group = stored.group.as_ref();
            stored.server & asked != 0 && group.is_none_or(|group| !self.locks.contains_key(group))
        };
        let seen = |sequence: &u64| self.messages.get(sequence).is_some_and(seen);
        let taken = self.visible.iter().copied().filter(seen);
        let taken: Vec<u64> = taken.take((max - received.len()).min(room)).collect();
        let until = now + self.settings.visibility;
        received.extend(taken.into_iter().filter_map(|sequence| self.take(sequence, until)));
        received
    }

    /// Delivers the same messages once more from the time `from` on. A FIFO queue does not.
    pub(super) fn deliver_again(&mut self, from: Timestamp, received: &[Received]) {
        if !self.fifo {
            self.again.extend(received.iter().map(|message| (from, message.clone())));
        }
    }

    fn take_again(&mut self, now: Timestamp, max: usize) -> Vec<Received> {
        let mut left = max;
        let due = self.again.extract_if(.., |(from, _)| {
            let is_due = *from <= now && left > 0;
            left -= usize::from(is_due);
            is_due
        });
        due.map(|(_, message)| Received { receive_count: message.receive_count + 1, ..message })
            .collect()
    }

    fn take(&mut self, sequence: u64, until: Timestamp) -> Option<Received> {
        self.put(sequence, MessageState::InFlight(until));
        let tag = self.tag;
        let stored = self.messages.get_mut(&sequence)?;
        stored.receive_count += 1;
        Some(Received {
            message_id: stored.id.clone(),
            receipt: format!("{tag:016x}.{sequence}.{}", stored.receive_count),
            body: Body::from(&*stored.body),
            attributes: stored.attributes.clone(),
            sent_at_millis: stored.sent_at.as_millis(),
            receive_count: stored.receive_count,
        })
    }

    /// Deletes a message by its receipt. With `in_vain` a standard queue acknowledges the delete
    /// without effect, as SQS may.
    ///
    /// A standard queue accepts an expired receipt and ignores a receipt that is not the message's
    /// newest. A FIFO queue refuses both.
    pub(super) fn delete(&mut self, now: Timestamp, receipt: &str, in_vain: bool) -> Entry {
        self.advance(now);
        let (sequence, delivery) = self.read_receipt(receipt)?;
        let Some(stored) = self.messages.get(&sequence) else { return Ok(()) };
        let newest = stored.receive_count == delivery;
        if self.fifo && !(newest && matches!(stored.place, MessageState::InFlight(_))) {
            let message = "The receipt handle has expired";
            return Err(check::entry_error("ReceiptHandleIsInvalid", message));
        }
        if newest && in_vain && !self.fifo {
            self.doubled.push((now, stored.body.to_string()));
        } else if newest {
            self.remove(sequence);
        }
        Ok(())
    }

    /// Makes a message in flight visible again after `after`.
    pub(super) fn set_visibility(
        &mut self,
        now: Timestamp,
        receipt: &str,
        after: Duration,
    ) -> Entry {
        check::visibility(after)?;
        self.advance(now);
        let (sequence, delivery) = self.read_receipt(receipt)?;
        let in_flight = self.messages.get(&sequence).is_some_and(|stored| {
            stored.receive_count == delivery && matches!(stored.place, MessageState::InFlight(_))
        });
        if !in_flight {
            let message = format!(
                "Value {receipt} for parameter ReceiptHandle is invalid. Reason: Message does not \
                 exist or is not available for visibility timeout change."
            );
            return Err(check::entry_error("InvalidParameterValue", message));
        }
        let place = if after.is_zero() {
            MessageState::Visible
        } else {
            MessageState::InFlight(now + after)
        };
        self.put(sequence, place);
        Ok(())
    }

    /// Makes a message of a standard queue that was just received visible again after `after`,
    /// before its timeout.
    pub(super) fn give_again(&mut self, now: Timestamp, receipt: &str, after: Duration) {
        let Ok((sequence, _)) = self.read_receipt(receipt) else { return };
        if let Some(stored) = self.messages.get(&sequence).filter(|_| !self.fifo) {
            self.doubled.push((now, stored.body.to_string()));
            self.put(sequence, MessageState::InFlight(now + after));
        }
    }

    pub(super) fn depth(&mut self, now: Timestamp) -> QueueDepth {
        self.advance(now);
        let hidden = self.hidden.len() - self.in_flight;
        let (visible, in_flight) = (self.visible.len() as u64, self.in_flight as u64);
        QueueDepth { visible, in_flight, delayed: hidden as u64 }
    }

    /// The depth as SQS would report it: up to `depth_lag` old. It is sampled at random times, so
    /// that a caller that asks once per lag sees old values too.
    pub(super) fn shown_depth(&mut self, now: Timestamp) -> QueueDepth {
        self.refresh_depth(now);
        self.shown_depth.0
    }

    /// Samples the shown depth again if the old sample has expired.
    pub(super) fn refresh_depth(&mut self, now: Timestamp) {
        if now < self.shown_depth.1 {
            return;
        }
        let lag = self.settings.depth_lag.mul_f64(self.fraction(now));
        self.shown_depth = (self.depth(now), now + lag);
    }

    /// A pseudo-random number from 0 to 1, derived from the queue and the time.
    fn fraction(&self, now: Timestamp) -> f64 {
        let mut hasher = DefaultHasher::new();
        (self.tag, now).hash(&mut hasher);
        let drawn = u32::try_from(hasher.finish() >> 32).unwrap_or(0);
        f64::from(drawn) / f64::from(u32::MAX)
    }

    /// The earliest time at which a hidden message becomes visible, or one is delivered once more.
    pub(super) fn next_visible(&self) -> Option<Timestamp> {
        let again = self.again.iter().map(|(from, _)| *from);
        self.hidden.first().map(|(at, _)| *at).into_iter().chain(again).min()
    }

    /// All its messages, the oldest first.
    pub(super) fn contents(&mut self, now: Timestamp) -> Vec<QueuedMessage> {
        self.advance(now);
        let standing = |stored: &StoredMessage| QueuedMessage {
            message_id: stored.id.clone(),
            body: stored.body.to_string(),
            attributes: stored.attributes.clone(),
            receive_count: stored.receive_count,
            place: stored.place,
        };
        self.messages.values().map(standing).collect()
    }

    fn read_receipt(&self, receipt: &str) -> Result<(u64, u32), EntryError> {
        let read = || {
            let (tag, rest) = receipt.split_once('.')?;
            let (sequence, delivery) = rest.split_once('.')?;
            let ours = u64::from_str_radix(tag, 16).ok()? == self.tag;
            let (sequence, delivery) = (sequence.parse().ok()?, delivery.parse().ok()?);
            (ours && sequence < self.next).then_some((sequence, delivery))
        };
        read().ok_or_else(|| {
            let message = format!("The receipt handle \"{receipt}\" is not valid for this queue.");
            check::entry_error("ReceiptHandleIsInvalid", message)
        })
    }

    /// Moves messages whose time has come to the visible ones, and drops expired deduplication ids.
    fn advance(&mut self, now: Timestamp) {
        while let Some(&(at, sequence)) = self.hidden.first()
            && at <= now
        {
            self.put(sequence, MessageState::Visible);
        }
        while let Some((until, _)) = self.forgetting.front()
            && *until <= now
        {
            if let Some((_, key)) = self.forgetting.pop_front() {
                self.remembered.remove(&key);
            }
        }
    }

    /// Moves a message to `place`. Only this method changes a message's place, the ordered sets and
    /// the group locks, so these agree at all times.
    fn put(&mut self, sequence: u64, place: MessageState) {
        let Some(stored) = self.messages.get_mut(&sequence) else { return };
        let left = std::mem::replace(&mut stored.place, place);
        let group = stored.group.clone();
        match left {
            MessageState::Visible => {
                self.visible.remove(&sequence);
            }
            MessageState::Delayed(at) | MessageState::InFlight(at) => {
                self.hidden.remove(&(at, sequence));
            }
        }
        match place {
            MessageState::Visible => {
                self.visible.insert(sequence);
            }
            MessageState::Delayed(at) | MessageState::InFlight(at) => {
                self.hidden.insert((at, sequence));
            }
        }
        match (
            matches!(left, MessageState::InFlight(_)),
            matches!(place, MessageState::InFlight(_)),
        ) {
            (false, true) => self.lock(group),
            (true, false) => self.unlock(group),
            _ => {}
        }
    }

    fn remove(&mut self, sequence: u64) {
        self.put(sequence, MessageState::Visible);
        self.visible.remove(&sequence);
        self.messages.remove(&sequence);
    }

    fn lock(&mut self, group: Option<String>) {
        self.in_flight += 1;
        if let Some(group) = group {
            *self.locks.entry(group).or_default() += 1;
        }
    }

    fn unlock(&mut self, group: Option<String>) {
        self.in_flight -= 1;
        if let Some(group) = group
            && let Some(count) = self.locks.get_mut(&group)
        {
            *count -= 1;
            if *count == 0 {
                self.locks.remove(&group);
            }
        }
    }
}
