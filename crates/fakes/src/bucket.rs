use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::bucket::{Decision, Demand, FullAt, Terms, take};
use tidegate_delivery::ports::{Answer, Bucket, FailureKind, PortError, TakeRequest, Taken};
use tokio::time::sleep;

use crate::clock::Universe;
use crate::shared::SharedState;

/// The time limit of a take.
const TIME_LIMIT: Duration = Duration::from_millis(300);

/// The shared bucket in memory. Its server's clock is the true time. A clone is another client.
#[derive(Clone, Debug)]
pub struct MemoryBucket {
    universe: Universe,
    state: SharedState<BucketState>,
}

#[derive(Debug, Default)]
struct BucketState {
    buckets: BTreeMap<Option<String>, StoredBucket>,
    latency: Duration,
    lost: bool,
    asked: u64,
}

#[derive(Clone, Copy, Debug)]
struct StoredBucket {
    full_at: FullAt,
    until: u64,
}

impl MemoryBucket {
    /// A server without keys: every bucket counts as full.
    pub fn new(universe: Universe) -> Self {
        Self { universe, state: SharedState::new(BucketState::default()) }
    }

    /// Sets the latency of every call from now on: half of it passes before the server acts.
    pub fn set_latency(&self, latency: Duration) {
        self.state.with(|state| state.latency = latency);
    }

    /// Makes the server unreachable (every call times out), or reachable again with its state
    /// intact.
    pub fn set_lost(&self, lost: bool) {
        self.state.with(|state| state.lost = lost);
    }

    /// The number of calls so far, including those that timed out.
    pub fn asked(&self) -> u64 {
        self.state.with(|state| state.asked)
    }

    fn now(&self) -> u64 {
        self.universe.now().as_nanos() / 1_000
    }

    /// Passes the first half of a call's latency, or its time limit if the server is unreachable;
    /// returns the second half.
    async fn reach(&self) -> Result<Duration, PortError> {
        let (latency, lost) = self.state.with(|state| {
            state.asked += 1;
            (state.latency, state.lost)
        });
        sleep(if lost { TIME_LIMIT } else { latency / 2 }).await;
        if lost {
            let (resource, kind) = ("the shared bucket".to_owned(), FailureKind::TimedOut);
            return Err(PortError { operation: "take", resource, kind, source: None });
        }
        Ok(latency / 2)
    }
}

impl BucketState {
    fn take(&mut self, request: &TakeRequest<'_>, now: u64) -> Answer {
        // Keys expire on the server; a bucket without a key is full.
        self.buckets.retain(|_, stored| stored.until > now);
        let (wanted, least) = (request.wanted.into(), request.least.into());
        let account = Demand { terms: Terms::of(request.pace), wanted, least };
        let domain = |take: &tidegate_delivery::ports::LimitTake| {
            let count = take.recipients.into();
            let demand = Demand { terms: take.terms(request.pace), wanted: count, least: count };
            (Some(take.name.clone()), demand)
        };
        let demands: Vec<_> =
            std::iter::once((None, account)).chain(request.limits.iter().map(domain)).collect();
        let full_at =
            |name| self.buckets.get(name).map_or(0, |stored: &StoredBucket| stored.full_at);
        let stand: Vec<_> = demands.iter().map(|(name, demand)| (full_at(name), *demand)).collect();
        match take(&stand, now) {
            Decision::Granted(granted, after) => {
                for ((name, demand), full_at) in demands.into_iter().zip(after) {
                    let until = now + demand.terms.kept(full_at, now);
                    self.buckets.insert(name, StoredBucket { full_at, until });
                }
                Answer::Granted(u32::try_from(granted).unwrap_or(u32::MAX))
            }
            Decision::Refused(wait, index) => {
                let by = demands.into_iter().nth(index).and_then(|(name, _)| name);
                Answer::Refused { after: Duration::from_micros(wait), by }
            }
        }
    }
}

impl Bucket for MemoryBucket {
    async fn take(&self, request: &TakeRequest<'_>) -> Result<Taken, PortError> {
        let back = self.reach().await?;
        let now = self.now();
        let answer = self.state.with(|state| state.take(request, now));
        sleep(back).await;
        Ok(Taken { answer, at_micros: now })
    }

    async fn warm(&self) {}
}
