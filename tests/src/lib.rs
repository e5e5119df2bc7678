//! Parts that several suites share: the contract of each port, the local AWS for the real adapters,
//! and the simulation.

pub mod contract;
pub mod local;
pub mod server;
pub mod simulation;
