use std::ops::Range;

use tidegate_core::Timestamp;

use crate::latency::Latency;

/// A port's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `Queues::receive`; the resource is the queue's URL, as for all five of `Queues`.
    Receive,
    /// `Queues::send`.
    Send,
    /// `Queues::delete`.
    Delete,
    /// `Queues::set_visibility`.
    SetVisibility,
    /// `Queues::depth`.
    Depth,
    /// `Mailer::send`; the resource is `campaign/id`.
    Mail,
    /// `Mailer::warm`; without resource. It can only be slow or hang.
    Warm,
    /// `Ledger::claim`; the resource is the window.
    Claim,
    /// `Ledger::advance`; the resource is the window.
    Advance,
    /// `Ledger::read`; without resource.
    Read,
    /// `Ledger::report`; without resource.
    Report,
    /// `Ledger::set_factor`; without resource.
    SetFactor,
    /// `Ledger::set_control`; without resource.
    SetControl,
    /// `History::add`; the resource is the action.
    AddChange,
    /// `History::changes`; without resource.
    ReadChanges,
    /// `Marks::mark`; the resource is the mail's identity, as for the next two.
    Mark,
    /// `Marks::set_sent` and `Marks::set_parked`.
    SetMark,
    /// `Marks::unmark`.
    Unmark,
    /// `Marks::find`; without resource.
    FindMarks,
    /// `Directory::queues`; the resource is the prefix.
    ListQueues,
    /// `Directory::tags`; the resource is the queue's URL.
    ListTags,
    /// `Feedback::receive`; without resource.
    ReceiveFeedback,
    /// `Feedback::delete`; without resource.
    DeleteFeedback,
    /// `Spill::put`; the resource is the object's name, as for all of `Spill` but its list.
    PutSpill,
    /// `Spill::list`; without resource.
    ListSpill,
    /// `Spill::get`.
    GetSpill,
    /// `Spill::delete`.
    DeleteSpill,
    /// `Spill::progress`.
    ReadProgress,
    /// `Spill::set_progress`.
    SetProgress,
    /// `Spill::forget_progress`.
    ForgetProgress,
    /// `Account::account`; without resource.
    Account,
    /// `Invoke::tick`; the resource is the window.
    Tick,
}

/// What befalls a call. Several of different kinds may befall one.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault<E> {
    /// Refused: not done.
    Before(E),
    /// Done, then the answer is lost.
    After(E),
    /// Each entry of a batch is refused with this likelihood: not done. Batches of queues only.
    RefuseEntries(f64),
    /// Each entry of a batch is done, and reported as failed with this likelihood. Batches only.
    LoseEntries(f64),
    /// Takes so much longer, before anything is done.
    Slow(Latency),
    /// Never answers, and does nothing: dropped there, the caller crashed before.
    HangBefore,
    /// Does it and never answers: dropped there, the caller crashed after.
    HangAfter,
    /// What a standard queue gives in this receive is given once more, so much later, deleted or
    /// not; an accepted tick is accepted twice (at once). Receives and ticks only.
    Duplicate(Latency),
    /// Answers well and does nothing: a receive finds nothing, an accepted tick starts no poller.
    /// Receives and ticks only.
    Nothing,
}

/// When a fault strikes. As made, at every call of every operation; each method narrows it.
#[derive(Clone, Debug)]
pub struct Rule<E> {
    pub(super) fault: Fault<E>,
    operations: Vec<Operation>,
    resource: Option<String>,
    pub(super) nth: Option<u64>,
    pub(super) chance: f64,
    pub(super) during: Option<Range<Timestamp>>,
}

impl<E> Rule<E> {
    /// `fault` at every call.
    pub const fn new(fault: Fault<E>) -> Self {
        Self { fault, operations: Vec::new(), resource: None, nth: None, chance: 1.0, during: None }
    }

    /// At calls of `operation` only; called again, of that one too.
    pub fn on(mut self, operation: Operation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Only at calls whose resource contains `part`.
    pub fn at(mut self, part: &str) -> Self {
        self.resource = Some(part.to_owned());
        self
    }

    /// Only at the `nth` call (from 1) that the other conditions let through.
    pub const fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(nth);
        self
    }

    /// Only with this likelihood, 0.0 to 1.0, drawn from the plan's seed.
    pub const fn chance(mut self, share: f64) -> Self {
        self.chance = share;
        self
    }

    /// Only while true time is within `span`.
    pub const fn during(mut self, span: Range<Timestamp>) -> Self {
        self.during = Some(span);
        self
    }

    pub(super) fn covers(&self, operation: Operation, resource: &str) -> bool {
        (self.operations.is_empty() || self.operations.contains(&operation))
            && self.resource.as_ref().is_none_or(|part| resource.contains(part))
    }
}
