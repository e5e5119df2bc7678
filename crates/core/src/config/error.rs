//! What is wrong with the environment.

use thiserror::Error;

/// One variable that is missing or invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{name} is {value}; allowed is {allowed}")]
pub struct InvalidVariable {
    /// The variable.
    pub name: &'static str,
    /// Its value in quotes, or "not set".
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

/// All that is wrong with the environment.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError(pub Vec<InvalidVariable>);
