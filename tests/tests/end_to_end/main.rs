//! End to end: the real binaries, deployed by the real template into a local AWS (ministack), and
//! the SES sandbox.
//!
//! `make test` builds and installs what they need. What is missing is an error, never a reason to
//! skip a test. The tests take turns: each has a local AWS of its own, and two of them sending side
//! by side on two cores would measure each other.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: a panic is a finding")]
#![expect(clippy::print_stdout, reason = "shown where a test fails")]

mod bad_messages;
mod by_hand;
mod campaigns;
mod cdk;
mod crashes;
mod failures;
mod forecast;
mod operator;
mod outages;
mod site;
mod start;
mod tagged;
mod terminal;
mod traces;
