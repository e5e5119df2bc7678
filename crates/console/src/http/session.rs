use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::json;

use super::App;
use super::access_control::check_same_origin;
use super::auth::{Credential, SESSION};
use super::client::{Peer, address};
use super::error_response::ErrorResponse;
use crate::rate_limit::ClientAddress;

/// Tells a page about the console, and gives it the CSRF token for its actions.
pub(super) async fn session(
    State(app): State<Arc<App>>,
    Extension(credential): Extension<Credential>,
) -> Json<serde_json::Value> {
    let about = &app.about;
    Json(json!({
        "stack": about.stack,
        "region": about.region,
        "local": about.is_local,
        "operator": about.operator,
        "addresses_shown": about.shows_addresses,
        "csrf": app.auth.csrf(&credential),
        "token_required": app.auth.needs_token(),
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoginBody {
    token: String,
}

/// Exchanges the token for a session cookie.
pub(super) async fn login(
    State(app): State<Arc<App>>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
    uri: Uri,
    Json(login): Json<LoginBody>,
) -> Result<Response, ErrorResponse> {
    check_same_origin(&app, &headers, &uri)?;
    let client = address(peer.ip(), &headers, &app.access.trusted_proxies);
    app.auth.may_try(ClientAddress::of(client)).map_err(|seconds| {
        ErrorResponse::too_many(seconds, format!("too many tries: wait {seconds} s"))
    })?;
    if !app.auth.is_token(login.token.trim()) {
        tracing::warn!(%client, "a login with a wrong token");
        return Err(ErrorResponse::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "that is not this console's token",
        ));
    }
    tracing::info!(%client, "a login");
    let session = app.auth.session(app.seconds() + SESSION.as_secs());
    Ok(set(&app, &session, SESSION.as_secs()))
}

pub(super) async fn logout(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ErrorResponse> {
    check_same_origin(&app, &headers, &uri)?;
    Ok(set(&app, "", 0))
}

/// Sets the session cookie, `HttpOnly` and `SameSite=Strict`: no script can read it, and a browser
/// does not send it with requests of other sites.
fn set(app: &App, value: &str, seconds: u64) -> Response {
    let is_https = app.access.public_url.as_deref().is_some_and(|url| url.starts_with("https://"));
    let secure = if is_https { "; Secure" } else { "" };
    let name = app.auth.cookie_name();
    let cookie =
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
