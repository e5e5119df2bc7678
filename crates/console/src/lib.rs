//! The console.
pub mod event;
pub mod figures;
pub mod memory;
pub mod pace;
pub mod stream;
pub mod watch;
