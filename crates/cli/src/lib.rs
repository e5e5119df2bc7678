//! The operator's command `tidegate`.

pub mod commands;
pub mod shell;
pub mod stack;
