//! Fault injection: a decorator per port that fails as its plan says.

mod deferral;
mod plan;
mod queues;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::control::{ChangeRecord, Control};
use tidegate_core::deduplication::Mark;
use tidegate_core::factor::RateFactor;
use tidegate_core::identity::Identity;
use tidegate_core::outcome::Failure;
use tidegate_core::tick::Tick;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::{
    Account, AccountStatus, Claim, ClaimRequest, Directory, Entry, FailureKind, Feedback,
    FeedbackMessage, History, Invoke, Ledger, LedgerReport, Mail, Mailer, MarkRequest, MarkResult,
    Marks, Monotonic, PortError, QueueUrl, Received, Standing, Takes,
};

pub use plan::{FaultPlan, Strike};
pub use rule::{Fault, Operation, Rule};

use crate::shared::SharedState;

/// A message that a standard queue will deliver a second time, from the time `from` on.
#[derive(Clone, Debug)]
struct Redelivery {
    queue: QueueUrl,
    from: Timestamp,
    message: Received,
}

/// A decorator that makes any adapter of a port fail as its plan says. It uses the port's trait
/// only, so it cannot forget a method.
///
/// A clone shares the plan and holds a clone of the adapter.
#[derive(Clone, Debug)]
pub struct Faulty<T, E = FailureKind> {
    inner: T,
    plan: FaultPlan<E>,
    /// Messages that [`Fault::Duplicate`] will deliver once more.
    redeliveries: SharedState<Vec<Redelivery>>,
    /// Calls that were refused before they reached the adapter, which cannot count them.
    unseen_calls: SharedState<u64>,
}

impl<T, E> Faulty<T, E> {
    pub fn new(inner: T, plan: FaultPlan<E>) -> Self {
        Self {
            inner,
            plan,
            redeliveries: SharedState::new(Vec::new()),
            unseen_calls: SharedState::new(0),
        }
    }

    pub fn inner(&self) -> &T {
        &self.inner
    }
}

fn failed(operation: Operation, resource: &str) -> impl Fn(FailureKind) -> PortError {
    let name = match operation {
        Operation::Receive | Operation::ReceiveFeedback => "ReceiveMessage",
        Operation::Send => "SendMessageBatch",
        Operation::Delete | Operation::DeleteFeedback => "DeleteMessageBatch",
        Operation::SetVisibility => "ChangeMessageVisibilityBatch",
        Operation::Depth => "GetQueueAttributes",
        Operation::Mail | Operation::Warm => "SendEmail",
        Operation::Read | Operation::ReadChanges => "GetItem",
        Operation::Claim
        | Operation::Advance
        | Operation::Report
        | Operation::SetFactor
        | Operation::SetControl
        | Operation::AddChange
        | Operation::Mark
        | Operation::SetMark => "UpdateItem",
        Operation::Unmark => "DeleteItem",
        Operation::FindMarks => "BatchGetItem",
        Operation::ListQueues => "ListQueues",
        Operation::ListTags => "ListQueueTags",
        Operation::PutDeferred | Operation::SetProgress => "PutObject",
        Operation::ListDeferred => "ListObjectsV2",
        Operation::GetDeferred | Operation::ReadProgress => "GetObject",
        Operation::DeleteDeferred | Operation::ForgetProgress => "DeleteObject",
        Operation::Account => "GetAccount",
        Operation::Tick => "Invoke",
    };
    let resource = resource.to_owned();
    move |kind| PortError { operation: name, resource: resource.clone(), kind, source: None }
}

impl<T> Faulty<T> {
    /// Runs one call under the faults that the plan has for it.
    async fn call<R>(
        &self,
        operation: Operation,
        resource: &str,
        act: impl Future<Output = Result<R, PortError>>,
    ) -> Result<R, PortError> {
        let decision = self.plan.decide(operation, resource);
        self.plan.run(decision, act, failed(operation, resource)).await
    }
}

impl<L: Ledger> Ledger for Faulty<L> {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, PortError> {
        let window = request.window.to_string();
        self.call(Operation::Claim, &window, self.inner.claim(request)).await
    }

    async fn advance(&self, token: &str, through: Window) -> Result<bool, PortError> {
        let window = through.to_string();
        self.call(Operation::Advance, &window, self.inner.advance(token, through)).await
    }

    async fn read(&self) -> Result<Standing, PortError> {
        self.call(Operation::Read, "", self.inner.read()).await
    }

