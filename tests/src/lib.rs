//! Parts that several suites share: the contract of each port, the local AWS for the real adapters,
//! and the simulation.

pub mod contract;
pub mod local;
pub mod server;
pub mod simulation;

use mimalloc::MiMalloc;

/// Of all programs of tests that use this crate: simulations allocate much. Here, because each allocation calls a function
/// of the crate that has this, and the simulation's program is not optimised.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
