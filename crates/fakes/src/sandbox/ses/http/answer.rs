//! Answers in SES's wire format (AWS restJson1).

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::sandbox::connection::DroppedConnection;
use crate::sandbox::server::with_request_id;
use crate::sandbox::ses::engine::{PlannedReply, Reply};
use crate::sandbox::ses::state::SesState;
use crate::ses::SesError;

const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");

/// Waits as long as planned and ends the request as planned; `refusal` writes an error. A request that waits for ever ends
/// when the sandbox stops.
pub(super) async fn send_reply<T: Serialize>(
    state: &SesState,
    plan: PlannedReply<T>,
    refusal: fn(&SesError) -> Response,
) -> Response {
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
pub(super) fn error_response(error: &SesError) -> Response {
    #[derive(Serialize)]
    struct Body<'a> {
        message: &'a str,
    }
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(Body { message: &error.message })).into_response();
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
