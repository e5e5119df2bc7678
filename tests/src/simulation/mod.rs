//! The simulation ([`tidegate_simulator`]) as tests use it: what cannot happen there is a panic.

pub mod chaos;
pub mod mail;
pub mod measure;
mod world;

use std::time::Duration;

use tidegate_core::rate::Rate;
use tidegate_fakes::QueueSettings;
pub use tidegate_simulator::{
    BodyForm, DEAD_LETTERS, EXPRESS, FEEDBACK, LambdaEnvironment, MERGE, PollerEnd, PollerRun,
    ProducedMail, SimulatedPorts, WorldSettings, limit_queue,
};
pub use world::{World, uploaded_draft};

/// A rate, for tests that write it as a number.
///
/// # Panics
/// On a number that is no rate.
#[expect(clippy::unwrap_used, reason = "a test's own constant")]
pub fn rate(per_second: f64) -> Rate {
    Rate::per_second(per_second).unwrap()
}

/// Everything that the documentation of AWS allows SQS to do, more often than SQS does it.
pub fn unkind_queues() -> QueueSettings {
    QueueSettings {
        sampling: 0.3,
        depth_lag: Duration::from_mins(1),
        doubled: 0.01,
        failing: 0.02,
        ..QueueSettings::default()
    }
}
