//! The calls on the account's tenants, as the SES v2 API has them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::answer::error_response;
use crate::sandbox::ses::state::SesState;
use crate::ses::{SesError, SesTenant};

/// Resources per page if a call names no number: few, so that a client that reads one page lacks some.
const PAGE: usize = 2;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Asked {
    tenant_name: String,
    next_token: Option<String>,
    page_size: Option<usize>,
}

fn find(state: &SesState, name: &str) -> Option<SesTenant> {
    state.engine().config().tenants.iter().find(|tenant| tenant.name == name).cloned()
}

fn absent(name: &str) -> Response {
    let message = format!("Tenant {name} not found.");
    error_response(&SesError::new("NotFoundException", 404, message))
}

pub(super) async fn get(State(state): State<Arc<SesState>>, Json(asked): Json<Asked>) -> Response {
    let Some(tenant) = find(&state, &asked.tenant_name) else { return absent(&asked.tenant_name) };
    let status = if tenant.paused { "DISABLED" } else { "ENABLED" };
    let shown = json!({
        "TenantName": tenant.name,
        "TenantId": "tn-0000000000000000000000000000000",
        "SendingStatus": status,
    });
    Json(json!({ "Tenant": shown })).into_response()
}

pub(super) async fn resources(
    State(state): State<Arc<SesState>>,
    Json(asked): Json<Asked>,
) -> Response {
    let Some(tenant) = find(&state, &asked.tenant_name) else { return absent(&asked.tenant_name) };
    let from = asked.next_token.and_then(|token| token.parse().ok()).unwrap_or(0_usize);
    let size = asked.page_size.unwrap_or(PAGE).max(1);
    let all: Vec<_> = tenant.status().resources.into_iter().collect();
    let page = all.iter().skip(from).take(size);
    let listed: Vec<_> = page.map(|arn| json!({ "ResourceArn": arn })).collect();
    let next = (from + size < all.len()).then(|| (from + size).to_string());
    Json(json!({ "TenantResources": listed, "NextToken": next })).into_response()
}
