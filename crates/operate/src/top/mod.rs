//! A live view of a running stack: what was read each second, and what the operator types.
//!
//! All of it is pure: a terminal draws a [`Board`] and hands its keys to it.

mod board;
mod prompt;

pub use board::{Board, Row};
pub use prompt::{Key, Prompt, Told};

#[cfg(test)]
mod tests;
