//! The console: a live web page of a running stack, over paced event streams.
//!
//! - [`engine`] looks at a stack, over the ports of a [`Site`](engine::Site), and does to it what pages ask for.
//! - [`watch`] says what changed between two looks, [`figures`] what stands; [`memory`] keeps both over a restart.
//! - [`stream`] is what each page still has to be told, [`rate_limit`] how fast. Both are pure: time is an argument.
//! - [`http`] serves pages, streams, actions and metrics, and decides who may come.
//!
//! Whoever serves one starts an [`Engine`](engine::Engine), makes an [`App`](http::App) of what it shares, and
//! runs both until it ends, as `tidegate console` does.

pub mod engine;
pub mod event;
pub mod figures;
pub mod http;
pub mod rate_limit;
pub mod state_file;
pub mod stream;
pub mod watch;

#[cfg(test)]
mod testing;
