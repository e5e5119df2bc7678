//! What a page shows of the moment, and of the last half hour.

mod series;
mod shown;

pub use series::Series;
pub use shown::{Express, Figures, Recently, Row, Slots};
pub(crate) use shown::{precise, seconds, size};

#[cfg(test)]
mod tests;
