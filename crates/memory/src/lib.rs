//! Tidegate's ports in memory, deterministic, with fault injection: for simulation, planning and
//! tests.
//!
//! | port | adapter | made by |
//! |---|---|---|
//! | `Clock` | [`SimClock`] | [`Universe::clock`], [`Universe::clock_with_offset`]; a universe is true time |
//! | `Queues`, `Directory` | [`MemoryQueues`] | [`MemoryQueues::new`], then [`MemoryQueues::create`] a queue |
//! | `Feedback` | [`MemoryFeedback`] | [`MemoryFeedback::new`], on one of the queues |
//! | `Ledger` | [`MemoryLedger`] | `MemoryLedger::default()` |
//! | `Mailer` | [`MemoryMailer`] | [`MemorySes::mailer`], one an environment |
//! | `Account` | [`MemoryAccount`] | [`MemorySes::account`] |
//! | `Invoke` | [`MemoryInvoke`] | [`MemoryInvoke::new`], which also gives the ticks to read |
//! | `Bucket`, `BucketLevels` | [`MemoryBucket`] | [`MemoryBucket::new`]; a clone is another taker |
//! | `DeferralStore` | [`MemoryDeferralStore`] | `MemoryDeferralStore::default()` |
//! | `Entropy` | [`SeededEntropy`] | [`SeededEntropy::new`] |
//! | all but clock, bucket and entropy | [`Faulty`] | [`Faulty::new`], failing by a [`FaultPlan`] |
//!
//! All are cheap handles: a clone is the same thing. All waiting is tokio's, so under a paused
//! runtime simulated hours take moments; what is drawn at random is drawn from seeds.

mod bucket;
mod clock;
mod deferral;
mod entropy;
mod faulty;
mod feedback;
mod invoke;
mod latency;
mod ledger;
mod ledger_size;
mod queues;
mod ses;
mod shared;

pub use bucket::MemoryBucket;
pub use clock::{SimClock, Universe};
pub use deferral::MemoryDeferralStore;
pub use entropy::SeededEntropy;
pub use faulty::{Fault, FaultPlan, Faulty, Operation, Rule, Strike};
pub use feedback::MemoryFeedback;
pub use invoke::MemoryInvoke;
pub use latency::Latency;
pub use ledger::MemoryLedger;
pub use ledger_size::LedgerUnits;
pub use queues::{MemoryQueues, MessageState, QueueSettings, QueuedMessage};
pub use ses::{
    Counting, MemoryAccount, MemoryMailer, MemorySes, SesArrival, SesSettings, failures,
};
