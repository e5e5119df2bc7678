use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_delivery::ports::{BucketCharge, ConsoleBuckets, FailureKind, PortError};
use tokio::time::sleep;

use crate::clock::Universe;
use crate::shared::SharedState;

/// The time limit of a charge.
const TIME_LIMIT: Duration = Duration::from_millis(300);

/// The buckets that consoles of one stack share, in memory. The true time is the clock of the server. A clone is
/// another console's handle.
#[derive(Clone, Debug)]
pub struct MemoryConsoleBuckets {
    universe: Universe,
    state: SharedState<ConsoleBucketState>,
}

#[derive(Debug, Default)]
struct ConsoleBucketState {
    full_at: BTreeMap<String, u64>,
    is_lost: bool,
}

impl MemoryConsoleBuckets {
    /// A server on which every bucket is full.
    pub fn new(universe: Universe) -> Self {
        Self { universe, state: SharedState::default() }
    }

    /// Makes the server unreachable (every call times out), or reachable again with its state intact.
    pub fn set_lost(&self, is_lost: bool) {
        self.state.with(|state| state.is_lost = is_lost);
    }
}

impl ConsoleBuckets for MemoryConsoleBuckets {
    async fn charge(&self, charges: &[BucketCharge]) -> Result<Vec<Duration>, PortError> {
        if self.state.with(|state| state.is_lost) {
            sleep(TIME_LIMIT).await;
            let (resource, kind) = ("the consoles' buckets".to_owned(), FailureKind::TimedOut);
            return Err(PortError { operation: "charge", resource, kind, source: None });
        }
        let now = self.universe.now().as_nanos() / 1_000;
        let charge = |state: &mut ConsoleBucketState, charge: &BucketCharge| {
            let full_at = state.full_at.entry(charge.bucket.clone()).or_default();
            *full_at = charge.applied(*full_at, now);
            Duration::from_micros(full_at.saturating_sub(now))
        };
        Ok(self.state.with(|state| charges.iter().map(|told| charge(state, told)).collect()))
    }
}
