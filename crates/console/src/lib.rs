//! The console: a live web page of a running stack, over paced event streams.
pub mod engine;
pub mod event;
pub mod figures;
pub mod http;
pub mod memory;
pub mod pace;
pub mod stream;
pub mod watch;

#[cfg(test)]
mod testing;
