//! Tidegate's ports in memory, deterministic, with fault injection: for simulation, planning and
//! tests; and [`sandbox`], SES and SQS over HTTP.
//!
//! | port | fake | made by |
//! |---|---|---|
//! | `Clock` | [`SimClock`] | [`Universe::clock`], [`Universe::clock_with_offset`]; a universe is true time |
//! | `Queues`, `Directory` | [`MemoryQueues`] | [`MemoryQueues::new`], then [`MemoryQueues::create`] a queue |
//! | `Ledger` | [`MemoryLedger`] | `MemoryLedger::default()` |
//! | `Mailer` | [`MemoryMailer`] | [`MemorySes::mailer`], one an environment |
//! | `Account` | [`MemoryAccount`] | [`MemorySes::account`] |
//! | `SuppressionList` | [`MemorySuppressionList`] | `MemorySuppressionList::default()` |
//! | `Invoke` | [`MemoryInvoke`] | [`MemoryInvoke::new`], which also gives the ticks to read |
//! | `Bucket` | [`MemoryBucket`] | [`MemoryBucket::new`]; a clone is another taker |
//! | `Store` | [`MemoryStore`] | `MemoryStore::default()` |
//! | `Monitor` | [`MemoryMonitor`] | `MemoryMonitor::default()`, then told what it knows |
//! | `Entropy` | [`SeededEntropy`] | [`SeededEntropy::new`] |
//!
//! Each fake but clock, buckets and entropy has `with_faults`: its calls then fail as the plan says.
//!
//! A clone is another handle on the same fake. All waiting is tokio's, so under a paused
//! runtime simulated hours take moments; what is drawn at random is drawn from seeds.

mod bucket;
mod clock;
mod faults;
mod ledger;
mod queues;
#[cfg(feature = "sandbox")]
pub mod sandbox;
mod services;
mod ses;
mod shared;
mod sliding_count;
mod store;
mod unused_port;
mod value;

pub use bucket::MemoryBucket;
pub use clock::{Latency, SeededEntropy, SimClock, Universe};
pub use faults::{Fake, Fault, FaultPlan, Operation, Rule, Strike};
pub use ledger::{LedgerUnits, MemoryLedger};
pub use queues::{MemoryQueues, MessageState, QueueSettings, QueuedMessage};
pub use services::{MemoryBus, MemoryInvoke, MemoryMonitor, MemoryTopic};
pub use ses::{
    Counting, MemoryAccount, MemoryMailer, MemorySes, MemorySuppressionList, SesArrival,
    SesSettings, SesTenant, failures,
};
pub use sliding_count::worst_second;
pub use store::{MemoryStore, list_draft};
pub use unused_port::unused_port;
pub use value::ValueError;
