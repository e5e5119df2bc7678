use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Window;
use tidegate_core::control::Control;
use tidegate_core::deduplication::{Acceptance, Mark};
use tidegate_core::factor::RateFactor;
use tidegate_core::identity::Identity;
use tidegate_delivery::ports::{
    Claim, ClaimRequest, ExclusionShard, Exclusions, Ledger, LedgerReport, MarkRequest, MarkResult,
    Marks, PortError, Standing,
};

/// A ledger whose failed calls are counted.
#[derive(Debug)]
pub struct CountedLedger<L> {
    ledger: L,
    failures: LedgerFailures,
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

impl<L> CountedLedger<L> {
    pub fn new(ledger: L) -> Self {
        Self { ledger, failures: LedgerFailures::default() }
    }

    /// The counter of this ledger's failed calls.
    pub fn failures(&self) -> LedgerFailures {
        self.failures.clone()
    }
}

impl<L: Ledger> Ledger for CountedLedger<L> {
    async fn warm(&self, connections: usize) {
        self.ledger.warm(connections).await;
    }
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, PortError> {
        self.failures.counted(self.ledger.claim(request).await)
    }
    async fn advance(&self, token: &str, through: Window) -> Result<bool, PortError> {
        self.failures.counted(self.ledger.advance(token, through).await)
    }
    async fn read(&self) -> Result<Standing, PortError> {
        self.failures.counted(self.ledger.read().await)
    }
    async fn report(&self, report: &LedgerReport) -> Result<(), PortError> {
        self.failures.counted(self.ledger.report(report).await)
    }
    async fn set_factor(&self, from: RateFactor, to: RateFactor) -> Result<bool, PortError> {
        self.failures.counted(self.ledger.set_factor(from, to).await)
    }
    async fn set_control(&self, version: u64, control: &Control) -> Result<bool, PortError> {
        self.failures.counted(self.ledger.set_control(version, control).await)
    }
}

impl<L: Marks> Marks for CountedLedger<L> {
    async fn mark(&self, request: &MarkRequest) -> Result<MarkResult, PortError> {
        self.failures.counted(self.ledger.mark(request).await)
    }
    async fn set_sent(
        &self,
        identity: &Identity,
        accepted: &Acceptance,
    ) -> Result<bool, PortError> {
        self.failures.counted(self.ledger.set_sent(identity, accepted).await)
    }
    async fn set_parked(
        &self,
        identity: &Identity,
        token: &str,
        pass: u32,
    ) -> Result<bool, PortError> {
        self.failures.counted(self.ledger.set_parked(identity, token, pass).await)
    }
    async fn unmark(&self, identity: &Identity, token: &str) -> Result<bool, PortError> {
        self.failures.counted(self.ledger.unmark(identity, token).await)
    }
    async fn find(&self, identities: &[Identity]) -> Result<Vec<Option<Mark>>, PortError> {
        self.failures.counted(self.ledger.find(identities).await)
    }
}

impl<L: Exclusions> Exclusions for CountedLedger<L> {
    async fn shards(&self, numbers: &[u8]) -> Result<Vec<ExclusionShard>, PortError> {
        self.failures.counted(self.ledger.shards(numbers).await)
    }
    async fn set_shard(&self, number: u8, shard: &ExclusionShard) -> Result<bool, PortError> {
        self.failures.counted(self.ledger.set_shard(number, shard).await)
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
