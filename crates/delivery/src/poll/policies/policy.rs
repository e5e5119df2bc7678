//! The one interface of all policies. A policy neither sends nor settles a mail: it says what becomes of the
//! mail ([`PolicyStep`]), and what else it wants done ([`Effect`]).

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tidegate_core::control::{Control, HoldReason};
use tidegate_core::deduplication::Acceptance;
use tidegate_core::limiter::Line;
use tidegate_core::outcome::{Failure, Outcome};

use crate::poll::settle::Job;
use crate::poll::sources::message::{Message, Rejected};
use crate::poll::sources::supply::PollVerdict;
use crate::ports::LedgerReport;

/// An optional rule of the poller. Every method has a default, which changes nothing; a policy implements
/// the ones it needs.
///
/// The methods stand in the order of a mail's way: it is received, it waits for a slot, its send ends, it is
/// settled; then come the queues' answers and the window's close. Feed and drain run side by side, so the
/// state of a policy is in cells.
pub(in crate::poll) trait Policy<'a> {
    /// A mail came from its campaign's queue. With a merge queue the feed asks this before it moves the
    /// mail.
    fn collected(&self, mail: Box<Message>) -> PolicyStep<'a, Box<Message>> {
        PolicyStep::Pass(mail)
    }

    /// A message of a campaign's queue is no valid mail. Whether it may be dead-lettered; if not, it is left, and its
    /// queue is asked no more in this window.
    fn may_reject(&self, _rejected: &Rejected) -> bool {
        true
    }

    /// A mail is at hand for the slots of this window, and its campaign is not held.
    fn received(
        &self,
        mail: Box<Message>,
        _effects: &mut Vec<Effect>,
    ) -> PolicyStep<'a, Box<Message>> {
        PolicyStep::Pass(mail)
    }

    /// Whether the window should receive further mail.
    fn wants_mail(&self) -> bool {
        true
    }

    /// A mail begins to wait for a slot.
    fn waits(&self, _mail: &Message) {}

    /// Whether a mail that waits may start at this slot.
    fn admits(&self, _mail: &Message, _slot: u64) -> bool {
        true
    }

    /// A mail has acquired this slot.
    fn acquired(&self, _mail: &Message, _slot: u64) {}

    /// A send ended; the policies after this one see it if it passes.
    fn ended(
        &self,
        send: Box<EndedSend>,
        _effects: &mut Vec<Effect>,
    ) -> PolicyStep<'a, Box<EndedSend>> {
        PolicyStep::Pass(send)
    }

    /// The time after which a mail that is left is visible again; `None` if this policy has no say.
    fn shown_after(&self, _mail: &Message) -> Option<Duration> {
        None
    }

    /// Work that has to be done before the job that settles a mail may run.
    fn before_settling(&self, _mail: &Message, _fate: &Fate) -> Option<LocalBoxFuture<'a, ()>> {
        None
    }

    /// A queue answered a receive; `long` is a long poll. See `plan::limits::idle_key` for the names of
    /// queues that are no campaign's.
    fn answered(&self, _queue: &str, _verdict: PollVerdict, _long: bool) {}

    /// Work beside the slots, begun with the window.
    fn beside(&self) -> Option<LocalBoxFuture<'a, ()>> {
        None
    }

    /// The last send has ended: the policy hands over what it still keeps.
    fn slots_over(&self, _effects: &mut Vec<Effect>) {}

    /// Feed and drain have ended. The work that this returns has until 8.5 s after the window's close
    /// (`MOVED`); then its jobs are run.
    fn closes(&self) -> Option<LocalBoxFuture<'a, Vec<Job>>> {
        None
    }

    /// Changes the control record; the changes of all policies are written together.
    fn concludes(&self, _control: &mut Control) {}

    /// Whether the policy wrote the control record in this window, so that the claim's copy is too old.
    fn wrote_control(&self) -> bool {
        false
    }

    /// Adds the policy's part to the counts and to the ledger's report.
    fn report(&self, _entry: &mut LedgerReport) {}
}

/// The way of a mail, or of a send that ended, after one policy.
pub(in crate::poll) enum PolicyStep<'a, T> {
    /// The next policy decides.
    Pass(T),
    /// The policy keeps it until its question is answered; the answer's effects hand it on.
    Later(LocalBoxFuture<'a, Vec<Effect>>),
    /// It has left the window, or will be handed on by a [`PolicyStep::Later`] under way.
    Gone,
    /// It is left to its visibility timeout, and its queue is asked no more in this window.
    Left,
}

