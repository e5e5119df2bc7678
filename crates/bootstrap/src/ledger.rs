use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_aws::{Clients, DynamoLedger};
use tidegate_core::Window;
use tidegate_core::config::LedgerKind;
use tidegate_core::control::Control;
use tidegate_core::deduplication::Mark;
use tidegate_core::factor::RateFactor;
use tidegate_core::identity::Identity;
use tidegate_delivery::ports::{
    Claim, ClaimRequest, Ledger, LedgerReport, MarkRequest, MarkResult, Marks, PortError, Standing,
};
use tidegate_memory::MemoryLedger;

/// The ledger that `TIDEGATE_LEDGER` names. It counts failed calls.
#[derive(Debug)]
pub struct AnyLedger {
    ledger: LedgerBackend,
    failures: LedgerFailures,
}

#[derive(Debug)]
enum LedgerBackend {
    /// `memory`: shared within this process only.
    Memory(MemoryLedger),
    /// `dynamodb:TABLE`: shared by all environments.
    DynamoDb(DynamoLedger),
}

/// The number of ledger calls that failed after all retries. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct LedgerFailures(Arc<AtomicU64>);

impl LedgerFailures {
    /// Returns the number of failures since the last call of this function.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    /// Counts `answer` if it is a failure.
    fn counted<T>(&self, answer: Result<T, PortError>) -> Result<T, PortError> {
        if answer.is_err() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }
}

impl AnyLedger {
    pub fn new(kind: &LedgerKind, clients: &Clients) -> Self {
        let ledger = match kind {
            LedgerKind::Memory => LedgerBackend::Memory(MemoryLedger::default()),
            LedgerKind::DynamoDb(table) => LedgerBackend::DynamoDb(clients.ledger(table)),
        };
        Self { ledger, failures: LedgerFailures::default() }
    }

    /// Opens up to `connections` connections without sending a request, if the ledger is reached over a
    /// network.
    pub async fn warm(&self, connections: usize) {
        if let LedgerBackend::DynamoDb(ledger) = &self.ledger {
            ledger.warm(connections).await;
        }
    }

    /// The counter of this ledger's failed calls.
    pub fn failures(&self) -> LedgerFailures {
        self.failures.clone()
    }
}

/// Calls the same method on whichever of the two ledgers is in use.
macro_rules! either {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        $self.failures.counted(match &$self.ledger {
            LedgerBackend::Memory(ledger) => ledger.$method($($argument),*).await,
            LedgerBackend::DynamoDb(ledger) => ledger.$method($($argument),*).await,
        })
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
    async fn mark(&self, request: &MarkRequest) -> Result<MarkResult, PortError> {
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
    async fn find(&self, identities: &[Identity]) -> Result<Vec<Option<Mark>>, PortError> {
        either!(self.find(identities))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_delivery::ports::FailureKind;

    #[test]
    fn failed_calls_are_counted_until_they_are_asked_for() {
        let failures = LedgerFailures::default();
        let refused = || PortError {
            operation: "UpdateItem",
            resource: "ledger".to_owned(),
            kind: FailureKind::TimedOut,
            source: None,
        };
        assert!(failures.clone().counted(Ok(())).is_ok());
        assert!(failures.clone().counted(Err::<(), _>(refused())).is_err());
        assert!(failures.counted(Err::<(), _>(refused())).is_err());
        assert_eq!((failures.take(), failures.take()), (2, 0));
    }
}
