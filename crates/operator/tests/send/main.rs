//! `tidegate send` in simulated time.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests: a panic is a finding")]

mod again;
mod checks;
mod faults;
mod golden;
mod held_back;
mod large;
mod lists;
mod runs;
mod texts;
mod world;
