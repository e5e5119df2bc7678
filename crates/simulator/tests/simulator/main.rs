//! The simulator's worlds and forecasts.

#![expect(clippy::unwrap_used, reason = "a panic is a finding")]

mod cost;
mod deferral;
mod forecast;
mod from_stack;
mod memory;
mod stepping;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
