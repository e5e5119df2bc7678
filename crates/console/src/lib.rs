//! The console.
pub mod event;
pub mod pace;
pub mod stream;
