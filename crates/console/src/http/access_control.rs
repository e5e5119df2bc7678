use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};

use super::App;
use super::auth::Credential;
use super::client::{host, is_forwarded, is_loopback, origin};
use super::error_response::ErrorResponse;

/// Content security policy: only the console's own scripts, styles, images and endpoints, and no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Security headers that every response carries.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

pub(super) const CSRF: &str = "x-tidegate-csrf";

/// Middleware for every request: it refuses what must not reach a console without a token, and adds
/// the security headers.
pub(super) async fn screen_requests(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match check_access_without_token(&app, &request) {
        Ok(()) => next.run(request).await,
        Err(error_response) => {
            tracing::warn!(path = request.uri().path(), "refused at the door");
            error_response.into_response()
        }
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, value);
    }
    response
        .headers_mut()
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// A console without a token accepts requests from this machine only. The `Host` must be a loopback
/// name, which defeats DNS rebinding; and no proxy may have forwarded the request.
fn check_access_without_token(app: &App, request: &Request) -> Result<(), ErrorResponse> {
    if app.auth.needs_token() {
        return Ok(());
    }
    if is_forwarded(request.headers()) {
        return Err(ErrorResponse::forbidden(
            "a proxy forwards to this console, which has no token: start it with one",
        ));
    }
    match host(request.headers(), request.uri()) {
        Some(host) if is_loopback(&host) => Ok(()),
        host => Err(ErrorResponse::forbidden(format!(
            "this console is for this machine alone: call it localhost, not {}",
            host.unwrap_or_else(|| "by no name".to_owned())
        ))),
    }
}

/// Middleware for everything that needs a login. A browser that opens the page without one is
/// redirected to the login page.
pub(super) async fn require_credential(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(credential) = credential_of(&app, request.headers()) else {
        return if request.uri().path() == "/" {
            Redirect::to("login").into_response()
        } else {
            ErrorResponse::unauthorized().into_response()
        };
    };
    if let Err(error_response) = check_own_page(&app, &credential, &request) {
        return error_response.into_response();
    }
    request.extensions_mut().insert(credential);
    next.run(request).await
}

/// Refuses requests that another site's page caused. Only `/` is exempt, so that links from
/// anywhere can lead to the page.
fn check_own_page(
    app: &App,
    credential: &Credential,
    request: &Request,
) -> Result<(), ErrorResponse> {
    if request.uri().path() != "/" {
        check_same_origin(app, request.headers(), request.uri())?;
    }
    match *request.method() {
        Method::POST => check_csrf(app, credential, request.headers()),
        _ => Ok(()),
    }
}

/// The credential that a request carries; none if it carries no valid one.
fn credential_of(app: &App, headers: &HeaderMap) -> Option<Credential> {
    if !app.auth.needs_token() {
        return Some(Credential::Here);
    }
    let said = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Some(token) = said.and_then(|said| said.strip_prefix("Bearer ")) {
        return app.auth.is_token(token.trim()).then_some(Credential::Bearer);
    }
    let now = app.seconds();
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|list| list.split(';')).filter_map(|pair| pair.split_once('='));
    let check_own_page = pairs.find_map(|(name, value)| {
        (name.trim() == app.auth.cookie_name()).then(|| value.trim().to_owned())
    });
    check_own_page.filter(|cookie| app.auth.is_session(cookie, now)).map(Credential::Cookie)
}

/// Checks the CSRF token of an action. Only our own page can read the token from `/api/session`.
fn check_csrf(
    app: &App,
    credential: &Credential,
    headers: &HeaderMap,
) -> Result<(), ErrorResponse> {
    if *credential == Credential::Bearer {
        return Ok(());
    }
    let given = headers.get(CSRF).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if app.auth.is_csrf(credential, given) {
        return Ok(());
    }
    Err(ErrorResponse::csrf(format!("{CSRF} is not what /api/session says: reload the page")))
}

/// Compares `Origin` and `Sec-Fetch-Site`, if the browser sends them, with the console's own
/// origin. Otherwise a page of another site could use up the streams of a visitor's address.
pub(super) fn check_same_origin(
    app: &App,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(), ErrorResponse> {
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
    let is_ours = public == Some(from.clone())
        || host.is_some_and(|host| {
            from == format!("http://{host}") || from == format!("https://{host}")
        });
    if is_ours { Ok(()) } else { elsewhere(said) }
}
