//! The operator's command `tidegate`, and the local run.

pub mod commands;
pub mod local;
pub mod shell;
pub mod stack;
