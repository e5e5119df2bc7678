//! The queue against a model that is too plain to be wrong: one list, searched every time.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::Timestamp;
use tidegate_delivery::ports::{Fifo, Outgoing, QueueDepth};

use crate::queues::QueueSettings;
use crate::queues::queue::{ALL_SERVERS, DEDUPLICATION_INTERVAL, Queue};

#[derive(Clone, Debug)]
enum Step {
    Send { group: u8, deduplication: u8, delay: u64 },
    Receive { max: usize },
    Delete { receipt: prop::sample::Index },
    SetVisibility { receipt: prop::sample::Index, after: u64 },
    Pass { millis: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let receipt = any::<prop::sample::Index>;
    prop_oneof![
        3 => (0_u8..3, 0_u8..12, 0_u64..20).prop_map(|(group, deduplication, delay)| Step::Send {
            group,
            deduplication,
            delay: delay.saturating_sub(10),
        }),
        3 => (1_usize..=10).prop_map(|max| Step::Receive { max }),
        2 => receipt().prop_map(|receipt| Step::Delete { receipt }),
        1 => (receipt(), 0_u64..40).prop_map(|(receipt, after)| Step::SetVisibility {
            receipt,
            after: after.saturating_sub(10),
        }),
        2 => (0_u64..20_000).prop_map(|millis| Step::Pass { millis }),
        1 => Just(Step::Pass { millis: 150_000 }),
    ]
}

/// A message of the model; `hidden_until` of one that was received is its visibility.
#[derive(Debug)]
struct ModelMessage {
    group: Option<u8>,
    hidden_until: Timestamp,
    received: u32,
    deleted: bool,
}

#[derive(Default)]
struct Model {
    fifo: bool,
    now: Timestamp,
    messages: Vec<ModelMessage>,
    accepted: Vec<(u8, u8, Timestamp)>,
}

impl Model {
    fn in_flight(&self, message: &ModelMessage) -> bool {
        !message.deleted && message.received > 0 && message.hidden_until > self.now
    }

    fn send(&mut self, group: u8, deduplication: u8, delay: u64) {
        if self.fifo {
            let known = self.accepted.iter().any(|(g, d, at)| {
                (*g, *d) == (group, deduplication) && *at + DEDUPLICATION_INTERVAL > self.now
            });
            if known {
                return;
            }
            self.accepted.push((group, deduplication, self.now));
        }
        let hidden_until = self.now + Duration::from_secs(delay);
        let group = self.fifo.then_some(group);
        self.messages.push(ModelMessage { group, hidden_until, received: 0, deleted: false });
    }

    fn receive(&mut self, max: usize) -> Vec<(usize, u32)> {
        let locked: Vec<Option<u8>> =
            self.messages.iter().filter(|m| self.in_flight(m)).map(|m| m.group).collect();
        let ready = |m: &ModelMessage| !m.deleted && m.hidden_until <= self.now;
        let free = |m: &ModelMessage| m.group.is_none() || !locked.contains(&m.group);
        let ready = self.messages.iter().map(|m| ready(m) && free(m)).collect::<Vec<_>>();
        let taken = ready.iter().enumerate().filter(|(_, ready)| **ready).map(|(i, _)| i).take(max);
        let until = self.now + QueueSettings::default().visibility;
        taken
            .map(|i| {
                self.messages[i].received += 1;
                self.messages[i].hidden_until = until;
                (i, self.messages[i].received)
            })
            .collect()
    }

    fn delete(&mut self, i: usize, delivery: u32) -> bool {
        let newest = self.messages[i].received == delivery;
        if self.messages[i].deleted {
            return true;
        }
        if self.fifo && !(newest && self.in_flight(&self.messages[i])) {
            return false;
        }
        self.messages[i].deleted = newest;
        true
    }

    fn set_visibility(&mut self, i: usize, delivery: u32, after: u64) -> bool {
        let message = &self.messages[i];
        let can = message.received == delivery && self.in_flight(message);
        if can {
            self.messages[i].hidden_until = self.now + Duration::from_secs(after);
        }
        can
    }

    fn depth(&self) -> QueueDepth {
        let hidden = |m: &&ModelMessage| !m.deleted && m.hidden_until > self.now;
        let count = |n: usize| n as u64;
        let in_flight = self.messages.iter().filter(|m| self.in_flight(m)).count();
        let delayed = self.messages.iter().filter(hidden).count() - in_flight;
        let kept = self.messages.iter().filter(|m| !m.deleted).count();
        QueueDepth {
            visible: count(kept - in_flight - delayed),
            in_flight: count(in_flight),
            delayed: count(delayed),
        }
    }
}

fn outgoing(fifo: bool, group: u8, deduplication: u8, delay: u64) -> Outgoing {
    Outgoing {
        body: "body".into(),
        attributes: vec![],
        delay: Duration::from_secs(if fifo { 0 } else { delay }),
        fifo: fifo
            .then(|| Fifo { group: group.to_string(), deduplication: deduplication.to_string() }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]
    #[test]
    fn a_queue_does_what_the_plain_model_does(
        fifo: bool, steps in prop::collection::vec(step(), 1..120),
    ) {
        let now = Timestamp::from_millis(1_000);
        let mut queue = Queue::new(QueueSettings::default(), fifo, 7);
        let mut model = Model { fifo, now, ..Model::default() };
        // Each delivery's receipt, and which delivery of which message it is.
        let mut receipts: Vec<(String, (usize, u32))> = Vec::new();
        for step in steps {
            let now = model.now;
            match step {
                Step::Send { group, deduplication, delay } => {
                    let message = outgoing(fifo, group, deduplication, delay);
                    // The model's number of the message, as its id.
                    let id = model.messages.len().to_string();
                    prop_assert_eq!(queue.send(now, &message, id), Ok(()));
                    model.send(group, deduplication, if fifo { 0 } else { delay });
                }
                Step::Receive { max } => {
                    let received = queue.receive(now, max, ALL_SERVERS);
                    let got: Vec<(usize, u32)> = received
                        .iter()
                        .map(|m| (m.message_id.parse().unwrap(), m.receive_count))
                        .collect();
                    prop_assert_eq!(&got, &model.receive(max));
                    receipts.extend(received.into_iter().map(|m| m.receipt).zip(got));
                }
                Step::Delete { receipt } if !receipts.is_empty() => {
                    let (receipt, delivery) = receipt.get(&receipts);
                    let deleted = queue.delete(now, receipt, false);
                    prop_assert_eq!(deleted.is_ok(), model.delete(delivery.0, delivery.1));
                }
                Step::SetVisibility { receipt, after } if !receipts.is_empty() => {
                    let (receipt, delivery) = receipt.get(&receipts);
                    let changed = queue.set_visibility(now, receipt, Duration::from_secs(after));
                    prop_assert_eq!(changed.is_ok(), model.set_visibility(delivery.0, delivery.1, after));
                }
                Step::Pass { millis } => model.now = now + Duration::from_millis(millis),
                Step::Delete { .. } | Step::SetVisibility { .. } => {}
            }
            prop_assert_eq!(queue.depth(model.now), model.depth());
        }
    }
}
