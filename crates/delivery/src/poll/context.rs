//! References and settings that every stage of one window shares, with the window's clock.

use std::cell::{Cell, RefCell};
use std::error::Error as StdError;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tidegate_core::Timestamp;
use tidegate_core::audit::AuditRecord;
use tidegate_core::bucket::Pace;
use tidegate_core::config::PollerConfig;
use tidegate_core::counters::{Counter, WindowCounts};
use tidegate_core::events::MailFate;
use tidegate_core::exclusions::ExclusionList;
use tidegate_core::identity::Envelope;
use tidegate_core::trace::{SendSpan, TraceParent};

use super::limits::LimitWindow;
use super::plan::Plan;
use super::running_means::RunningMeans;
use crate::ports::{
    Body, Clock, Environment, Monotonic, PortError, Ports, QueueUrl, Queues as _, Received,
};

/// In every 16th window the merge queue is counted by SQS, against drift of the reported depth.
const COUNT_EVERY: u64 = 16;
/// Length of every long poll: `WaitTimeSeconds` 1, SQS's shortest.
const LONG_POLL: Duration = Duration::from_secs(1);

/// Receive count above which something keeps a message from being sent.
const MANY_RECEIVES: u32 = 100;
/// Age above which a message is old. SQS deletes Tidegate's messages after 14 days.
const OLD: Duration = Duration::from_hours(240);

/// Whether a receive waits for mail, for a second at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// No: a short poll.
    No,
    /// As long as the window lasts: a long poll if it ends before the window does, else a short poll.
    Within,
    /// Also past the window's close. The source hands over what comes too late for its slots.
    Past,
}

pub(super) struct Context<'a, E: Environment> {
    pub(super) env: &'a Ports<E>,
    pub(super) config: &'a PollerConfig,
    pub(super) running_means: &'a RunningMeans,
    pub(super) exclusions: &'a ExclusionCache,
    pub(super) plan: &'a Plan,
    pub(super) time: WindowTime,
    /// The random token with which this poller claimed the window.
    pub(super) token: String,
    /// Everything that was counted in this window so far.
    pub(super) counts: RefCell<WindowCounts>,
    pub(super) notes: Notes,
    /// The window's limits: their slots, and the mail in their queues.
    pub(super) limits: LimitWindow,
    /// Messages that the drain received and that are not yet settled.
    pub(super) buffered: Cell<usize>,
    /// The highest receive count of any message of this window.
    pub(super) highest_receive_count: Cell<u32>,
}

/// Of single mails, for whoever reads the run from outside.
#[derive(Default)]
pub(super) struct Notes {
    /// The window's record for the log; none if `TIDEGATE_AUDIT` is `off`.
    pub(super) record: RefCell<Option<Box<AuditRecord>>>,
    /// Mail that SES was not given; none is kept without `TIDEGATE_EVENT_BUS`.
    pub(super) fates: RefCell<Vec<MailFate>>,
    /// Sends whose trace the producer records; none is kept without `TIDEGATE_TRACES`.
    pub(super) sends: RefCell<Vec<SendSpan>>,
}

