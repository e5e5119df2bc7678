//! What a page shows of the moment, and of the last half hour.

mod series;
mod shown;

pub use series::Series;
pub(crate) use shown::precise;
pub use shown::{Express, Figures, Recently, Row, Slots};

#[cfg(test)]
mod tests;
