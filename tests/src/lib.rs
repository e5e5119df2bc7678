//! Parts that several suites share: the contract of each port, the local AWS for the real adapters,
//! and the simulation.

pub mod contract;
pub mod local;
pub mod server;
pub mod simulation;

use mimalloc::MiMalloc;

/// Simulations allocate much, and this allocator is faster than the system's. It stands in this library because each
/// allocation calls a function of the crate that names the allocator, and the simulation's program is not optimised.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
