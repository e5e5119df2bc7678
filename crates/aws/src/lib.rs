//! Tidegate's ports on SQS, SES v2, Lambda and `DynamoDB`: a file per operation, every error
//! classified once.
//!
//! | port | adapter |
//! |---|---|
//! | `Queues`, `Directory` | [`SqsQueues::new`]`(&aws_sdk_sqs::Client)` |
//! | `Feedback` | [`SqsFeedback::new`]`(&aws_sdk_sqs::Client, queue_url)` |
//! | `Mailer` | [`SesMailer::new`]`(&aws_sdk_sesv2::Client, SystemClock, send_timeout)` |
//! | `Account` | [`SesAccount::new`]`(&aws_sdk_sesv2::Client)` |
//! | `Ledger` | [`DynamoLedger::new`]`(&aws_sdk_dynamodb::Client, table)` |
//! | `DeferralStore` | [`S3DeferralStore::new`]`(&aws_sdk_s3::Client, location)` |
//! | `Invoke` | [`LambdaInvoke::new`]`(&aws_sdk_lambda::Client, function)` |
//! | `Clock` | [`SystemClock::new`]`()`, which is `Copy` |
//! | `Entropy` | [`SystemEntropy`] |
//!
//! [`Clients::connect`] reads the SDK's configuration once and makes each of them
//! (`clients.queues()`, `clients.mailer(clock, timeout)`, …) over one [`Wire`], the HTTP client
//! whose connections they share. An adapter made of any other SDK client works as well; it sets its
//! own retries and time-outs, whatever the client had.
//!
//! [`emf`] writes metrics as `CloudWatch` reads them from a log.

mod clients;
mod clock;
mod dynamodb;
pub mod emf;
mod entropy;
mod error;
mod json;
mod lambda;
mod s3;
mod ses;
mod sqs;
mod wire;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod loopback;

pub use clients::Clients;
pub use clock::SystemClock;
pub use dynamodb::DynamoLedger;
pub use entropy::SystemEntropy;
pub use lambda::LambdaInvoke;
pub use s3::S3DeferralStore;
pub use ses::{SesAccount, SesMailer};
pub use sqs::{SqsFeedback, SqsQueues};
pub use wire::Wire;
