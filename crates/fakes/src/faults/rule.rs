use std::fmt::Display;
use std::ops::Range;

use tidegate_core::Timestamp;
use tidegate_delivery::ports::{FailureKind, PortError};

use crate::latency::Latency;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// `Queues::receive`; the resource is the queue's URL, as for all five of `Queues`.
    Receive,
    Send,
    Delete,
    SetVisibility,
    Depth,
    Mail,
    /// `Mailer::warm`; without resource. It can only be slow or hang.
    Warm,
    /// `Ledger::claim`; the resource is the window.
    Claim,
    /// `Ledger::advance`; the resource is the window.
    Advance,
    Read,
    Report,
    SetFactor,
    SetControl,
    /// `History::add`; the resource is the action.
    AddChange,
    ReadChanges,
    /// `Marks::mark`; the resource is the mail's identity, as for the next two.
    Mark,
    SetMark,
    Unmark,
    FindMarks,
    ReadExclusions,
    /// `Exclusions::set_shard`; the resource is the shard's number.
    SetExclusions,
    ReadRuns,
    SetRun,
    /// `Directory::queues`; the resource is the prefix.
    ListQueues,
    /// `Directory::tags`; the resource is the queue's URL.
    ListTags,
    ReceiveFeedback,
    DeleteFeedback,
    /// `DeferralStore::put`; the resource is the object's name, as for all of `DeferralStore` but its list.
    PutDeferred,
    ListDeferred,
    GetDeferred,
    DeleteDeferred,
    ReadProgress,
    SetProgress,
    ForgetProgress,
    Account,
    /// `Account::tenant`; the resource is the tenant.
    Tenant,
    ListSuppressed,
    /// `SuppressionList::find`; the resource is the address.
    FindSuppressed,
    /// `Invoke::tick`; the resource is the window.
    Tick,
    Announce,
    /// Both calls of the monitoring service.
    Monitor,
}

impl Operation {
    /// The service's operation, as errors name it.
    const fn name(self) -> &'static str {
        match self {
            Self::Receive | Self::ReceiveFeedback => "ReceiveMessage",
            Self::Send => "SendMessageBatch",
            Self::Delete | Self::DeleteFeedback => "DeleteMessageBatch",
            Self::SetVisibility => "ChangeMessageVisibilityBatch",
            Self::Depth => "GetQueueAttributes",
            Self::Mail | Self::Warm => "SendEmail",
            Self::Read | Self::ReadChanges => "GetItem",
            Self::Claim
            | Self::Advance
            | Self::Report
            | Self::SetFactor
            | Self::SetControl
            | Self::AddChange
            | Self::Mark
            | Self::SetMark
            | Self::SetExclusions
            | Self::SetRun => "UpdateItem",
            Self::Unmark => "DeleteItem",
            Self::FindMarks | Self::ReadExclusions | Self::ReadRuns => "BatchGetItem",
            Self::ListQueues => "ListQueues",
            Self::ListTags => "ListQueueTags",
            Self::PutDeferred | Self::SetProgress => "PutObject",
            Self::ListDeferred => "ListObjectsV2",
            Self::GetDeferred | Self::ReadProgress => "GetObject",
            Self::DeleteDeferred | Self::ForgetProgress => "DeleteObject",
            Self::Account => "GetAccount",
            Self::Tenant => "GetTenant",
            Self::ListSuppressed => "ListSuppressedDestinations",
            Self::FindSuppressed => "GetSuppressedDestination",
            Self::Tick => "Invoke",
            Self::Announce => "Publish",
            Self::Monitor => "GetMetricData",
        }
    }

    pub(crate) fn failed(self, resource: impl Display, kind: FailureKind) -> PortError {
        let resource = resource.to_string();
        PortError { operation: self.name(), resource, kind, source: None }
    }
}

/// A fault of one call. A call can have several faults of different kinds.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault<E> {
    Before(E),
    /// The call takes effect, and its answer is lost: the caller gets this error.
    After(E),
    /// Each entry of a batch is refused with this probability, without effect. Queue batches only.
    RefuseEntries(f64),
    /// Each entry of a batch takes effect and is reported as failed with this probability. Queue
    /// batches only.
    LoseEntries(f64),
    /// Delays the call before it takes effect.
    Slow(Latency),
    /// Never answers and has no effect: a caller whose future is dropped here crashed before the
    /// call.
    HangBefore,
    /// Takes effect and never answers: a caller whose future is dropped here crashed after the
    /// call.
    HangAfter,
    /// The messages of this receive are delivered once more after the given delay, even if they
    /// were deleted (standard queues only). An accepted tick is accepted twice, at once. Receives
    /// and ticks only.
    Duplicate(Latency),
    /// Answers with success and has no effect: a receive finds nothing, an accepted tick starts no
    /// poller. Receives and ticks only.
    Nothing,
}

/// A fault and the calls that it strikes: every call of every operation, unless a method narrows
/// it.
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
    pub const fn new(fault: Fault<E>) -> Self {
        Self { fault, operations: Vec::new(), resource: None, nth: None, chance: 1.0, during: None }
    }

    /// Limits the rule to calls of `operation`; a second call adds another operation.
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

    /// Strikes with this probability, 0.0 to 1.0, drawn from the plan's seed.
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
