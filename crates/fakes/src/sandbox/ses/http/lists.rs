//! The calls on the account's suppression list and its tenants, as the SES v2 API has them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{SuppressedAddress, SuppressionReason};

use super::error_response;
use crate::sandbox::ses::state::SesState;
use crate::ses::{SesError, SesTenant};

/// Addresses per page if a call names no number.
const ADDRESSES: usize = 1_000;
/// Resources per page if a call names no number: few, so that a client that reads one page lacks some.
const RESOURCES: usize = 2;

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
    reason: SuppressionReason,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct TenantRequest {
    tenant_name: String,
    next_token: Option<String>,
    page_size: Option<usize>,
}

/// An entry of the list; its time in seconds since the Unix epoch, with a fraction.
#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 stay below 2^53")]
fn destination(entry: &SuppressedAddress) -> Value {
    json!({
        "EmailAddress": entry.address,
        "Reason": entry.reason,
        "LastUpdateTime": entry.since.as_millis() as f64 / 1_000.0,
    })
}

pub(super) async fn suppressed(
    State(state): State<Arc<SesState>>,
    Query(asked): Query<ListQuery>,
) -> Response {
    let size = asked.page_size.unwrap_or(ADDRESSES);
    let page = state.suppressed.page_of(size, asked.next_token.as_deref());
    let listed: Vec<_> = page.addresses.iter().map(destination).collect();
    let answer = json!({ "SuppressedDestinationSummaries": listed, "NextToken": page.next });
    Json(answer).into_response()
}

pub(super) async fn suppress(
    State(state): State<Arc<SesState>>,
    Json(asked): Json<PutRequest>,
) -> Response {
    let since = EpochMillis::new(state.now_ns() / 1_000_000);
    state.suppressed.put(&asked.email_address, asked.reason, since);
    Json(json!({})).into_response()
}

pub(super) async fn find(
    State(state): State<Arc<SesState>>,
    Path(address): Path<String>,
) -> Response {
    match state.suppressed.entry(&address) {
        Some(entry) => {
            Json(json!({ "SuppressedDestination": destination(&entry) })).into_response()
        }
        None => not_suppressed(),
    }
}

pub(super) async fn delete(
    State(state): State<Arc<SesState>>,
    Path(address): Path<String>,
) -> Response {
    if state.suppressed.remove(&address) {
        Json(json!({})).into_response()
    } else {
        not_suppressed()
    }
}

fn not_suppressed() -> Response {
    let message = "Email address does not exist on your suppression list.";
    error_response(&SesError::new("NotFoundException", 404, message))
}

fn tenant_of(state: &SesState, asked: &TenantRequest) -> Result<SesTenant, SesError> {
    let name = &asked.tenant_name;
    let known = state.engine().config().tenants.iter().find(|it| it.name == *name).cloned();
    let message = || format!("Tenant {name} not found.");
    known.ok_or_else(|| SesError::new("NotFoundException", 404, message()))
}

pub(super) async fn tenant(
    State(state): State<Arc<SesState>>,
    Json(asked): Json<TenantRequest>,
) -> Result<Json<Value>, Response> {
    let tenant = tenant_of(&state, &asked).map_err(|absent| error_response(&absent))?;
    let status = if tenant.paused { "DISABLED" } else { "ENABLED" };
    Ok(Json(json!({ "Tenant": {
        "TenantName": tenant.name,
        "TenantId": "tn-0000000000000000000000000000000",
        "SendingStatus": status,
    } })))
}

pub(super) async fn resources(
    State(state): State<Arc<SesState>>,
    Json(asked): Json<TenantRequest>,
) -> Result<Json<Value>, Response> {
    let tenant = tenant_of(&state, &asked).map_err(|absent| error_response(&absent))?;
    let from = asked.next_token.and_then(|token| token.parse().ok()).unwrap_or(0_usize);
    let size = asked.page_size.unwrap_or(RESOURCES).max(1);
    let all: Vec<_> = tenant.status().resources.into_iter().collect();
    let page = all.iter().skip(from).take(size);
    let listed: Vec<_> = page.map(|arn| json!({ "ResourceArn": arn })).collect();
    let next = (from + size < all.len()).then(|| (from + size).to_string());
    Ok(Json(json!({ "TenantResources": listed, "NextToken": next })))
}
