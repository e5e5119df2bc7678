//! How many receives of one queue may run at once: few while it may be empty, as many as are
//! wanted while it gives; and when it counts as empty.

use std::time::Duration;

use tidegate_core::allocation::{Ask, BATCH, Intake};
use tidegate_core::breaker::Permit;

use super::plan::{Plan, PlannedCampaign};

/// Receives that feed or drain have under way at most: each takes a connection, of the thousand file
/// descriptors that an environment has.
pub(super) const MOST_RECEIVES: usize = 100;
/// Polls in a row without a mail after which a queue counts as empty for the window: short polls ask
/// some of SQS's servers only, and below a thousand messages often find few or none.
const EMPTY_POLLS: u32 = 3;
/// The same where mail should be there: it was counted, came as full as was asked, or came in the
/// windows before.
const EMPTY_POLLS_OF_MAIL: u32 = 6;
/// Failed receives in a row after which others take a queue's part of the window.
const FAILED_POLLS: u32 = 8;
/// The pause before the first repeated poll; it doubles, to 16 times this at most.
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// What an answer says of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollVerdict {
    /// It has mail.
    Mail,
    /// Nothing is said: it is asked again after a pause.
    Again,
    /// It fails time and again: others take its part of this window. It may well hold mail.
    Failing,
    /// It is empty.
    Empty,
}

impl PollVerdict {
    /// Whether the queue gives nothing more in this window.
    pub(super) const fn is_dry(self) -> bool {
        matches!(self, Self::Failing | Self::Empty)
    }

    /// Tells the intake what `ask` came to: `messages` with `recipients` together, or nothing that counts.
    pub(super) fn tell(self, intake: &mut Intake, ask: &Ask, messages: u64, recipients: u64) {
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
pub(super) struct QueueSupply {
    /// Messages asked for and not answered.
    outstanding: u64,
    /// Messages it is known to hold, by what was counted or what it gave.
    expected: u64,
    /// It was not found empty: as many receives may run as are wanted.
    plenty: bool,
    /// Answers in a row without a message, and failures.
    vain: u32,
}

impl QueueSupply {
    /// Of a queue thought to hold `expected` messages.
    pub(super) const fn expecting(expected: u64) -> Self {
        Self { outstanding: 0, expected, plenty: false, vain: 0 }
    }

    /// Of a campaign: plenty, unless it was found empty.
    pub(super) fn of(plan: &Plan, campaign: &PlannedCampaign) -> Self {
        let plenty = plan.asks(campaign) && campaign.idle.is_none();
        Self { plenty, ..Self::expecting(0) }
    }

    /// One receive may always run, if it can start within `left`; more while the queue is thought to
    /// hold more.
    pub(super) fn may_ask(&self, left: Duration) -> bool {
        let more = self.vain == 0 && (self.plenty || self.outstanding < self.expected);
        (self.outstanding == 0 || more) && self.pause() <= left
    }

    /// How long the next receive is put off: 4, 8, … 64 ms after answers without a message.
    pub(super) fn pause(&self) -> Duration {
        self.vain.checked_sub(1).map_or(Duration::ZERO, |times| FIRST_PAUSE * (1 << times.min(4)))
    }

    pub(super) const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    pub(super) const fn asked(&mut self, messages: u64) {
        self.outstanding = self.outstanding.saturating_add(messages);
    }

    /// A receive beside the shares, of a campaign that was found empty: of a batch, or of one message
    /// where the circuit breaker wants no more.
    pub(super) fn probe(&mut self, plan: &Plan, lane: usize) -> Ask {
        let messages = if plan.permit == Permit::Probe { 1 } else { BATCH };
        self.asked(messages);
        Ask { lane, messages, recipients: 0 }
    }

    /// Notes an answer of so many messages, none where the receive failed: one as full as was asked
    /// promises more.
    pub(super) fn answered(&mut self, asked: u64, got: Option<u64>, long: bool) -> PollVerdict {
        self.outstanding = self.outstanding.saturating_sub(asked);
        let messages = got.unwrap_or(0);
        self.vain = if messages > 0 { 0 } else { self.vain.saturating_add(1) };
        let suggested = self.plenty || self.expected > 0;
        let patience = if suggested { EMPTY_POLLS_OF_MAIL } else { EMPTY_POLLS };
        match got {
            None if self.vain >= FAILED_POLLS => PollVerdict::Failing,
            Some(0) if long || self.vain >= patience => PollVerdict::Empty,
            None | Some(0) => PollVerdict::Again,
            Some(_) => {
                self.expected = self.expected.saturating_sub(messages);
                if messages >= asked {
                    self.expected = self.expected.saturating_add(3 * BATCH);
                }
                PollVerdict::Mail
            }
        }
    }

    /// Notes that so many more came to stand in it.
    pub(super) const fn arrived(&mut self, messages: u64) {
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

    /// The verdicts of so many answers without a message, and the pauses before the next.
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
