//! The requests of SES v2 that are not the SDK's, `Account` and `SuppressionList`.

mod account;
#[cfg(test)]
mod account_tests;
pub(super) mod content;
mod suppression;

pub use account::SesAccount;
pub use suppression::SesSuppressionList;
