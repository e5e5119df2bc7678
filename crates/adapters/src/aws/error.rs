//! Classifies failed calls, in the same way for all services, and limits their time.

use std::error::Error;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::timeout::TimeoutConfig;
use tidegate_delivery::ports::{FailureKind, PortError};

/// Codes of a queue, table, function or topic that does not exist. SQS answers with the second one, which belongs
/// to its old query protocol.
const NOT_FOUND: [&str; 7] = [
    "QueueDoesNotExist",
    "AWS.SimpleQueueService.NonExistentQueue",
    "ResourceNotFoundException",
    "NotFoundException",
    "NotFound",
    "NoSuchBucket",
    "NoSuchKey",
];

/// Codes of missing permission or wrong credentials. The status does not tell these: some services send
/// them with status 400.
const DENIED: [&str; 12] = [
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "OptInRequired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
    "InvalidAccessKeyId",
];

/// Classifies the failure of `operation` on `resource`.
pub fn port_error<E>(
    operation: &'static str,
    resource: &str,
    error: SdkError<E, HttpResponse>,
) -> PortError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let kind = kind(&error);
    let source = error.into_source().unwrap_or_else(Into::into);
    PortError { operation, resource: resource.to_owned(), kind, source: Some(source) }
}

/// The time limits of one attempt and of a call with its retries.
pub(crate) fn time_limits(attempt: Duration, call: Duration) -> TimeoutConfig {
    TimeoutConfig::builder().operation_attempt_timeout(attempt).operation_timeout(call).build()
}

/// The error of `operation` on `resource` that this process finds, so that no other error is its source.
pub(crate) fn own_error(operation: &'static str, resource: &str, kind: FailureKind) -> PortError {
    PortError { operation, resource: resource.to_owned(), kind, source: None }
}

/// The error for an answer of `operation` on `resource` without `what`, which the service always gives.
pub(crate) fn incomplete(operation: &'static str, resource: &str, what: &str) -> PortError {
    let kind = FailureKind::Refused(format!("an answer without {what}"));
    own_error(operation, resource, kind)
}

/// The error for `operation` on `resource` that could not be made, or whose answer could not be read, because of `why`.
pub(crate) fn refused(
    operation: &'static str,
    resource: &str,
    why: &str,
    source: impl Into<Box<dyn Error + Send + Sync>>,
) -> PortError {
    let kind = FailureKind::Refused(why.to_owned());
    PortError { operation, resource: resource.to_owned(), kind, source: Some(source.into()) }
}

fn kind<E>(error: &SdkError<E, HttpResponse>) -> FailureKind
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::TimeoutError(_) => FailureKind::TimedOut,
        SdkError::ServiceError(answer) => {
            let status = answer.raw().status().as_u16();
            match answer.err().code() {
                Some(code) if NOT_FOUND.contains(&code) => FailureKind::NotFound,
                Some(code) if DENIED.contains(&code) || matches!(status, 401 | 403) => {
                    FailureKind::Denied(code.to_owned())
                }
                Some(code) => FailureKind::Refused(code.to_owned()),
                None if matches!(status, 401 | 403) => {
                    FailureKind::Denied(format!("HTTP {status}"))
                }
                None => FailureKind::Refused(format!("HTTP {status}")),
            }
        }
        SdkError::ResponseError(answer) => {
            FailureKind::Refused(format!("an unreadable answer, HTTP {}", answer.raw().status()))
        }
        _ => match (find::<CredentialsError>(error), error) {
            (Some(CredentialsError::ProviderTimedOut(_)), _) => FailureKind::TimedOut,
            (Some(_), _) => FailureKind::Denied("no credentials".to_owned()),
            (None, SdkError::DispatchFailure(failure)) if failure.is_timeout() => {
                FailureKind::TimedOut
            }
            (None, SdkError::DispatchFailure(_)) => FailureKind::Unreachable,
            _ => FailureKind::Refused("a request that cannot be built".to_owned()),
        },
    }
}

/// The first error of type `T` in the chain of `error`.
pub(crate) fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    std::iter::successors(Some(error), |&error| error.source()).find_map(<dyn Error>::downcast_ref)
}
