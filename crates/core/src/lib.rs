//! Tidegate's decisions as pure functions.
//!
//! Nothing here reads a clock, draws a random number, or does I/O. Time is an argument of type
//! [`Timestamp`], and randomness is an argument too. Every promise can therefore be a property test.
//!
//! | module | decides |
//! |---|---|
//! | [`rate`], [`grid`] | when a send may start: one slot per recipient |
//! | [`bucket`] | how many recipients may be sent to now, if other software shares the rate |
//! | [`cycle`], [`allocation`] | which campaign a slot belongs to, and who gets unused shares |
//! | [`turns`], [`limiter`] | which waiting message takes the slot that is due |
//! | [`limits`] | how fast mail of a domain, campaign or sender may be sent, and when |
//! | [`memory`] | how many bytes of mail a poller may hold at once |
//! | [`feed`] | how many messages to move into the merge queue |
//! | [`prefetch`] | how many messages to receive ahead of their slots |
//! | [`idle`] | when to check empty queues, and which ticks are left out meanwhile |
//! | [`incidents`] | what operators are told, once when it begins and once when it ends |
//! | [`tick`] | which window a poller serves, and whether it is still in time |
//! | [`control`], [`factor`] | which changes of operators, refusals and failures are in force |
//! | [`breaker`], [`daily`], [`refusals`], [`reputation`] | when sending stops, and when it continues |
//! | [`email`], [`text_message`], [`identity`] | which messages are valid, and which are the same mail |
//! | [`channel`] | what the poller asks of a mail or a text message |
//! | [`outcome`], [`retry`], [`dead_letter`] | what SES's answers mean, and where failed mail goes |
//! | [`deduplication`] | whether a copy of a mail is sent |
//! | [`runs`] | how far the sending of a list has come, and who has got its mail |
//! | [`exclusions`] | which recipients get no mail of a campaign |
//! | [`back_pressure`], [`deferral`] | when mail of low priority is deferred, and its form in S3 |
//! | [`parts`] | which ledger item holds a campaign's values, and when they are deleted |
//! | [`counters`] | what a poller counts, and where it is shown |
//! | [`config`] | which values of the environment are valid |
//! | [`tagged`] | which queues are campaigns, by their tags |

// Other crates call these modules, so every public item has a comment. The other crates of the
// workspace have no such rule.
#![warn(missing_docs)]

#[macro_use]
mod stored;

pub mod allocation;
pub mod back_pressure;
pub mod breaker;
pub mod bucket;
pub mod channel;
pub mod compression;
pub mod config;
pub mod control;
pub mod counters;
pub mod cycle;
pub mod daily;
pub mod dead_letter;
pub mod deduplication;
pub mod deferral;

pub mod email;
pub mod exclusions;
pub mod factor;
pub mod feed;
pub mod format;
pub mod grid;
pub mod identity;
pub mod idle;
pub mod incidents;
pub mod limiter;
pub mod limits;
pub mod memory;
mod number;
pub mod outcome;
pub mod parts;
pub mod prefetch;
pub mod rate;
pub mod refusals;
pub mod reputation;
pub mod retry;
pub mod runs;
pub mod tagged;
mod text;
pub mod text_message;
pub mod tick;
pub mod timestamp;
pub mod turns;
pub mod waits;
pub mod weight_rule;
#[cfg(test)]
mod worst_second;

pub use text::{InvalidText, in_full};
pub use timestamp::{Timestamp, Window};
