//! How many receives of one queue may run at once, and when it counts as empty.
//!
//! An empty short poll does not mean that a queue is empty: SQS asks a sample of its servers, and for
//! queues below 1,000 messages a short poll often returns few messages or none ("Amazon SQS short and long
//! polling" in AWS's Developer Guide). So a queue counts as empty after one empty long poll, which asks all
//! servers, or after 3 empty short polls in a row; after 6 if anything suggests that it has mail. The polls
//! are 4, 8, 16, … 64 ms apart: 6 polls take 124 ms of the window. An error says nothing about the queue;
//! after 8 in a row (252 ms of pauses) other campaigns get its part of the window.
//!
//! One receive may always run. More run at once only while the queue is known to hold more: the depth says
//! so, it was not found empty before, or its last answer was as full as was asked. Example: nothing is
//! known of a queue, so one receive asks for 10 messages. It brings 10, so 30 more are expected: three
//! receives of 10 may run at once.

use std::time::Duration;

use tidegate_core::allocation::{Ask, BATCH, Intake};
use tidegate_core::breaker::Permit;

use crate::poll::plan::Plan;

/// The most receives that feed and drain each have under way: a receive takes a connection, and an
/// environment on Lambda has 1,024 file descriptors.
pub(crate) const MOST_RECEIVES: usize = 100;
/// Empty short polls in a row after which a queue counts as empty for this window.
const EMPTY_POLLS: u32 = 3;
/// The same for a queue that should have mail: it was counted, its last answer was as full as was asked, or
/// it was not found empty in the windows before.
const EMPTY_POLLS_OF_MAIL: u32 = 6;
/// Failed receives in a row after which other campaigns get a queue's part of the window.
const FAILED_POLLS: u32 = 8;
/// Pause before the first repeated poll; it doubles up to 16 times this (64 ms).
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// The conclusion from one answer about its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollVerdict {
    Mail,
    /// The answer leaves it open: the queue is asked again after a pause.
    Again,
    /// The queue's receives fail again and again: others get its part of this window. It may hold mail all
    /// the same.
    Failing,
    Empty,
}

impl PollVerdict {
    /// Whether the queue is asked no more in this window, unless mail arrives.
    pub(crate) const fn is_dry(self) -> bool {
        matches!(self, Self::Failing | Self::Empty)
    }

