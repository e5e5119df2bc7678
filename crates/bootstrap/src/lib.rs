//! What both Lambda binaries share: start-up, logs, the ledger and the mailer of their choice.

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

/// Reads an environment variable; one that is not Unicode counts as its lossy text, so that the
/// refusal can show it.
pub fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// The exit of a start that failed: one event with every cause, and exit code 1.
pub fn failed_start(error: &(dyn Error + 'static)) -> ExitCode {
    tracing::error!(error, "start refused");
    ExitCode::FAILURE
}

/// A failed invocation's answer: the error's kind, and its message with every cause.
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
