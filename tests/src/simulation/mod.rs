//! The production poller and scheduler on the memory adapters, under simulated time.
//!
//! A [`World`] holds queues, SES and ledger; it runs [`tidegate_delivery::schedule::run`] as
//! EventBridge would, hands each tick to a poller as Lambda would (a warm environment that is free,
//! else a new one; each with its own clock and its own SQS client), and keeps what came of it. All
//! waiting is tokio's paused time and all chance is drawn from the settings' seed, so a run repeats
//! itself. [`measure`] reads off what the promises are about.
//!
//! A world runs in a current-thread runtime started paused.

pub mod chaos;
mod lambda;
pub mod mail;
pub mod measure;
mod settings;
mod world;

pub use lambda::{Env, Environment, Start, Started};
pub use mail::Mail;
pub use settings::{Settings, rate};
pub use world::{DEAD_LETTERS, EXPRESS, FEEDBACK, MERGE, World};
