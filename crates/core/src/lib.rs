//! Tidegate's policy: every decision as a pure function.
//!
//! Nothing here reads a clock, draws a random number, or does IO: time comes in as a
//! [`Timestamp`], randomness as an argument. So each promise is a property test.
//!
//! | module | decides |
//! |---|---|
//! | [`rate`], [`grid`] | when a send may start: one slot a recipient |
//! | [`bucket`] | how many may go now, where other software shares the rate |
//! | [`cycle`], [`allocation`] | whose slot it is, and who gets what nobody filled |
//! | [`limiter`] | which waiting message takes the slot that is due |
//! | [`domains`] | what recipient domains may be sent, beside the account's quota |
//! | [`memory`] | how many bytes of mail a poller may hold at once |
//! | [`feed`] | how much to move into the merge queue |
//! | [`idle`] | when to look into empty queues, and which ticks are left out meanwhile |
//! | [`tick`] | which window a poller serves, and whether it still can |
//! | [`control`], [`factor`] | what operators and refusals change while it runs |
//! | [`breaker`], [`daily`], [`refusals`], [`reputation`] | when sending stops, and when it goes on |
//! | [`email`], [`identity`], [`outcome`], [`dead_letter`], [`retry`], [`deduplication`] | the message and what becomes of it |
//! | [`back_pressure`], [`deferral`] | when the least urgent is deferred, and how it stands outside the queues |
//! | [`parts`] | where the ledger keeps what it keeps by campaign, and when it forgets one |
//! | [`config`] | the environment, as typed values |
//! | [`tagged`] | which queues are campaigns, by their tags |

// Other crates call these: the rest of the workspace needs no docs by rule.
#![warn(missing_docs)]

pub mod allocation;
pub mod back_pressure;
pub mod breaker;
pub mod bucket;
pub mod config;
pub mod control;
pub mod cycle;
pub mod daily;
pub mod dead_letter;
pub mod deduplication;
pub mod deferral;
pub mod domains;
pub mod email;
pub mod factor;
pub mod feed;
pub mod grid;
pub mod identity;
pub mod idle;
pub mod limiter;
pub mod memory;
pub mod outcome;
pub mod parts;
pub mod prefetch;
pub mod rate;
pub mod refusals;
pub mod reputation;
pub mod retry;
pub mod tagged;
pub mod tick;
pub mod timestamp;
pub mod turns;
#[cfg(test)]
mod worst_second;

pub use timestamp::{Timestamp, Window};