    /// Passes the conclusion on to the intake: `ask` brought `messages` with `recipients` together. After
    /// an answer that leaves it open the ask is taken back, so that its recipients are wanted again.
    pub(crate) fn apply_to(self, intake: &mut Intake, ask: &Ask, messages: u64, recipients: u64) {
        match self {
            Self::Mail | Self::Empty => intake.received(ask, messages, recipients),
            Self::Again => intake.withdraw(ask),
            Self::Failing => {
                intake.withdraw(ask);
                intake.mark_dry(ask.lane);
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueSupply {
    outstanding: u64,
    /// Messages that it probably holds: those counted, less those received, plus 30 after each full answer.
    expected: u64,
    /// It was not found empty in the windows before: no bound on its receives but what is wanted.
    plenty: bool,
    /// Empty answers and failures in a row.
    vain: u32,
    /// The last answer brought less than was asked.
    short: bool,
}

impl QueueSupply {
    /// Supply of a queue that probably holds `expected` messages.
    pub(crate) const fn expecting(expected: u64) -> Self {
        Self { outstanding: 0, expected, plenty: false, vain: 0, short: false }
    }

    /// Supply of a campaign's queue. It is unbounded (`plenty`) if the queue was not found empty before.
    pub(crate) const fn of(plenty: bool) -> Self {
        Self { plenty, ..Self::expecting(0) }
    }

    /// Whether another receive may run now. The first may, if its pause ends within `left`; a further one
    /// only if the last answer had mail, or none came yet, and the queue is expected to hold more than is
    /// already asked for.
    pub(crate) fn may_ask(&self, left: Duration) -> bool {
        let more = self.vain == 0 && (self.plenty || self.outstanding < self.expected);
        (self.outstanding == 0 || more) && self.pause() <= left
    }

    /// Pause before the next receive: none after mail, then 4, 8, 16, 32, 64, 64, … ms after 1, 2, 3, …
    /// answers without a message.
    pub(crate) fn pause(&self) -> Duration {
        self.vain.checked_sub(1).map_or(Duration::ZERO, |times| FIRST_PAUSE * (1 << times.min(4)))
    }

    /// Whether an answer is awaited that may bring all that is wanted.
    pub(crate) const fn may_give_all(&self) -> bool {
        self.outstanding > 0 && !self.short
    }

    /// Whether the queue should hold more mail.
    pub(crate) const fn is_expected(&self) -> bool {
        self.plenty || self.expected > 0
    }

    pub(crate) const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    pub(crate) const fn asked(&mut self, messages: u64) {
        self.outstanding = self.outstanding.saturating_add(messages);
    }

    /// A receive from a campaign that was found empty, to learn whether mail came. It asks for 10 messages,
    /// or for one if the breaker wants a single mail; its recipients are no part of the shares.
    pub(crate) fn probe(&mut self, plan: &Plan, lane: usize) -> Ask {
        let messages = if plan.permit == Permit::Probe { 1 } else { BATCH };
        self.asked(messages);
        Ask { lane, messages, recipients: 0 }
    }

    /// Notes an answer of `got` messages to a receive that asked for `asked`; `None` is a failed receive,
    /// `long` a long poll.
    ///
    /// Example: a short poll of a queue of unknown contents is empty: `Again`. Two more are empty: the
    /// third gives `Empty`. Had the queue been expected to hold 7 messages, only the sixth would.
    pub(crate) fn answered(&mut self, asked: u64, got: Option<u64>, long: bool) -> PollVerdict {
        self.outstanding = self.outstanding.saturating_sub(asked);
        let messages = got.unwrap_or(0);
        self.vain = if messages > 0 { 0 } else { self.vain.saturating_add(1) };
        self.short = messages < asked;
        let patience = if self.is_expected() { EMPTY_POLLS_OF_MAIL } else { EMPTY_POLLS };
        match got {
            // Empty answers count too: a queue that alternates between errors and nothing must not be asked
            // for ever.
            None if self.vain >= FAILED_POLLS => PollVerdict::Failing,
            Some(0) if long || self.vain >= patience => PollVerdict::Empty,
            None | Some(0) => PollVerdict::Again,
            Some(_) => {
                // A full answer promises more. 30 let three receives run, which raise this again if they
                // are full.
                self.expected = self.expected.saturating_sub(messages);
                if messages >= asked {
                    self.expected = self.expected.saturating_add(3 * BATCH);
                }
                PollVerdict::Mail
            }
        }
    }

    /// Notes that `messages` came to stand in it: it is asked at once, without the rest of the pause.
    pub(crate) const fn arrived(&mut self, messages: u64) {
        self.expected = self.expected.saturating_add(messages);
        self.vain = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Duration = Duration::from_secs(1);

    #[test]
    fn a_queue_that_may_be_empty_is_asked_once_until_it_gives() {
        let mut supply = QueueSupply::expecting(0);
        assert!(supply.may_ask(LEFT));
        supply.asked(10);
        assert!(!supply.may_ask(LEFT));
        assert_eq!(supply.answered(10, Some(10), false), PollVerdict::Mail);
        supply.asked(10);
        assert!(supply.may_ask(LEFT));
    }

    #[test]
    fn a_queue_may_give_all_until_an_answer_is_short() {
        let mut supply = QueueSupply::of(false);
        assert!(!supply.may_give_all(), "nothing was asked");
        for (got, may) in [(10, true), (3, false), (10, true), (0, false)] {
            supply.asked(10);
            supply.answered(10, Some(got), false);
            supply.asked(10);
            assert_eq!(supply.may_give_all(), may, "{got}");
            supply.answered(10, Some(got), false);
        }
    }

    /// The verdicts after `times` answers `got`, and the sum of the pauses between them.
    fn vain(
        mut supply: QueueSupply,
        got: Option<u64>,
        times: usize,
    ) -> (Vec<PollVerdict>, Duration) {
        let mut paused = Duration::ZERO;
        let mut answer = || {
            paused += supply.pause();
            supply.asked(10);
            supply.answered(10, got, false)
        };
        ((0..times).map(|_| answer()).collect(), paused)
    }

    #[test]
    fn a_queue_is_empty_after_one_long_poll_or_several_short_ones() {
        assert_eq!(QueueSupply::expecting(7).answered(10, Some(0), true), PollVerdict::Empty);
        let (verdicts, _) = vain(QueueSupply::expecting(0), Some(0), 3);
        assert_eq!(verdicts, [PollVerdict::Again, PollVerdict::Again, PollVerdict::Empty]);
        let (verdicts, paused) = vain(QueueSupply::expecting(7), Some(0), 6);
        assert_eq!((verdicts[4], verdicts[5]), (PollVerdict::Again, PollVerdict::Empty));
        assert_eq!(paused, Duration::from_millis(4 + 8 + 16 + 32 + 64));
    }

    #[test]
    fn a_failed_receive_says_nothing_of_its_queue() {
        let (verdicts, paused) = vain(QueueSupply::expecting(0), None, 8);
        assert_eq!(verdicts[..7], [PollVerdict::Again; 7]);
        assert_eq!(verdicts[7], PollVerdict::Failing);
        assert!(paused < LEFT, "{paused:?}");
    }

    #[test]
    fn a_queue_is_asked_again_only_where_its_pause_ends_in_time() {
        let mut supply = QueueSupply::expecting(0);
        supply.asked(10);
        supply.answered(10, None, false);
        assert!(supply.may_ask(FIRST_PAUSE));
        assert!(!supply.may_ask(FIRST_PAUSE / 2));
        supply.arrived(1);
        assert!(supply.may_ask(Duration::ZERO), "mail came: there is nothing to wait for");
    }
}
