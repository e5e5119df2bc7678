//! The simulator's forecasts.

#![expect(clippy::unwrap_used, reason = "a panic is a finding")]

mod cost;
mod forecast;
mod from_stack;
mod stepping;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