    async fn report(&self, report: &LedgerReport) -> Result<(), PortError> {
        self.call(Operation::Report, "", self.inner.report(report)).await
    }

    async fn set_factor(&self, from: RateFactor, to: RateFactor) -> Result<bool, PortError> {
        self.call(Operation::SetFactor, "", self.inner.set_factor(from, to)).await
    }

    async fn set_control(&self, version: u64, control: &Control) -> Result<bool, PortError> {
        self.call(Operation::SetControl, "", self.inner.set_control(version, control)).await
    }
}

impl<L: Marks> Marks for Faulty<L> {
    async fn mark(&self, request: &MarkRequest) -> Result<MarkResult, PortError> {
        self.call(Operation::Mark, request.identity.as_str(), self.inner.mark(request)).await
    }

    async fn set_sent(&self, identity: &Identity) -> Result<bool, PortError> {
        self.call(Operation::SetMark, identity.as_str(), self.inner.set_sent(identity)).await
    }

    async fn set_parked(
        &self,
        identity: &Identity,
        token: &str,
        pass: u32,
    ) -> Result<bool, PortError> {
        let act = self.inner.set_parked(identity, token, pass);
        self.call(Operation::SetMark, identity.as_str(), act).await
    }

    async fn unmark(&self, identity: &Identity, token: &str) -> Result<bool, PortError> {
        let act = self.inner.unmark(identity, token);
        self.call(Operation::Unmark, identity.as_str(), act).await
    }

    async fn find(&self, identities: &[Identity]) -> Result<Vec<Option<Mark>>, PortError> {
        self.call(Operation::FindMarks, "", self.inner.find(identities)).await
    }
}

impl<H: History> History for Faulty<H> {
    async fn add(&self, change: &ChangeRecord) -> Result<(), PortError> {
        self.call(Operation::AddChange, &change.action, self.inner.add(change)).await
    }

    async fn changes(&self) -> Result<Vec<ChangeRecord>, PortError> {
        self.call(Operation::ReadChanges, "", self.inner.changes()).await
    }
}

impl<D: Directory> Directory for Faulty<D> {
    async fn queues(&self, prefix: &str) -> Result<Vec<QueueUrl>, PortError> {
        self.call(Operation::ListQueues, prefix, self.inner.queues(prefix)).await
    }

    async fn tags(&self, queue: &QueueUrl) -> Result<BTreeMap<String, String>, PortError> {
        self.call(Operation::ListTags, queue.as_str(), self.inner.tags(queue)).await
    }
}

impl<F: Feedback> Feedback for Faulty<F> {
    async fn receive(&self, wait: Duration) -> Result<Vec<FeedbackMessage>, PortError> {
        self.call(Operation::ReceiveFeedback, "", self.inner.receive(wait)).await
    }

    async fn delete(&self, receipts: &[String]) -> Result<Vec<Entry>, PortError> {
        self.call(Operation::DeleteFeedback, "", self.inner.delete(receipts)).await
    }
}

impl<A: Account> Account for Faulty<A> {
    async fn account(&self) -> Result<AccountStatus, PortError> {
        self.call(Operation::Account, "", self.inner.account()).await
    }
}

impl<I: Invoke> Invoke for Faulty<I> {
    async fn tick(&self, tick: &Tick) -> Result<(), PortError> {
        let window = tick.window.to_string();
        let decision = self.plan.decide(Operation::Tick, &window);
        let (nothing, doubled) = (decision.nothing, decision.duplicate.is_some());
        let act = async {
            if nothing {
                return Ok(());
            }
            self.inner.tick(tick).await?;
            if doubled { self.inner.tick(tick).await } else { Ok(()) }
        };
        self.plan.run(decision, act, failed(Operation::Tick, &window)).await
    }
}

impl<M: Mailer> Mailer for Faulty<M, Failure> {
    async fn send(&self, mail: Mail<'_>, latest: Monotonic) -> Result<String, Failure> {
        let resource = format!("{}/{}", mail.campaign, mail.id);
        let decision = self.plan.decide(Operation::Mail, &resource);
        self.plan.run(decision, self.inner.send(mail, latest), |failure| failure).await
    }

    async fn warm(&self, connections: usize) {
        self.plan.delay_or_hang(&self.plan.decide(Operation::Warm, "")).await;
        self.inner.warm(connections).await;
    }

    fn takes(&self) -> Takes {
        self.inner.takes()
    }
}