impl<E: Environment> Context<'_, E> {
    pub(super) fn now(&self) -> Timestamp {
        self.time.now(&self.env.clock)
    }

    /// The rate of this window, and its margin.
    pub(super) fn pace(&self) -> Pace {
        Pace { rate: self.plan.rate, rate_margin: self.plan.rate_margin }
    }

    pub(super) fn count(&self, counter: Counter, count: u64) {
        self.counts.borrow_mut().add(counter, count);
    }

    /// Counts for a campaign, an outcome or a limit, and in the total.
    pub(super) fn count_for(&self, counter: Counter, key: &str, count: u64) {
        self.counts.borrow_mut().add_for(counter, key, count);
    }

    /// Notes a message's receive count and age, which tell operators of mail that cannot be sent.
    pub(super) fn note_received(&self, received: &Received) {
        let count = received.receive_count;
        self.highest_receive_count.set(self.highest_receive_count.get().max(count));
        let age = self.now().saturating_since(Timestamp::from_millis(received.sent_at_millis));
        self.count(Counter::ReceivedOften, u64::from(count > MANY_RECEIVES));
        self.count(Counter::Old, u64::from(age > OLD));
    }

    /// The trace that a mail's events at SES carry: its producer's, if traces are told.
    pub(super) fn trace_of<'m>(&self, envelope: &'m Envelope) -> Option<&'m TraceParent> {
        self.config.traces.as_ref().and(envelope.trace.as_ref())
    }

    /// Notes a mail's fate, for the events.
    pub(super) fn note_fate(&self, fate: MailFate) {
        if self.config.event_bus.is_some() {
            self.notes.fates.borrow_mut().push(fate);
        }
    }

    /// Gives one message's place in the drain's buffer free.
    pub(super) fn free(&self) {
        self.buffered.set(self.buffered.get().saturating_sub(1));
    }

    /// Notes and counts mail that was moved into the limit queue at `place`.
    pub(super) fn note_limited(&self, place: usize, recipients: u64) {
        self.limits.note(Some(place), |moves| moves.fed += recipients);
        self.count_for(Counter::LimitFed, self.plan.limits.name(place), recipients);
    }

    pub(super) fn monotonic(&self) -> Monotonic {
        self.env.clock.monotonic()
    }

    /// The instant `time` after the window's close, on the monotonic clock.
    pub(super) fn after_close(&self, time: Duration) -> Monotonic {
        self.time.monotonic(self.plan.window.closes() + time)
    }

    /// The result of `work`; `None` if it is not done `time` after the window's close. It is dropped then.
    pub(super) async fn within<T>(
        &self,
        time: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        self.until(self.after_close(time), work).await
    }

    /// The result of `work`; `None` if it is not done at an instant.
    pub(super) async fn until<T>(
        &self,
        instant: Monotonic,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let late = pin!(self.env.clock.sleep_until(instant));
        match select(pin!(work), late).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(((), _)) => None,
        }
    }

    /// `WaitTimeSeconds` of a receive that starts now.
    fn seconds_of(&self, wait: Wait) -> Duration {
        let fits = self.now() + LONG_POLL < self.plan.window.closes();
        if wait == Wait::Past || (wait == Wait::Within && fits) {
            LONG_POLL
        } else {
            Duration::ZERO
        }
    }

    /// Time left until `last` before the window's close; zero after that.
    pub(super) fn left_until(&self, last: Duration) -> Duration {
        self.plan.window.closes().saturating_sub(last).saturating_since(self.now())
    }

    /// Receives after a pause, once there is room for the answer: fewer messages than `messages` if there
    /// is less room. The flag says whether it was a long poll; the instant is not later than the begin of
    /// the messages' visibility timeout. Without room by the window's close the answer is empty.
    pub(super) async fn receive(
        &self,
        queue: &QueueUrl,
        messages: u64,
        pause: Duration,
        wait: Wait,
    ) -> (bool, Result<(Vec<Received>, Monotonic), PortError>) {
        if !pause.is_zero() {
            self.env.clock.sleep_until(self.monotonic() + pause).await;
        }
        let since = self.monotonic();
        let reserve = self.running_means.room.reserve(queue, messages, self.seconds_of(wait));
        let Some(reserved) = self.within(Duration::ZERO, reserve).await else {
            return (false, Ok((Vec::new(), since)));
        };
        // The wait for room took time: a long poll may not fit any more.
        let (since, wait) = (self.monotonic(), self.seconds_of(wait));
        let max = usize::try_from(reserved.messages).unwrap_or(1);
        let mut result = self.env.queues.receive(queue, max, wait).await;
        if let Ok(received) = &mut result {
            for message in &mut *received {
                message.body = mem::replace(&mut message.body, Body::from("")).received();
            }
            reserved.hold(received);
        }
        (!wait.is_zero(), result.map(|received| (received, since)))
    }

    /// Whether this window compares the merge queue's reported depth with SQS's count.
    pub(super) fn counts_merge(&self) -> bool {
        self.plan.window.epoch_second().is_multiple_of(COUNT_EVERY)
    }
}

/// The error of work that failed within its time, for the log.
pub(super) fn cause<T>(failed: Option<&Result<T, PortError>>) -> Option<&(dyn StdError + 'static)> {
    failed?.as_ref().err().map(|error| error as &dyn StdError)
}

/// Both clocks' readings when the poller began. A wall clock that is set meanwhile moves no slot.
///
/// Example: the poller began at wall 100.000 s and monotonic 7.000 s. At monotonic 7.250 s it is 100.250 s,
/// whatever the wall clock shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowTime {
    wall: Timestamp,
    monotonic: Monotonic,
}

impl WindowTime {
    pub(super) fn start(clock: &impl Clock) -> Self {
        let (wall, monotonic) = clock.now();
        Self { wall, monotonic }
    }

    /// When the poller began.
    pub(super) fn began(self) -> Timestamp {
        self.wall
    }

    pub(super) fn now(self, clock: &impl Clock) -> Timestamp {
        self.wall(clock.monotonic())
    }

    /// The time of `at` on the wall clock.
    pub(super) fn wall(self, at: Monotonic) -> Timestamp {
        self.wall + at.saturating_since(self.monotonic)
    }

    /// The instant of `at` on the monotonic clock.
    pub(super) fn monotonic(self, at: Timestamp) -> Monotonic {
        if at >= self.wall {
            return self.monotonic + at.saturating_since(self.wall);
        }
        let before = self.wall.saturating_since(at);
        Monotonic::from_origin(self.monotonic.since_origin().saturating_sub(before))
    }
}

/// The list as it was last read, and its version; none before it was read. It needs 8 bytes for each address.
pub(super) type ExclusionCache = RefCell<Option<(u64, Arc<ExclusionList>)>>;
