//! The routes, and answers in SES's wire format (AWS restJson1).

mod control;
mod lists;
mod ses;
mod texts;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;

use super::engine::{PlannedReply, Reply};
use super::request::MOST_BYTES;
use super::state::SesState;
use crate::sandbox::connection::DroppedConnection;
use crate::sandbox::server::with_request_id;
use crate::ses::SesError;

const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");

pub(super) fn router(state: Arc<SesState>) -> Router {
    Router::new()
        .route("/v2/email/outbound-emails", post(ses::send_email))
        .route("/v2/email/account", get(ses::get_account))
        .route("/v2/email/identities/{identity}", get(ses::get_email_identity))
        .route("/v2/email/configuration-sets/{name}", get(ses::get_configuration_set))
        .route("/v2/email/suppression/addresses", get(lists::suppressed).put(lists::suppress))
        .route("/v2/email/suppression/addresses/{address}", get(lists::find).delete(lists::delete))
        .route("/v2/email/templates/{name}/render", post(ses::render))
        .route("/v2/email/tenants/get", post(lists::tenant))
        .route("/v2/email/tenants/resources/list", post(lists::resources))
        .route("/", get(control::page).post(texts::call))
        .route("/_sandbox/config", get(control::config).patch(control::change))
        .route("/_sandbox/stats", get(control::stats))
        .route("/_sandbox/mails", get(control::mails).delete(control::clear))
        .route("/_sandbox/mails/{seq}", get(control::mail))
        .fallback(ses::unknown)
        .method_not_allowed_fallback(ses::unknown)
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(state)
}

/// Waits as long as planned and ends the request as planned; `refusal` writes an error. A request that waits for ever ends
/// when the sandbox stops.
async fn send_reply(
    state: &SesState,
    plan: PlannedReply,
    refusal: fn(&SesError) -> Response,
) -> Response {
    log(&plan);
    match plan.wait {
        Some(wait) if wait.is_zero() => {}
        Some(wait) => tokio::time::sleep(wait).await,
        None => state.stop.asked().await,
    }
    match plan.end {
        Reply::Answer(Ok(answer)) => with_request_id(Json(answer).into_response()),
        Reply::Answer(Err(error)) => refusal(&error),
        Reply::Close => sever(DroppedConnection::Closed),
        Reply::Reset => sever(DroppedConnection::Reset),
    }
}

/// An error with its code in the header and its message in the body.
fn error_response(error: &SesError) -> Response {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(json!({ "message": error.message }))).into_response();
    if let Ok(code) = HeaderValue::from_str(&error.code) {
        response.headers_mut().insert(ERROR_TYPE, code);
    }
    with_request_id(response)
}

fn sever(severed: DroppedConnection) -> Response {
    let mut response = Response::default();
    response.extensions_mut().insert(severed);
    response
}

/// Logs one event for each outcome, without recipients.
fn log(plan: &PlannedReply) {
    let wait_ms = plan.wait.map(|wait| wait.as_millis());
    match &plan.end {
        Reply::Answer(Ok(answer)) => {
            if let Some(message_id) = answer["MessageId"].as_str() {
                tracing::debug!(message_id, wait_ms, "accepted");
            }
        }
        Reply::Answer(Err(error)) => tracing::info!(
            code = %error.code, status = error.status, reason = %error.message, wait_ms, "refused"
        ),
        Reply::Close => tracing::info!(wait_ms, "closed without an answer"),
        Reply::Reset => tracing::info!(wait_ms, "reset"),
    }
}
