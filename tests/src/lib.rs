//! What the tests share: the contract of each port, and the local AWS that the real adapters are
//! tested on.

pub mod contract;
pub mod local;
