#![expect(clippy::unwrap_used, reason = "a test's own settings, and fakes that answer")]

use std::ops::{Deref, DerefMut};

use tidegate_core::control::Control;
use tidegate_core::counters::Counter;
use tidegate_core::dead_letter::DeadLetter;
use tidegate_delivery::ports::{Outgoing, Standing};
use tidegate_fakes::QueuedMessage;
use tidegate_simulator::{DEAD_LETTERS, ProducedMail, WorldSettings, measure};

use super::rate;

/// A [`tidegate_simulator::World`] for tests: what fails is a panic.
#[derive(Debug)]
pub struct World(tidegate_simulator::World);

impl Deref for World {
    type Target = tidegate_simulator::World;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl World {
    /// A world with empty queues. Must be called inside a paused tokio runtime.
    ///
    /// # Panics
    /// On settings that make none.
    pub fn new(settings: WorldSettings) -> Self {
        Self(tidegate_simulator::World::new(settings).unwrap())
    }

    /// The sum of a counter over all reports.
    pub fn counted(&self, counter: Counter) -> u64 {
        self.reports().iter().map(|report| report.count(counter)).sum()
    }

    /// Puts mails on the queue of this name, as producers do; they count as accepted.
    ///
    /// # Panics
    /// Where the queue does not take them.
    pub async fn put(&self, queue: &str, mails: &[ProducedMail]) {
        self.0.put(queue, mails).await.unwrap();
    }

    /// Puts messages on the queue of this name, whatever they are.
    ///
    /// # Panics
    /// Where the queue does not take them.
    pub async fn put_raw(&self, queue: &str, messages: &[Outgoing]) {
        self.0.put_raw(queue, messages).await.unwrap();
    }

    /// Puts `count` mails of one recipient on a campaign's queue, `name-0` and so on.
    ///
    /// # Panics
    /// Where the queue does not take them.
    pub async fn fill(&self, campaign: &str, count: usize) {
        self.0.fill(campaign, count).await.unwrap();
    }

    /// What stands in the ledger.
    ///
    /// # Panics
    /// Never: the memory ledger answers.
    pub async fn ledger_now(&self) -> Standing {
        self.0.ledger_now().await.unwrap()
    }

    /// Changes the control record, as an operator does.
    ///
    /// # Panics
    /// Where another writer came in between.
    pub async fn control(&self, change: impl FnOnce(&mut Control)) {
        assert!(self.0.control(change).await.unwrap(), "another writer");
    }

    /// The dead letters.
    ///
    /// # Panics
    /// On a message of the dead-letter queue that is none.
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        let read = |message: QueuedMessage| {
            let attribute = |name: &str| message.attributes.get(name).map(String::as_str);
            DeadLetter::from_queue_message(&message.body, attribute).unwrap()
        };
        self.contents(DEAD_LETTERS).into_iter().map(read).collect()
    }

    /// Asserts that every mail was sent or stands on a queue.
    ///
    /// # Panics
    /// Where one is neither.
    #[track_caller]
    pub fn assert_nothing_lost(&self) {
        assert_eq!(self.lost(), Vec::<String>::new(), "lost");
    }

    /// Asserts what holds after every run: nothing lost, nothing refused, nothing sent twice, and
    /// no second above ⌈quota⌉.
    ///
    /// # Panics
    /// Where one of these does not hold.
    #[track_caller]
    pub fn assert_clean(&self) {
        self.assert_nothing_lost();
        assert_eq!(self.duplicates(), Vec::<String>::new(), "sent twice");
        assert_eq!(self.refused(), 0, "refused");
        let most = rate(self.settings.quota).ceil();
        let worst = measure::worst_second(&self.ses.arrivals());
        assert!(worst <= most, "{worst} in one second, {most} allowed");
    }
}
