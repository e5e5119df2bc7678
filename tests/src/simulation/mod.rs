//! The simulation ([`tidegate_simulator`]) as tests use it: what cannot happen there is a panic.

pub mod chaos;
pub mod measure;
mod world;

use tidegate_core::rate::Rate;
pub use tidegate_simulator::{
    BodyForm, DEAD_LETTERS, EXPRESS, FEEDBACK, LambdaEnvironment, MERGE, PollerEnd, PollerRun,
    ProducedMail, SimulatedPorts, WorldSettings, limit_queue, mail,
};
pub use world::World;

/// A rate, for tests that write it as a number.
///
/// # Panics
/// On a number that is no rate.
#[expect(clippy::unwrap_used, reason = "a test's own constant")]
pub fn rate(per_second: f64) -> Rate {
    Rate::per_second(per_second).unwrap()
}
