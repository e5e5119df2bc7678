//! Sends one mail by `SendEmail` and describes failures for the classification.

use std::error::Error;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sesv2::error::SdkError;
use aws_sdk_sesv2::operation::send_email::SendEmailError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_types::error::metadata::ProvideErrorMetadata as _;
use tidegate_core::in_full;
use tidegate_core::outcome::{Failure, Stage};
use tidegate_delivery::ports::{Mail, Monotonic};

use super::{SesMailer, content};
use crate::error::find;
use crate::json;
use crate::wire::{RequestKind, RequestProgress, Ticket};

pub(super) async fn send(
    mailer: &SesMailer,
    mail: Mail<'_>,
    latest: Monotonic,
) -> Result<String, Failure> {
    let ticket = Ticket::new(mailer.clock, latest);
    let request = content::request(&mail, mailer.configuration_set.as_deref());
    let body = json::written(&request, content::size(mail.email));
    let body = body.map_err(|error| unwritable(&error))?;
    let call =
        mailer.client.send_email().customize().interceptor(RequestKind::Send(ticket.clone()));
    let call = call.mutate_request(move |request| json::put(&body, request));
    match tokio::time::timeout(mailer.send_timeout, call.send()).await {
        Ok(Ok(answer)) => Ok(answer.message_id.unwrap_or_default()),
        Ok(Err(error)) => Err(failure(&error, &ticket)),
        Err(_) => Err(Failure {
            http_status: None,
            code: None,
            message: format!("no answer within {:?}", mailer.send_timeout),
            stage: stage(&ticket),
        }),
    }
}

fn failure(error: &SdkError<SendEmailError, HttpResponse>, ticket: &Ticket) -> Failure {
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
        // SES's own code for a request without credentials. The cause is never the mail.
        _ if lacks_credentials(error) => verdict("MissingAuthenticationToken", error),
        SdkError::ConstructionFailure(_) => unwritable(error),
        _ => {
            Failure { http_status: None, code: None, message: in_full(error), stage: stage(ticket) }
        }
    }
}

/// SES's explanation. If the answer has no code, the SDK keeps the explanation in the error's causes.
fn message(error: &SendEmailError) -> String {
    let said = error.message().or_else(|| find::<ErrorMetadata>(error)?.message());
    said.map_or_else(|| in_full(error), str::to_owned)
}

fn lacks_credentials(error: &(dyn Error + 'static)) -> bool {
    // A credentials provider that timed out may answer the next time, so it counts as an endpoint that timed
    // out.
    find::<CredentialsError>(error)
        .is_some_and(|error| !matches!(error, CredentialsError::ProviderTimedOut(_)))
}

/// A request that cannot be built would be refused by SES in any case, so it gets SES's code for that.
fn unwritable(error: &(dyn Error + 'static)) -> Failure {
    verdict("ValidationException", error)
}

/// A failure with the code that SES would have answered.
fn verdict(code: &str, error: &(dyn Error + 'static)) -> Failure {
    Failure {
        http_status: None,
        code: Some(code.to_owned()),
        message: in_full(error),
        stage: Stage::Answered,
    }
}

/// How far a request without an answer got.
fn stage(ticket: &Ticket) -> Stage {
    match ticket.progress() {
        RequestProgress::Refused => Stage::NotSent,
        RequestProgress::Waiting => Stage::Connect,
        RequestProgress::HandedOver => Stage::AfterWrite,
    }
}

#[cfg(test)]
mod tests;
