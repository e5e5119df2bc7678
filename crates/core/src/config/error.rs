//! The errors that an invalid environment gives.

use thiserror::Error;

/// One environment variable that is missing or has an invalid value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{name} is {value}; allowed is {allowed}")]
pub struct InvalidVariable {
    /// The variable's name, such as `TIDEGATE_LEDGER`.
    pub name: &'static str,
    /// The given value in quotes, or "not set". It is left out if it may contain a password.
    pub value: String,
    /// A description of the allowed values, for the operator.
    pub allowed: String,
}

/// All missing and invalid variables of one start; shown one per line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError(pub Vec<InvalidVariable>);
