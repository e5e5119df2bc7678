use tidegate_delivery::ports::{
    Account, Clock, History, Ledger, Marks, Monitor, PortError, QueueUrl, Queues, Runs,
};
use tidegate_operator::dead::LetterPorts;
use tidegate_operator::status::{StackFacts, StatusSettings, gather};
use tokio::sync::mpsc::UnboundedSender;

/// The ports that a console needs, as types. A tuple of the five is enough.
pub trait PortTypes {
    type Queues: Queues;
    type Ledger: Ledger + Marks + History + Runs;
    type Account: Account;
    type Clock: Clock;
    type Monitor: Monitor;
}

impl<Q: Queues, L: Ledger + Marks + History + Runs, A: Account, C: Clock, M: Monitor> PortTypes
    for (Q, L, A, C, M)
{
    type Queues = Q;
    type Ledger = L;
    type Account = A;
    type Clock = C;
    type Monitor = M;
}

/// Everything through which the console reads and changes a stack.
#[derive(Clone, Debug)]
pub struct StackPorts<P: PortTypes> {
    /// The settings that `tidegate status` uses, too.
    pub settings: StatusSettings,
    /// The name of who runs the console.
    pub operator: String,
    pub queues: P::Queues,
    /// The ledger, its marks and its history.
    pub ledger: P::Ledger,
    pub account: P::Account,
    pub clock: P::Clock,
    /// Alarms, failed invocations and the past before the console.
    pub monitor: P::Monitor,
    /// Asks for the stack to be woken, because there may be something to send.
    pub wake: UnboundedSender<()>,
}

impl<P: PortTypes> StackPorts<P> {
    /// Reads the whole state: ledger, depth of every queue, account and history.
    ///
    /// # Errors
    /// [`PortError`] of ledger or queues.
    pub async fn look(&self) -> Result<StackFacts, PortError> {
        let Self { settings, queues, account, ledger, clock, .. } = self;
        gather(settings.clone(), queues, account, ledger, clock).await
    }

    pub(crate) fn dead_letters(&self) -> QueueUrl {
        QueueUrl::new(self.settings.poller.dead_letter_queue_url.as_str())
    }

    pub(crate) fn letter_ports<'a>(
        &'a self,
        dead_letters: &'a QueueUrl,
    ) -> LetterPorts<'a, P::Queues, P::Ledger, P::Clock> {
        let Self { queues, ledger, clock, .. } = self;
        LetterPorts { queues, dead_letters, ledger, clock }
    }
}
