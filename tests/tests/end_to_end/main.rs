//! End to end: the real binaries, deployed by the real template into a local AWS (ministack), and
//! the SES sandbox.
//!
//! `make test` builds and installs what they need. What is missing is an error, never a reason to
//! skip a test. Each has a local AWS of its own. Six run at once, because they mostly wait; those
//! that measure utilisation and shares run beside nothing else, because it would be measured, too.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: a panic is a finding")]
#![expect(clippy::print_stdout, reason = "shown where a test fails")]

mod bad_messages;
mod by_hand;
mod campaigns;
mod cdk;
mod crashes;
#[cfg(target_os = "linux")]
mod ends;
mod failures;
mod first_campaign;
mod forecast;
mod operator;
mod outages;
mod site;
mod start;
mod tagged;
mod terminal;
mod texts;
mod traces;
mod typo;
#[cfg(target_os = "linux")]
mod upload;
