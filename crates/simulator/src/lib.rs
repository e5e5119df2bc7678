//! The production poller and scheduler on the fakes, under simulated time.
//!
//! A [`World`] holds queues, SES and a ledger. It runs [`tidegate_delivery::schedule::run`] as
//! EventBridge would, gives each tick to a poller as Lambda would (a warm environment that is free,
//! else a new one; each has its own clock and its own SQS client), and records the results. All
//! waiting is tokio's paused time and all randomness comes from the settings' seed, so a run can be
//! repeated exactly.
//!
//! A world runs in a current-thread runtime started paused:
//!
//! ```
//! use tidegate_simulator::{WorldSettings, World};
//! let runtime = tokio::runtime::Builder::new_current_thread();
//! let runtime = { runtime }.enable_time().start_paused(true).build()?;
//! let sent = runtime.block_on(async {
//!     let world = World::new(WorldSettings::new(14.0, true))?;
//!     world.fill("big", 100).await?;
//!     world.run(30).await;
//!     Ok::<_, Box<dyn std::error::Error>>(world.ses.accepted())
//! })?;
//! assert_eq!(sent.len(), 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod mail;
pub mod plan;
mod settings;
mod world;

pub use mail::{BodyForm, ProducedMail};
pub use settings::{
    DEAD_LETTERS, Deployment, EXPRESS, FEEDBACK, MERGE, SettingsError, WorldSettings, limit_queue,
    url,
};
pub use world::{LambdaEnvironment, LateStarts, PollerEnd, PollerRun, SimulatedPorts, World};
