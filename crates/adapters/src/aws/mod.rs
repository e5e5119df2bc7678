//! Tidegate's ports on SQS, SES v2, Lambda, `DynamoDB` and S3. Errors are classified
//! in one place.
//!
//! | port | adapter |
//! |---|---|
//! | `Queues`, `Directory` | [`SqsQueues::new`]`(&aws_sdk_sqs::Client)` |
//! | `Mailer` | [`AwsMailer::email`]`(&aws_sdk_sesv2::Client, SystemClock, send_timeout)`; `AwsMailer::texts` with the feature `sms` |
//! | `Account` | [`SesAccount::new`]`(&aws_sdk_sesv2::Client)`; `SmsAccount::new` with the feature `sms`; [`ChannelAccount`] of the stack's channel |
//! | `SuppressionList` | [`SesSuppressionList::new`]`(aws_sdk_sesv2::Client)` |
//! | `Ledger`, `Marks`, `Exclusions`, `History` | [`DynamoLedger::new`]`(&aws_sdk_dynamodb::Client, table)` |
//! | `Store` | [`S3Store::new`]`(&aws_sdk_s3::Client, location)` |
//! | `Invoke` | [`LambdaInvoke::new`]`(&aws_sdk_lambda::Client, function)` |
//! | `Events` | [`EventBus::new`]`(&SdkConfig, name)` |
//! | `Monitor` | `CloudWatch::new`, with the feature `cloudwatch` |
//! | `Clock` | [`SystemClock::new`]`()`, which is `Copy` |
//! | `Entropy` | [`SystemEntropy`] |
//!
//! [`Clients::connect`] reads the SDK's configuration once and creates each adapter (`clients.queues()`,
//! `clients.mailer(clock, timeout)`, …). They share one [`Wire`], the HTTP client that owns the connections.
//! An adapter may also be created from any other SDK client; it replaces that client's retries and time
//! limits by its own.
//!
//! [`emf`] formats metrics that `CloudWatch` extracts from the log. [`stack`] is a deployed stack, as the
//! operator's tools reach it.

mod clients;
#[cfg(feature = "cloudwatch")]
mod cloudwatch;
mod dynamodb;
pub mod emf;
mod error;
mod event_bus;
mod json;
mod json_client;
mod lambda;
#[cfg(feature = "cloudwatch")]
mod logs;
mod mailer;
mod s3;
mod ses;
#[cfg(feature = "sms")]
mod sms;
mod sns;
mod sqs;
pub mod stack;
mod system;
mod traces;
mod wire;

pub use clients::{ChannelAccount, Clients};
#[cfg(feature = "cloudwatch")]
pub use cloudwatch::CloudWatch;
pub use dynamodb::DynamoLedger;
pub use error::port_error;
pub use event_bus::EventBus;
pub use lambda::{LambdaInvoke, Waker};
#[cfg(feature = "cloudwatch")]
pub use logs::CloudWatchLogs;
pub use mailer::AwsMailer;
pub use s3::S3Store;
pub use ses::{SesAccount, SesSuppressionList};
#[cfg(feature = "sms")]
pub use sms::SmsAccount;
pub use sns::SnsTopic;
pub use sqs::SqsQueues;
pub use system::{SystemClock, SystemEntropy};
pub use traces::TraceEndpoint;
pub use wire::Wire;
pub(crate) use wire::trust_roots;

#[cfg(test)]
mod tests;
