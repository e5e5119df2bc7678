//! The SES v2 calls.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;

use super::answer::{carry_out, error_response};
use crate::engine::{End, Plan};
use crate::running::Shared;
use crate::ses::{MOST_BYTES, SesError, parse_send_email};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct SendEmailAnswer {
    message_id: String,
}

pub(super) async fn send_email(
    State(shared): State<Arc<Shared>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let arrived_ns = shared.now_ns();
    let plan = match body {
        Ok(body) => {
            let request = parse_send_email(&body);
            shared.engine().send(arrived_ns, request, &body)
        }
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let message = format!("Message length is more than {MOST_BYTES} bytes long.");
            shared.engine().send(arrived_ns, Err(SesError::bad_request(message)), &[])
        }
        // The client went away while it wrote: nothing arrived, and nobody waits for an answer.
        Err(rejection) => return rejection.into_response(),
    };
    log(&plan);
    let wait = plan.wait;
    let end = match plan.end {
        End::Answer(answer) => End::Answer(answer.map(|message_id| SendEmailAnswer { message_id })),
        End::Close => End::Close,
        End::Reset => End::Reset,
    };
    carry_out(&shared, Plan { wait, end }).await
}

pub(super) async fn get_account(State(shared): State<Arc<Shared>>) -> Response {
    let now_ns = shared.now_ns();
    let plan = shared.engine().account(now_ns);
    carry_out(&shared, plan).await
}

/// Every sender is taken, so every identity is verified.
pub(super) async fn get_email_identity(Path(identity): Path<String>) -> Response {
    let kind = if identity.contains('@') { "EMAIL_ADDRESS" } else { "DOMAIN" };
    Json(json!({ "IdentityType": kind, "VerifiedForSendingStatus": true })).into_response()
}

/// Mails may name any configuration set, so every one is there.
pub(super) async fn get_configuration_set(Path(name): Path<String>) -> Response {
    Json(json!({ "ConfigurationSetName": name })).into_response()
}

pub(super) async fn unknown(method: Method, uri: Uri) -> Response {
    error_response(&SesError::unknown_operation(method.as_str(), uri.path()))
}

/// One event per outcome; who the mail was for is not told.
fn log(plan: &Plan<String>) {
    let wait_ms = plan.wait.map(|wait| wait.as_millis());
    match &plan.end {
        End::Answer(Ok(message_id)) => tracing::debug!(message_id, wait_ms, "accepted"),
        End::Answer(Err(error)) => tracing::info!(
            code = %error.code, status = error.status, reason = %error.message, wait_ms, "refused"
        ),
        End::Close => tracing::info!(wait_ms, "closed without an answer"),
        End::Reset => tracing::info!(wait_ms, "reset"),
    }
}
