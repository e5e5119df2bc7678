use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};

use super::App;
use super::auth::{Credential, TokenRefusal};
use super::client::{Client, host, is_forwarded, is_loopback, origin};
use super::error_response::{ErrorResponse, Forbidden};
use super::tokens::Role;
use crate::rate_limit::ClientAddress;

/// Content security policy: only the console's own scripts, styles, images and endpoints, and no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every response, unless its handler sets another value.
pub(super) const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

const CSRF: &str = "x-tidegate-csrf";

/// Middleware for every request: it refuses what must not reach a console without a token, and logs
/// the reason of each request that was forbidden, here or behind.
pub(super) async fn screen_requests(
    State(app): State<Arc<App>>,
    Client(client): Client,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let is_allowed = if app.auth.needs_token() {
        Ok(())
    } else {
        check_is_local(request.headers(), request.uri())
    };
    let response = match is_allowed {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    if let Some(Forbidden { reason }) = response.extensions().get() {
        tracing::warn!(%client, path, reason, "refused");
    }
    response
}

/// A console without a token accepts requests from this machine only. The `Host` must be a loopback
/// name, which defeats DNS rebinding; and no proxy may have forwarded the request.
fn check_is_local(headers: &HeaderMap, uri: &Uri) -> Result<(), ErrorResponse> {
    if is_forwarded(headers) {
        return Err(ErrorResponse::forbidden(
            "a proxy forwards to this console, which has no token: start it with one",
        ));
    }
    match host(headers, uri) {
        Some(host) if is_loopback(&host) => Ok(()),
        host => Err(ErrorResponse::forbidden(format!(
            "this console is for this machine alone: call it localhost, not {}",
            host.unwrap_or_else(|| "by no name".to_owned())
        ))),
    }
}

/// Middleware for everything that needs a login. A browser that opens the page without one is
/// redirected to the login page. Only the page itself may be opened from another site, by a link.
pub(super) async fn require_credential(
    State(app): State<Arc<App>>,
    client: Client,
    mut request: Request,
    next: Next,
) -> Result<Response, ErrorResponse> {
    let is_page = request.uri().path() == "/";
    let Some(credential) = credential_of(&app, client, request.headers())? else {
        return if is_page {
            Ok(Redirect::to("login").into_response())
        } else {
            Err(ErrorResponse::unauthorized("this console needs its token"))
        };
    };
    if !is_page {
        check_same_origin(&app, request.headers(), request.uri())?;
    }
    if request.method() == Method::POST && !matches!(credential, Credential::Bearer { .. }) {
        check_csrf(&app, &credential, request.headers())?;
    }
    request.extensions_mut().insert(credential);
    Ok(next.run(request).await)
}

/// Middleware for changes and replays: not everybody who may look may act.
pub(super) async fn require_act(
    State(app): State<Arc<App>>,
    Extension(credential): Extension<Credential>,
    request: Request,
    next: Next,
) -> Result<Response, ErrorResponse> {
    match app.auth.holder(&credential) {
        Some(holder) if holder.role == Role::Look => {
            let name = holder.name.as_deref().unwrap_or_default();
            Err(ErrorResponse::role(format!("the token of {name} may look, and change nothing")))
        }
        _ => Ok(next.run(request).await),
    }
}

/// Middleware for logging in and out, which another site's page must not do.
pub(super) async fn require_same_origin(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, ErrorResponse> {
    check_same_origin(&app, request.headers(), request.uri())?;
    Ok(next.run(request).await)
}

/// The credential that a request carries; none if it carries none that is valid.
fn credential_of(
    app: &App,
    client: Client,
    headers: &HeaderMap,
) -> Result<Option<Credential>, ErrorResponse> {
    if !app.auth.needs_token() {
        return Ok(Some(Credential::Here));
    }
    if let Some(token) = bearer(headers) {
        let holder = check_token(app, client, token)?;
        return Ok(Some(Credential::Bearer { holder }));
    }
    Ok(session_cookie(app, headers).and_then(|session| {
        let holder = app.auth.session_holder(session, app.seconds())?;
        Some(Credential::Cookie { session: session.to_owned(), holder })
    }))
}

/// The token of the header `Authorization: Bearer TOKEN`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The value of this console's cookie.
pub(super) fn session_cookie<'a>(app: &App, headers: &'a HeaderMap) -> Option<&'a str> {
    let sent = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut cookies = sent.flat_map(|text| text.split(';')).filter_map(|one| one.split_once('='));
    let (_, value) = cookies.find(|(name, _)| name.trim() == app.auth.cookie_name())?;
    Some(value.trim())
}

/// Finds the holder of a token, and logs a wrong one with the address that tried it.
pub(super) fn check_token(
    app: &App,
    Client(client): Client,
    token: &str,
) -> Result<usize, ErrorResponse> {
    app.auth.check_token(token, ClientAddress::of(client)).map_err(|refusal| match refusal {
        TokenRefusal::Wrong => {
            tracing::warn!(%client, "a wrong token");
            ErrorResponse::unauthorized("that is not this console's token")
        }
        TokenRefusal::TooMany(seconds) => {
            ErrorResponse::too_many(seconds, format!("too many tries: wait {seconds} s"))
        }
    })
}

/// Checks the CSRF token of an action. Only our own page can read the token from `/api/session`.
fn check_csrf(
    app: &App,
    credential: &Credential,
    headers: &HeaderMap,
) -> Result<(), ErrorResponse> {
    let given = headers.get(CSRF).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if app.auth.is_csrf(credential, given) {
        return Ok(());
    }
    Err(ErrorResponse::csrf(format!("{CSRF} is not what /api/session says: reload the page")))
}

/// Compares `Origin` and `Sec-Fetch-Site`, if the browser sends them, with the console's own
/// origin; of reading requests, too. Otherwise a page of another site could use up the streams of a
/// visitor's address.
fn check_same_origin(app: &App, headers: &HeaderMap, uri: &Uri) -> Result<(), ErrorResponse> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let elsewhere =
        |said: &str| Err(ErrorResponse::forbidden(format!("it comes from {said}, not from here")));
    if let Some(site) =
        text("sec-fetch-site").filter(|site| !["same-origin", "none"].contains(site))
    {
        return elsewhere(site);
    }
    let Some(said) = text("origin") else { return Ok(()) };
    let Some(from) = origin(said) else { return elsewhere(said) };
    let public = app.access.public_url.as_deref().and_then(origin);
    let host = host(headers, uri).map(|host| host.to_ascii_lowercase());
    let is_host =
        |host: String| [format!("http://{host}"), format!("https://{host}")].contains(&from);
    if public.as_ref() == Some(&from) || host.is_some_and(is_host) {
        Ok(())
    } else {
        elsewhere(said)
    }
}
