use std::error::Error as StdError;
use std::path::PathBuf;

use aws_config::profile::ProfileFileLoadError;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use thiserror::Error;
use tidegate_core::config::ConfigError;

/// The reasons why a stack cannot be found or used.
#[derive(Debug, Error)]
pub enum StackError {
    #[error("no region: name one with --region, AWS_REGION, or in the profile")]
    NoRegion,
    #[error(
        "the AWS configuration has no profile {profile}; it has {}",
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    )]
    NoProfile { profile: String, known: Vec<String> },
    #[error("the AWS configuration cannot be used")]
    AwsConfiguration(#[from] ProfileFileLoadError),
    #[error(
        "no stack runs on this machine: no run in {runs} answers; start one with `make run KEEP=1`, or name a stack with --stack"
    )]
    NoLocal { runs: PathBuf },
    #[error(
        "no local run is called {name}; there run: {}",
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    )]
    NoRun { name: String, known: Vec<String> },
    #[error("the local run {name} has ended; its report and logs are in {}", folder.display())]
    RunEnded { name: String, folder: PathBuf },
    #[error(
        "there is no stack {stack} in {region}: name it with --stack, its region with --region"
    )]
    NoStack {
        /// The name that was asked for.
        stack: String,
        region: String,
    },
    /// The stack was not made by Tidegate's templates.
    #[error(
        "the stack {stack} has no output {output}: it is none of Tidegate's, or not yet deployed"
    )]
    NoOutput { stack: String, output: &'static str },
    /// The function's environment variables are not valid for this version.
    #[error("the function {function} of the stack {stack} is configured with something it refuses")]
    Config {
        stack: String,
        function: String,
        /// Every variable that is missing or invalid.
        source: ConfigError,
    },
    /// The ledger is the poller's own memory.
    #[error(
        "the stack {0} keeps its ledger in the poller's memory (TIDEGATE_LEDGER=memory): nothing can be read or changed from outside"
    )]
    MemoryLedger(String),
    /// The service did not answer, or refused.
    #[error("{operation} on {resource} failed{}", code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default())]
    Service {
        operation: &'static str,
        resource: String,
        code: Option<String>,
        source: Box<dyn StdError + Send + Sync>,
    },
}

impl StackError {
    /// A failed call, with the service's error code if it has one.
    pub fn service<E, R>(operation: &'static str, resource: &str, error: SdkError<E, R>) -> Self
    where
        E: StdError + ProvideErrorMetadata + Send + Sync + 'static,
        R: std::fmt::Debug + Send + Sync + 'static,
    {
        Self::Service {
            operation,
            resource: resource.to_owned(),
            code: error.code().map(str::to_owned),
            source: Box::new(error),
        }
    }
}
