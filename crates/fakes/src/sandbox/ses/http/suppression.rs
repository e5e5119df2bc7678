//! The calls on the account's suppression list, as the SES v2 API has them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{SuppressedAddress, SuppressionReason};

use super::answer::error_response;
use crate::sandbox::ses::state::SesState;
use crate::ses::SesError;

/// Addresses per page if a call names no number.
const PAGE: usize = 1_000;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListQuery {
    next_token: Option<String>,
    page_size: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PutRequest {
    email_address: String,
    reason: Reason,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum Reason {
    Bounce,
    Complaint,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Destination {
    email_address: String,
    reason: Reason,
    /// Seconds since the Unix epoch, with a fraction.
    last_update_time: f64,
}

impl Destination {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 stay below 2^53")]
    fn of(entry: SuppressedAddress) -> Self {
        let reason = match entry.reason {
            SuppressionReason::Bounce => Reason::Bounce,
            SuppressionReason::Complaint => Reason::Complaint,
        };
        let last_update_time = entry.since.as_millis() as f64 / 1_000.0;
        Self { email_address: entry.address, reason, last_update_time }
    }
}

pub(super) async fn list(
    State(state): State<Arc<SesState>>,
    Query(asked): Query<ListQuery>,
) -> Response {
    let size = asked.page_size.unwrap_or(PAGE);
    let page = state.suppressed.page_of(size, asked.next_token.as_deref());
    let listed: Vec<_> = page.addresses.into_iter().map(Destination::of).collect();
    let answer = json!({ "SuppressedDestinationSummaries": listed, "NextToken": page.next });
    Json(answer).into_response()
}

pub(super) async fn put(
    State(state): State<Arc<SesState>>,
    Json(asked): Json<PutRequest>,
) -> Response {
    let reason = match asked.reason {
        Reason::Bounce => SuppressionReason::Bounce,
        Reason::Complaint => SuppressionReason::Complaint,
    };
    let since = EpochMillis::new(state.now_ns() / 1_000_000);
    state.suppressed.put(&asked.email_address, reason, since);
    Json(json!({})).into_response()
}

pub(super) async fn find(
    State(state): State<Arc<SesState>>,
    Path(address): Path<String>,
) -> Response {
    match state.suppressed.entry(&address) {
        Some(entry) => {
            Json(json!({ "SuppressedDestination": Destination::of(entry) })).into_response()
        }
        None => absent(),
    }
}

pub(super) async fn delete(
    State(state): State<Arc<SesState>>,
    Path(address): Path<String>,
) -> Response {
    if state.suppressed.remove(&address) { Json(json!({})).into_response() } else { absent() }
}

fn absent() -> Response {
    error_response(&SesError::new(
        "NotFoundException",
        404,
        "Email address does not exist on your suppression list.",
    ))
}