/// Something that a policy wants done.
pub(in crate::poll) enum Effect {
    /// A mail that the policy kept goes on to the next one.
    Pass(Box<Message>),
    /// A send that the policy kept goes on to the next one.
    PassSend(Box<EndedSend>),
    /// The send never reached SES: its mail waits for a later slot.
    WaitAgain(Box<Message>),
    /// The mail is left to its visibility timeout, or released, by the settings.
    Leave(Box<Message>),
    /// The same for a mail that was received for a slot and did not get it: its campaign bears its part.
    LeaveUnused(Box<Message>),
    /// The mail is left to its visibility timeout whatever the settings: shown at once, it would be
    /// received again at once, in vain.
    LeaveHidden(Box<Message>),
    /// The mail is dealt with; the job settles it.
    Settle(Box<Message>, Job),
    /// The slots of a mail that will not be sent go to other mail of its campaign.
    GiveBack(Line, u64),
    /// As many recipients of a campaign were moved out of the way of its other mail.
    MovedAway(Line, u64),
    /// So many mails came into the limit queue at this place.
    Arrived(usize, u64),
    /// No further send starts in this window.
    Stop,
    /// Hold all sending, or one campaign's.
    Hold { campaign: Option<String>, reason: HoldReason, detail: String },
    /// Further windows were claimed for a mail with more recipients than this one has slots, or not.
    Advanced(bool),
}

/// A send that ended.
pub(in crate::poll) struct EndedSend {
    pub(in crate::poll) message: Box<Message>,
    /// The slot at which it started, or should have.
    pub(in crate::poll) slot: u64,
    /// SES's message id, or the failure with its meaning.
    pub(in crate::poll) result: Result<String, (Failure, Outcome)>,
    pub(in crate::poll) latency: Duration,
    /// Whether a failure counts as an attempt.
    pub(in crate::poll) counts: bool,
    /// The mail's campaign is held.
    pub(in crate::poll) is_held: bool,
}

impl EndedSend {
    /// The outcome of a send that was not accepted.
    pub(in crate::poll) fn outcome(&self) -> Option<Outcome> {
        self.result.as_ref().err().map(|(_, outcome)| *outcome)
    }
}

/// The end of a mail, by which deduplication settles its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::poll) enum Fate {
    /// SES accepted the mail: later copies are deleted.
    Sent(Acceptance),
    /// The mail is dead-lettered with this pass, since its outcome is unknown. A copy with a higher pass is
    /// a replay and may be sent.
    Parked(u32),
    /// The mail was not sent.
    Unsent,
}

/// The policies of one window, in order. Clones share their state.
#[derive(Clone)]
pub(in crate::poll) struct Policies<'a>(Rc<[Box<dyn Policy<'a> + 'a>]>);

impl<'a> Policies<'a> {
    pub(in crate::poll) fn new(in_order: Vec<Box<dyn Policy<'a> + 'a>>) -> Self {
        Self(in_order.into())
    }

    pub(in crate::poll) fn iter(&self) -> impl Iterator<Item = &dyn Policy<'a>> {
        self.0.iter().map(|policy| &**policy)
    }

    /// Passes a mail from its campaign's queue through all policies.
    pub(in crate::poll) fn collected(&self, mail: Box<Message>) -> PolicyStep<'a, Box<Message>> {
        self.through(mail, 0, |policy, mail| policy.collected(mail)).1
    }

    /// Passes a mail through the policies from number `from` on. Returns the step, and the number of the
    /// policy that took it.
    pub(in crate::poll) fn received(
        &self,
        mail: Box<Message>,
        from: usize,
        effects: &mut Vec<Effect>,
    ) -> (usize, PolicyStep<'a, Box<Message>>) {
        self.through(mail, from, |policy, mail| policy.received(mail, effects))
    }

    /// As [`Policies::received`], for a send that ended.
    pub(in crate::poll) fn ended(
        &self,
        send: Box<EndedSend>,
        from: usize,
        effects: &mut Vec<Effect>,
    ) -> (usize, PolicyStep<'a, Box<EndedSend>>) {
        self.through(send, from, |policy, send| policy.ended(send, effects))
    }

    fn through<T>(
        &self,
        mut item: T,
        from: usize,
        mut step: impl FnMut(&dyn Policy<'a>, T) -> PolicyStep<'a, T>,
    ) -> (usize, PolicyStep<'a, T>) {
        for (index, policy) in self.iter().enumerate().skip(from) {
            match step(policy, item) {
                PolicyStep::Pass(passed) => item = passed,
                step => return (index, step),
            }
        }
        (self.0.len(), PolicyStep::Pass(item))
    }

    pub(in crate::poll) fn may_reject(&self, rejected: &Rejected) -> bool {
        self.iter().all(|policy| policy.may_reject(rejected))
    }

    pub(in crate::poll) fn want_mail(&self) -> bool {
        self.iter().all(Policy::wants_mail)
    }

    /// The time after which a mail that is left is visible again: the first policy that has a say decides.
    pub(in crate::poll) fn shown_after(&self, mail: &Message) -> Option<Duration> {
        self.iter().find_map(|policy| policy.shown_after(mail))
    }

    /// The work of all policies that has to be done before a mail is settled.
    pub(in crate::poll) fn before_settling(
        &self,
        mail: &Message,
        fate: &Fate,
    ) -> Vec<LocalBoxFuture<'a, ()>> {
        self.iter().filter_map(|policy| policy.before_settling(mail, fate)).collect()
    }

    /// Everything that the policies still keep when the last send has ended, with each policy's number.
    pub(in crate::poll) fn slots_over(&self) -> Vec<(usize, Vec<Effect>)> {
        let over = |policy: &dyn Policy<'a>| {
            let mut effects = Vec::new();
            policy.slots_over(&mut effects);
            effects
        };
        self.iter().map(over).enumerate().collect()
    }
}
