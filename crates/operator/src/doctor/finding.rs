//! The result of a check, and of the reading before it.

use std::error::Error;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use serde::Serialize;
use strum::IntoStaticStr;
use tidegate_adapters::aws::port_error;
use tidegate_core::in_full;
use tidegate_delivery::ports::FailureKind;

#[derive(Clone, Copy, Debug, IntoStaticStr, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(super) enum CheckState {
    Ok,
    Unknown,
    Warning,
    /// Does not work, or will not.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The name of the check, such as `queue big: visibility timeout`.
    pub(super) check: String,
    pub(super) state: CheckState,
    /// The value found, and the allowed one.
    pub(super) found: String,
    /// The remedy; empty if nothing has to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) remedy: String,
}

/// A value that was read, or the reason why it could not be. A check without its value is reported
/// as unknown, not as passed.
pub(super) type ReadResult<T> = Result<T, String>;

impl Finding {
    pub(super) fn new(
        state: CheckState,
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { check: check.into(), state, found: found.into(), remedy: remedy.into() }
    }

    pub(super) fn ok(check: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(CheckState::Ok, check, found, "")
    }

    pub(super) fn warning(
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(CheckState::Warning, check, found, remedy)
    }

    pub(super) fn failed(
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(CheckState::Failed, check, found, remedy)
    }

    /// This finding, unless all `is_well`: then that, and what was found.
    pub(super) fn unless(self, is_well: bool, found: impl Into<String>) -> Self {
        if is_well { Self::ok(self.check, found) } else { self }
    }

    /// A check that could not be made.
    pub(super) fn unread(check: impl Into<String>, why: &str) -> Self {
        let remedy = "grant the caller the permission to read it, or check it by hand";
        Self::new(CheckState::Unknown, check, format!("not checked: {why}"), remedy)
    }

    /// The judgement of a value, where it could be read.
    pub(super) fn on<T>(
        check: impl Into<String>,
        read: &ReadResult<T>,
        judge: impl FnOnce(String, &T) -> Self,
    ) -> Self {
        match read {
            Ok(value) => judge(check.into(), value),
            Err(why) => Self::unread(check, why),
        }
    }
}

/// Turns an SDK error into one line of text, so that a check can report "unknown" and its reason.
pub(super) fn answered<T, E: Error + ProvideErrorMetadata + Send + Sync + 'static>(
    operation: &'static str,
    resource: &str,
    answer: Result<T, SdkError<E>>,
) -> ReadResult<T> {
    let answer = answer.map_err(|error| port_error(operation, resource, error));
    answer.map_err(|error| match &error.kind {
        FailureKind::Denied(code) | FailureKind::Refused(code) => format!("{operation}: {code}"),
        _ => in_full(&error),
    })
}
