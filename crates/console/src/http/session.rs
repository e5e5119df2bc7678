use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use serde::Deserialize;
use serde_json::json;
use tidegate_core::channel::Channel;
use tidegate_simulator::plan::ses_price;

use super::App;
use super::access_control::{check_token, session_cookie};
use super::auth::{Credential, SESSION};
use super::client::Client;
use super::error_response::{ErrorResponse, JsonBody};
use super::tokens::Role;

/// Tells a page about the console, and gives it the CSRF token for its actions.
pub(super) async fn session(
    State(app): State<Arc<App>>,
    Extension(credential): Extension<Credential>,
) -> Json<serde_json::Value> {
    let about = &app.about;
    let holder = app.auth.holder(&credential);
    Json(json!({
        "stack": about.stack,
        "region": about.region,
        "local": about.is_local,
        "operator": about.operator,
        "name": holder.and_then(|holder| holder.name.as_deref()),
        "role": holder.map_or(Role::Act, |holder| holder.role),
        "addresses_shown": about.shows_addresses,
        "csrf": app.auth.csrf(&credential),
        "token_required": app.auth.needs_token(),
        "ses_price": (about.channel == Channel::Email)
            .then(|| about.ses_price.unwrap_or_else(ses_price)),
        "words": about.channel.words(),
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
    client: Client,
    JsonBody(login): JsonBody<LoginBody>,
) -> Result<(StatusCode, SessionCookie), ErrorResponse> {
    let holder = check_token(&app, client, &login.token)?;
    let name = app.auth.holder(&Credential::Bearer { holder }).and_then(|of| of.name.as_deref());
    tracing::info!(client = %client.0, name, "a login");
    let session = app.auth.log_in(holder, app.seconds());
    Ok((StatusCode::NO_CONTENT, cookie(&app, &session, SESSION)))
}

/// Ends the session, also for whoever copied its cookie. Its streams end with their next event; the
/// connection of one that takes no event is closed.
pub(super) async fn logout(
    State(app): State<Arc<App>>,
    Client(client): Client,
    headers: HeaderMap,
) -> (StatusCode, SessionCookie) {
    if let Some(session) = session_cookie(&app, &headers) {
        app.auth.log_out(session);
        tracing::info!(%client, "a logout");
    }
    (StatusCode::NO_CONTENT, cookie(&app, "", Duration::ZERO))
}

/// The header that sets the session cookie.
type SessionCookie = [(HeaderName, String); 1];

/// The session cookie, `HttpOnly` and `SameSite=Strict`: no script can read it, and a browser does
/// not send it with requests of other sites.
fn cookie(app: &App, value: &str, lifetime: Duration) -> SessionCookie {
    let (name, seconds) = (app.auth.cookie_name(), lifetime.as_secs());
    let secure = if app.access.is_https() { "; Secure" } else { "" };
    let cookie =
        format!("{name}={value}; HttpOnly; SameSite=Strict{secure}; Path=/; Max-Age={seconds}");
    [(header::SET_COOKIE, cookie)]
}
