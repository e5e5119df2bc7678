//! The console: a live web page of a running stack, over paced event streams.
//!
//! - [`engine`] reads a stack through [`StackPorts`](engine::StackPorts), and carries out what
//!   pages ask for.
//! - [`watch`] derives changes from successive looks, [`figures`] current values.
//! - [`stream`] holds the events that wait for each page, [`rate_limit`] limits their rate. Both
//!   take the time as an argument.
//! - [`http`] serves pages, streams, actions and metrics, and controls access.
//!
//! A program starts an [`Engine`](engine::Engine), makes an [`App`](http::App) from its handle, and
//! runs both, as `tidegate console` and `devstack` do.

pub mod command;
pub mod engine;
pub mod event;
pub mod figures;
pub mod http;
pub mod rate_limit;
pub mod stream;
pub mod watch;

#[cfg(test)]
mod tests;
