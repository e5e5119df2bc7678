use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::ExtensionRejection;
use axum::extract::{ConnectInfo, Extension, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use tidegate_core::channel::Channel;
use tidegate_operator::connections::ClientAddress;
use tidegate_simulator::plan::ses_price;

use super::auth::{Credential, Role, SESSION, TokenRefusal};
use super::error_response::{Answer, ErrorResponse, Forbidden, JsonBody};
use super::{App, Shared};

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
    State(app): Shared,
    Client(client): Client,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let response = match check_is_local(&app, request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    if let Some(Forbidden(reason)) = response.extensions().get() {
        tracing::warn!(%client, path, reason, "refused");
    }
    response
}

/// A console without a token accepts requests from this machine only. The `Host` must be a loopback
/// name, which defeats DNS rebinding; and no proxy may have forwarded the request.
fn check_is_local(app: &App, headers: &HeaderMap, uri: &Uri) -> Answer<()> {
    if app.auth.needs_token() {
        return Ok(());
    }
    if FORWARDED.iter().any(|name| headers.contains_key(*name)) {
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
    State(app): Shared,
    client: Client,
    mut request: Request,
    next: Next,
) -> Answer<Response> {
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
    State(app): Shared,
    Extension(credential): Extension<Credential>,
    request: Request,
    next: Next,
) -> Answer<Response> {
    match app.auth.holder(&credential) {
        Some(holder) if holder.role == Role::Look => {
            let name = holder.name.as_deref().unwrap_or_default();
            let said = format!("the token of {name} may look, and change nothing");
            Err(ErrorResponse::new(StatusCode::FORBIDDEN, "role", said))
        }
        _ => Ok(next.run(request).await),
    }
}

/// Middleware for logging in and out, which another site's page must not do.
pub(super) async fn require_same_origin(
    State(app): Shared,
    request: Request,
    next: Next,
) -> Answer<Response> {
    check_same_origin(&app, request.headers(), request.uri())?;
    Ok(next.run(request).await)
}

/// The credential that a request carries; none if it carries none that is valid.
fn credential_of(app: &App, client: Client, headers: &HeaderMap) -> Answer<Option<Credential>> {
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
    let (_, value) = cookies.find(|(name, _)| name.trim() == app.auth.cookie)?;
    Some(value.trim())
}

/// Finds the holder of a token, and logs a wrong one with the address that tried it.
pub(super) fn check_token(app: &App, Client(client): Client, token: &str) -> Answer<usize> {
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
fn check_csrf(app: &App, by: &Credential, headers: &HeaderMap) -> Answer<()> {
    let given = headers.get(CSRF).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if app.auth.is_csrf(by, given) {
        return Ok(());
    }
    let said = format!("{CSRF} is not what /api/session says: reload the page");
    Err(ErrorResponse::new(StatusCode::FORBIDDEN, "csrf", said))
}

/// Compares `Origin` and `Sec-Fetch-Site`, if the browser sends them, with the console's own
/// origin; of reading requests, too. Otherwise a page of another site could use up the streams of a
/// visitor's address.
fn check_same_origin(app: &App, headers: &HeaderMap, uri: &Uri) -> Answer<()> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let elsewhere =
        |said: &str| Err(ErrorResponse::forbidden(format!("it comes from {said}, not from here")));
    let site = text("sec-fetch-site").filter(|site| !["same-origin", "none"].contains(site));
    if let Some(site) = site {
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

/// The address of the client that a request comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client(pub(super) IpAddr);

impl FromRequestParts<Arc<App>> for Client {
    type Rejection = ExtensionRejection;

    async fn from_request_parts(head: &mut Parts, app: &Arc<App>) -> Result<Self, Self::Rejection> {
        let ConnectInfo::<IpAddr>(peer) = ConnectInfo::from_request_parts(head, app).await?;
        Ok(Self(address(peer, &head.headers, |ip| app.access.is_trusted(ip))))
    }
}

/// Headers that show that a proxy forwarded the request.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// The client's address. It is the peer's, unless the peer is a trusted proxy: then it is the last
/// address in
/// `X-Forwarded-For` that is no trusted proxy, because a client can put anything before it.
fn address(peer: IpAddr, headers: &HeaderMap, is_trusted: impl Fn(IpAddr) -> bool) -> IpAddr {
    if !is_trusted(peer) {
        return peer;
    }
    let lists = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let told: Vec<IpAddr> =
        lists.flat_map(|list| list.split(',')).filter_map(|ip| ip.trim().parse().ok()).collect();
    told.into_iter().rev().find(|ip| !is_trusted(*ip)).unwrap_or(peer)
}

/// The host that a request names.
pub(super) fn host(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    // HTTP/2 has it in the URI.
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    named.map(str::to_owned).or_else(|| uri.authority().map(ToString::to_string))
}

/// Whether a host name always means this machine; names that only DNS resolves to it do not count.
pub(super) fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<axum::http::uri::Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Scheme, host and port of an http or https URL, in the form of the header `Origin`.
pub(super) fn origin(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme))?;
    Some(format!("{scheme}://{}", uri.authority()?.as_str().to_ascii_lowercase()))
}

/// The origin of a URL without path and query; none for any other URL.
pub(super) fn root(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let is_root = ["", "/"].contains(&uri.path()) && uri.query().is_none();
    origin(url).filter(|_| is_root)
}

/// Tells a page about the console, and gives it the CSRF token for its actions.
pub(super) async fn session(
    State(app): Shared,
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
    State(app): Shared,
    client: Client,
    login: JsonBody<LoginBody>,
) -> Answer<(StatusCode, SessionCookie)> {
    let Json(LoginBody { token }) = login?;
    let holder = check_token(&app, client, &token)?;
    let name = app.auth.holder(&Credential::Bearer { holder }).and_then(|of| of.name.as_deref());
    tracing::info!(client = %client.0, name, "a login");
    let session = app.auth.log_in(holder, app.seconds());
    Ok((StatusCode::NO_CONTENT, cookie(&app, &session, SESSION)))
}

/// Ends the session, also for whoever copied its cookie. Its streams end with their next event; the
/// connection of one that takes no event is closed.
pub(super) async fn logout(
    State(app): Shared,
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
    let (name, seconds) = (&app.auth.cookie, lifetime.as_secs());
    let secure = if app.access.is_https() { "; Secure" } else { "" };
    let cookie =
        format!("{name}={value}; HttpOnly; SameSite=Strict{secure}; Path=/; Max-Age={seconds}");
    [(header::SET_COOKIE, cookie)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(forwarded: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", axum::http::HeaderValue::from_static(value));
        }
        headers
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn only_a_trusted_proxys_word_counts_and_only_its_own() {
        let proxies = [ip("127.0.0.1"), ip("10.0.0.1")];
        let of = |peer, forwarded: &[&'static str]| {
            address(ip(peer), &headers(forwarded), |ip| proxies.contains(&ip))
        };
        assert_eq!(of("192.0.2.1", &["198.51.100.7"]), ip("192.0.2.1"));
        assert_eq!(of("127.0.0.1", &["198.51.100.7"]), ip("198.51.100.7"));
        // What the client said itself stands before what the proxy added.
        assert_eq!(of("127.0.0.1", &["1.2.3.4, 198.51.100.7, 10.0.0.1"]), ip("198.51.100.7"));
        assert_eq!(of("127.0.0.1", &["1.2.3.4", "198.51.100.7"]), ip("198.51.100.7"));
        assert_eq!(of("127.0.0.1", &["nonsense"]), ip("127.0.0.1"));
    }

    #[test]
    fn a_name_that_anybody_can_point_here_is_not_this_machine() {
        for here in ["localhost", "localhost:7878", "127.0.0.1:7878", "[::1]:7878", "127.1.2.3"] {
            assert!(is_loopback(here), "{here}");
        }
        for elsewhere in
            ["evil.example:7878", "127.0.0.1.evil.example", "192.0.2.1", "", "localhost.evil"]
        {
            assert!(!is_loopback(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        assert_eq!(origin("https://Mail.example/console").as_deref(), Some("https://mail.example"));
        assert_eq!(origin("http://localhost:80/").as_deref(), Some("http://localhost:80"));
        assert_eq!(
            (origin("mail.example"), origin("ftp://mail.example"), origin("null")),
            (None, None, None)
        );
    }
}
