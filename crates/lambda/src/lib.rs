//! The Lambda binaries, and the code that both share: start-up, logs and metrics.

mod logs;
mod metrics;
mod start;

pub use logs::{LogLines, begin_invocation};
pub use metrics::{
    failed_metrics, log_record, poller_metrics, publish, scheduler_metrics, stack_name,
};
pub use start::{LambdaFunction, start};

use std::error::Error;
use std::process::ExitCode;

/// Reads an environment variable. Bytes that are not Unicode are replaced, so that the error about the value
/// can show it.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Ends a start that failed: logs one event with all causes, and returns exit code 1.
pub fn failed_start(error: &(dyn Error + 'static)) -> ExitCode {
    tracing::error!(error, "start refused");
    ExitCode::FAILURE
}

/// The answer of a failed invocation: the error's kind, and its message with all causes.
pub fn diagnostic(kind: &'static str, error: &dyn Error) -> lambda_runtime::Diagnostic {
    let error_message = tidegate_core::in_full(error);
    lambda_runtime::Diagnostic { error_type: kind.to_owned(), error_message }
}
