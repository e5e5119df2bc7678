//! One send, and the description of its failure for the classification: common to SES and to text messages.

use std::error::Error;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use tidegate_core::in_full;
use tidegate_core::outcome::{Failure, Stage};

use crate::aws::error::find;
use crate::aws::wire::{RequestProgress, Ticket};

/// Makes a call that carries `ticket`, within the time limit. The call must not be retried by the SDK.
pub(crate) async fn once<T, E>(
    ticket: &Ticket,
    limit: Duration,
    call: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
) -> Result<T, Failure>
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer.map_err(|error| failure(&error, ticket)),
        Err(_) => Err(Failure {
            http_status: None,
            code: None,
            message: format!("no answer within {limit:?}"),
            stage: stage(ticket),
        }),
    }
}

fn failure<E>(error: &SdkError<E, HttpResponse>, ticket: &Ticket) -> Failure
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::ServiceError(answer) => Failure {
            http_status: Some(answer.raw().status().as_u16()),
            code: answer.err().code().map(str::to_owned),
            message: message(answer.err()),
            stage: Stage::Answered,
        },
        SdkError::ResponseError(answer) => Failure {
            http_status: Some(answer.raw().status().as_u16()),
            code: None,
            message: in_full(error),
            stage: Stage::Answered,
        },
        // The services' own code for a request without credentials. The cause is never the mail.
        _ if lacks_credentials(error) => verdict("MissingAuthenticationToken", error),
        SdkError::ConstructionFailure(_) => unwritable(error),
        _ => {
            Failure { http_status: None, code: None, message: in_full(error), stage: stage(ticket) }
        }
    }
}

/// The service's explanation. If the answer has no code, the SDK keeps the explanation in the error's causes.
fn message<E: ProvideErrorMetadata + Error + 'static>(error: &E) -> String {
    let said = error.message().or_else(|| find::<ErrorMetadata>(error)?.message());
    said.map_or_else(|| in_full(error), str::to_owned)
}

fn lacks_credentials(error: &(dyn Error + 'static)) -> bool {
    // A credentials provider that timed out may answer the next time, so it counts as an endpoint that timed
    // out.
    find::<CredentialsError>(error)
        .is_some_and(|error| !matches!(error, CredentialsError::ProviderTimedOut(_)))
}

/// A request that cannot be built would be refused in any case, so it gets the services' code for that.
pub(crate) fn unwritable(error: &(dyn Error + 'static)) -> Failure {
    verdict("ValidationException", error)
}

/// A failure with the code that the service would have answered.
fn verdict(code: &str, error: &(dyn Error + 'static)) -> Failure {
    Failure {
        http_status: None,
        code: Some(code.to_owned()),
        message: in_full(error),
        stage: Stage::Answered,
    }
}

/// A message of a channel that this mailer does not send; a poller's settings choose both.
pub(crate) fn other_channel() -> Failure {
    unwritable(&OtherChannel)
}

#[derive(Debug, thiserror::Error)]
#[error("a message of another channel than TIDEGATE_CHANNEL says")]
struct OtherChannel;

/// How far a request without an answer got.
fn stage(ticket: &Ticket) -> Stage {
    match ticket.progress() {
        RequestProgress::Refused => Stage::NotSent,
        RequestProgress::Waiting => Stage::Connect,
        RequestProgress::HandedOver => Stage::AfterWrite,
    }
}
