use tidegate_aws::{Clients, DynamoLedger};
use tidegate_core::Window;
use tidegate_core::config::LedgerKind;
use tidegate_core::control::Control;
use tidegate_core::factor::RateFactor;
use tidegate_core::identity::Identity;
use tidegate_delivery::ports::{
    Claim, ClaimRequest, Ledger, LedgerReport, MarkRequest, Marked, Marks, PortError, Standing,
};
use tidegate_memory::MemoryLedger;

/// The ledger that `TIDEGATE_LEDGER` names.
#[derive(Debug)]
pub enum AnyLedger {
    /// `memory`: this process alone.
    Memory(MemoryLedger),
    /// `dynamodb:TABLE`.
    DynamoDb(DynamoLedger),
}

impl AnyLedger {
    /// The ledger of `kind`.
    #[must_use]
    pub fn new(kind: &LedgerKind, clients: &Clients) -> Self {
        match kind {
            LedgerKind::Memory => Self::Memory(MemoryLedger::default()),
            LedgerKind::DynamoDb(table) => Self::DynamoDb(clients.ledger(table)),
        }
    }
}

/// Hands a call to whichever ledger it is.
macro_rules! either {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self {
            Self::Memory(ledger) => ledger.$method($($argument),*).await,
            Self::DynamoDb(ledger) => ledger.$method($($argument),*).await,
        }
    };
}

impl Ledger for AnyLedger {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, PortError> {
        either!(self.claim(request))
    }
    async fn advance(&self, token: &str, through: Window) -> Result<bool, PortError> {
        either!(self.advance(token, through))
    }
    async fn read(&self) -> Result<Standing, PortError> {
        either!(self.read())
    }
    async fn report(&self, report: &LedgerReport) -> Result<(), PortError> {
        either!(self.report(report))
    }
    async fn set_factor(&self, from: RateFactor, to: RateFactor) -> Result<bool, PortError> {
        either!(self.set_factor(from, to))
    }
    async fn set_control(&self, version: u64, control: &Control) -> Result<bool, PortError> {
        either!(self.set_control(version, control))
    }
}

impl Marks for AnyLedger {
    async fn mark(&self, request: &MarkRequest) -> Result<Marked, PortError> {
        either!(self.mark(request))
    }
    async fn set_sent(&self, identity: &Identity) -> Result<bool, PortError> {
        either!(self.set_sent(identity))
    }
    async fn set_parked(
        &self,
        identity: &Identity,
        token: &str,
        pass: u32,
    ) -> Result<bool, PortError> {
        either!(self.set_parked(identity, token, pass))
    }
    async fn unmark(&self, identity: &Identity, token: &str) -> Result<bool, PortError> {
        either!(self.unmark(identity, token))
    }
}
