mod crashes;
mod pages;
mod reading;
mod replaying;

use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::dead_letter::{DeadLetter, LastError, SQS_LIMIT_BYTES};
use tidegate_core::deduplication::Deduplication;
use tidegate_core::email::AllowedSenders;
use tidegate_core::identity::{Envelope, EpochMillis, Identity};
use tidegate_delivery::ports::{Outgoing, QueueUrl, Queues as _};
use tidegate_fakes::{
    FaultPlan, MemoryLedger, MemoryQueues, QueueSettings, QueuedMessage, SimClock, Universe,
};

use super::*;
use crate::mcp::tests::assert_answer;
use crate::steer::Author;

const NOW: Timestamp = Timestamp::from_millis(1_795_206_967_042);
const FAST: ReplayPace = ReplayPace { per_second: 100.0, backlog: 1_000 };

/// Queues, ledger and clock, with a plan of their faults.
struct Bench {
    universe: Universe,
    memory: MemoryQueues,
    queues: MemoryQueues,
    ledger: MemoryLedger,
    clock: SimClock,
    plan: FaultPlan,
    dead: QueueUrl,
    deduplication: Deduplication,
}

fn url(name: &str) -> QueueUrl {
    QueueUrl::new(format!("https://sqs.example/{name}"))
}

impl Bench {
    fn new() -> Self {
        let universe = Universe::starting_at(NOW);
        let memory = MemoryQueues::new(universe, 1);
        for name in ["big", "small", "dead"] {
            memory.create(&url(name), QueueSettings::default());
        }
        let plan = FaultPlan::new(universe, 2);
        Self {
            universe,
            queues: memory.client().with_faults(&plan),
            ledger: MemoryLedger::default().with_faults(&plan),
            clock: universe.clock(),
            memory,
            plan,
            dead: url("dead"),
            deduplication: Deduplication::Off,
        }
    }

    async fn put(&self, letters: &[Outgoing]) {
        for batch in letters.chunks(10) {
            let entries = self.memory.send(&self.dead, batch).await.unwrap();
            assert!(entries.iter().all(Result::is_ok));
        }
    }

    async fn read(&self) -> LetterSnapshot {
        read(&self.queues, &self.clock, &self.dead, 1_000, pending(), |_| {}).await.unwrap()
    }

    async fn review(&self, filter: LetterFilter, include_unknown: bool) -> Review {
        let reading = self.read().await;
        self.review_of(&reading, filter, include_unknown).await
    }

    async fn review_of(
        &self,
        reading: &LetterSnapshot,
        filter: LetterFilter,
        include_unknown: bool,
    ) -> Review {
        let options = ReviewOptions {
            filter,
            include_unknown,
            drop_sent: include_unknown,
            campaign_queues: ["big", "small"].map(|name| (name.to_owned(), url(name))).into(),
            rules: AllowedSenders::everyone().into(),
            deduplication: self.deduplication,
        };
        let review = review(reading, &options, &self.ledger, self.universe.now()).await.unwrap();
        assert_answer("dead_replay", &review);
        review
    }

    async fn replay(&self, review: &Review, pace: ReplayPace) -> Result<LetterReport, LetterError> {
        let site = LetterPorts {
            queues: &self.queues,
            dead_letters: &self.dead,
            ledger: &self.ledger,
            clock: &self.clock,
        };
        let ended = carry_out(&site, &review.work, &author(), pace, pending(), |_| {}).await;
        ended.inspect(|report| assert_answer("dead_replay", report))
    }

    fn standing(&self, queue: &str) -> Vec<QueuedMessage> {
        self.memory.contents(&url(queue))
    }

    /// The mails on a campaign's queue: how often each identity with its pass stands there.
    fn mails(&self, queue: &str) -> BTreeMap<(String, String), u32> {
        let mut mails = BTreeMap::new();
        for message in self.standing(queue) {
            let attribute = |name: &str| message.attributes[name].clone();
            *mails.entry((attribute("identity"), attribute("pass"))).or_insert(0) += 1;
        }
        mails
    }
}

fn author() -> Author {
    Author { by: "user/ada".to_owned(), reason: "the sender is verified now".to_owned() }
}

fn body(id: &str) -> String {
    format!(
        r#"{{"id": "{id}", "to_address": "{id}@example.com", "from_address": "news@example.org", "subject": "Hello", "body": "Text."}}"#
    )
}

/// A letter as the poller writes it of a mail that SES refused.
fn refused(campaign: &str, id: &str, code: &str) -> Outgoing {
    letter(campaign, id, (Some(code), Some(400)), "Email address is on the suppression list")
}

/// A letter as the poller writes it of a mail that it parked.
fn parked(campaign: &str, id: &str) -> Outgoing {
    letter(campaign, id, (Some("unknown"), None), "its outcome is not known")
}

fn letter(
    campaign: &str,
    id: &str,
    (code, http_status): (Option<&str>, Option<u16>),
    said: &str,
) -> Outgoing {
    let at = EpochMillis::from(NOW.saturating_sub(Duration::from_mins(1)));
    let envelope = Envelope::fresh(campaign, Identity::from_body_id(campaign, id), at).parked();
    let entry = DeadLetter {
        message_id: format!("sqs-{id}"),
        campaign: campaign.to_owned(),
        to: vec![format!("{id}@example.com")],
        first_attempt_at: Some(at),
        last_attempt_at: Some(at),
        attempts: 1,
        last_error: LastError {
            code: code.map(str::to_owned),
            http_status,
            provider_message: said.to_owned(),
        },
        message: body(id),
    };
    let message = entry.into_queue_message(Some(&envelope), SQS_LIMIT_BYTES).unwrap();
    raw(message.body, message.attributes)
}

fn raw(body: String, attributes: Vec<(&'static str, String)>) -> Outgoing {
    Outgoing { body: body.into(), attributes, delay: Duration::ZERO, fifo: None }
}

fn several(count: usize) -> Vec<Outgoing> {
    (0..count).map(|n| refused("big", &format!("m-{n}"), "MessageRejected")).collect()
}
