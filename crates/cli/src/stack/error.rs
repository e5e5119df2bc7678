use std::error::Error as StdError;
use std::path::PathBuf;

use thiserror::Error;
use tidegate_core::config::ConfigError;

/// Why a stack was not found.
#[derive(Debug, Error)]
pub enum StackError {
    /// No region is configured.
    #[error("no region: name one with --region, AWS_REGION, or in the profile")]
    NoRegion,
    /// No local run answers.
    #[error(
        "no stack runs on this machine: no run in {runs} answers; start one with `make run KEEP=1`, or name a stack with --stack"
    )]
    NoLocal {
        /// Where the runs were looked for.
        runs: PathBuf,
    },
    /// There is no such stack.
    #[error(
        "there is no stack {stack} in {region}: name it with --stack, its region with --region"
    )]
    NoStack {
        /// The name that was asked for.
        stack: String,
        /// Where.
        region: String,
    },
    /// A stack that is none of Tidegate's.
    #[error(
        "the stack {stack} has no output {output}: it is none of Tidegate's, or not yet deployed"
    )]
    NoOutput {
        /// The stack.
        stack: String,
        /// What is missing.
        output: &'static str,
    },
    /// What a function is configured with is not what the functions take.
    #[error("the function {function} of the stack {stack} is configured with something it refuses")]
    Config {
        /// The stack.
        stack: String,
        /// The function.
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
        /// The service's operation.
        operation: &'static str,
        /// What it was called on.
        resource: String,
        /// The service's code.
        code: Option<String>,
        /// What was said.
        source: Box<dyn StdError + Send + Sync>,
    },
}
