//! `tidegate`, the operator's command.

pub mod commands;
pub mod local;
pub mod shell;
pub mod stack;
