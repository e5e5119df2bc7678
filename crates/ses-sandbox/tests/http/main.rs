//! The sandbox as a client meets it: real HTTP on loopback.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod control;
mod program;
mod ses_api;
mod support;
