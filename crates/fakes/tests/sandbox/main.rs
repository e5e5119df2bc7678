//! The sandboxes as clients meet them: connections, and the APIs of SES and SQS over real HTTP.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod connections;
mod ses;
mod sqs_contract;
mod sqs_program;
