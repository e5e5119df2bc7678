//! Handlers of the SES v2 API's calls.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::{error_response, send_reply};
use crate::sandbox::ses::request::{MOST_BYTES, parse_send_email};
use crate::sandbox::ses::state::SesState;
use crate::ses::SesError;

pub(super) async fn send_email(
    State(state): State<Arc<SesState>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let arrived_ns = state.now_ns();
    let plan = match body {
        Ok(body) => {
            let request = parse_send_email(&body);
            state.engine().send(arrived_ns, request, &body)
        }
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let message = format!("Message length is more than {MOST_BYTES} bytes long.");
            state.engine().send(arrived_ns, Err(SesError::bad_request(message)), &[])
        }
        // The client disconnected while it wrote: nothing arrived, and no answer is read.
        Err(rejection) => return rejection.into_response(),
    };
    send_reply(&state, plan, error_response).await
}

pub(super) async fn get_account(State(state): State<Arc<SesState>>) -> Response {
    let now_ns = state.now_ns();
    let plan = state.engine().account(now_ns);
    send_reply(&state, plan, error_response).await
}

/// The sandbox accepts every sender, so every identity is verified.
pub(super) async fn get_email_identity(Path(identity): Path<String>) -> Response {
    let kind = if identity.contains('@') { "EMAIL_ADDRESS" } else { "DOMAIN" };
    Json(json!({ "IdentityType": kind, "VerifiedForSendingStatus": true })).into_response()
}

/// Renders any template: the sandbox knows none, and sends by all of them.
pub(super) async fn render() -> Response {
    Json(json!({ "RenderedTemplate": "" })).into_response()
}

/// Mails may name any configuration set, so every one exists.
pub(super) async fn get_configuration_set(Path(name): Path<String>) -> Response {
    Json(json!({ "ConfigurationSetName": name })).into_response()
}

pub(super) async fn unknown(method: Method, uri: Uri) -> Response {
    error_response(&SesError::unknown_operation(method.as_str(), uri.path()))
}
