//! Tidegate's decisions as pure functions.
//!
//! Nothing here reads a clock, draws a random number, or does I/O. Time is an argument of type
//! [`Timestamp`], and randomness is an argument too. Every promise can therefore be a property test.
//!
//! The modules stand in folders by subject (`pace`, `shares`, `limits`, `message`, `stops`, `state`, `config`),
//! whose names are no part of a path.
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
//! | [`ses_request`] | which calls of SES's send API are valid, and how they are answered |
//! | [`trace`] | which spans a window adds to the traces of its mails |
//! | [`draft`] | which message a row of a list becomes |
//! | [`redact`] | what is shown of addresses and phone numbers |
//! | [`deduplication`] | whether a copy of a mail is sent |
//! | [`runs`] | how far the sending of a list has come, and who has got its mail |
//! | [`events`] | which events other programs get of mail that SES was not given, holds, incidents and runs |
//! | [`exclusions`] | which recipients get no mail of a campaign |
//! | [`back_pressure`] | when mail of low priority is deferred |
//! | [`store`] | the form of mail that waits in S3 |
//! | [`parts`] | which ledger item holds a campaign's values, and when they are deleted |
//! | [`audit`] | which record of a window the log has |
//! | [`counters`] | what a poller counts, and where it is shown |
//! | [`config`] | which values of the environment are valid |
//! | [`tagged`] | which queues are campaigns, by their tags |

// Other crates call these modules, so every public item has a comment. The other crates of the
// workspace have no such rule.
#![warn(missing_docs)]

#[macro_use]
mod stored;

pub mod config;
pub mod draft;
pub mod events;
pub mod format;
pub mod limits;
mod message;
pub mod number;
mod pace;
pub mod redact;
mod shares;
mod state;
mod stops;
pub mod store;
mod text;
pub mod timestamp;

pub use message::{
    channel, compression, dead_letter, deduplication, email, exclusions, identity, outcome, retry,
    ses_request, text_message, trace,
};
#[cfg(test)]
pub(crate) use pace::tests::worst_second;
pub use pace::{bucket, factor, grid, idle, limiter, prefetch, rate, tick};
pub use shares::{allocation, cycle, feed, memory, tagged, turns};
pub use state::{audit, control, counters, parts, runs, waits};
pub use stops::{back_pressure, breaker, daily, incidents, refusals, reputation};
pub use text::{InvalidText, in_full, quoted};
pub use timestamp::{Timestamp, Window};
