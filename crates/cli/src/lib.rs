//! `tidegate`, the operator's command.

pub mod local;
