//! What must hold for any bytes, as one function a parser. Each panics where it does not hold.
//!
//! The fuzz targets in `tests/fuzz` call them with what libFuzzer finds; `tests/corpus.rs` calls
//! them with the corpus in every `cargo test`, which needs no libFuzzer.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a panic is a finding")]

mod attributes;
mod configuration;
mod dead_letter;
mod lines;
mod mark;
mod message;
mod tick;
mod written;

pub use attributes::attributes;
pub use configuration::configuration;
pub use message::message;
pub use tick::tick;

/// Panics if the parser breaks its promise for these bytes.
pub type Oracle = fn(&[u8]);

/// Every oracle, under the name of its fuzz target and of its folder in the corpus.
pub const ALL: [(&str, Oracle); 4] = [
    ("message", message),
    ("tick", tick),
    ("attributes", attributes),
    ("configuration", configuration),
];
