//! What the tests share: the contract of each port, the local AWS that the real adapters are
//! tested on, and the simulation.

pub mod contract;
pub mod local;
pub mod server;
pub mod simulation;
