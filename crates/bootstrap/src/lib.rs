//! Code that both Lambda binaries share: start-up, logs, metrics, and the choice of ledger and mailer.

mod ledger;
mod logs;
mod mailer;
mod metrics;

pub use ledger::{AnyLedger, LedgerFailures};
pub use logs::init_logs;
pub use mailer::bucketed;
pub use metrics::{failed_metrics, poller_metrics, publish, scheduler_metrics};

use std::error::Error;
use std::process::ExitCode;

/// Reads an environment variable. Bytes that are not Unicode are replaced, so that the error about the value
/// can show it.
pub fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Ends a start that failed: logs one event with all causes, and returns exit code 1.
pub fn failed_start(error: &(dyn Error + 'static)) -> ExitCode {
    tracing::error!(error, "start refused");
    ExitCode::FAILURE
}

/// The answer of a failed invocation: the error's kind, and its message with all causes.
pub fn diagnostic(kind: &'static str, error: &dyn Error) -> lambda_runtime::Diagnostic {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message.push_str(": ");
        message.push_str(&cause.to_string());
        source = cause.source();
    }
    lambda_runtime::Diagnostic { error_type: kind.to_owned(), error_message: message }
}
