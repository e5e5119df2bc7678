use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::rejection::ExtensionRejection;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};

use super::App;

/// The address of the client that a request comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client(pub(super) IpAddr);

impl FromRequestParts<Arc<App>> for Client {
    type Rejection = ExtensionRejection;

    async fn from_request_parts(
        parts: &mut Parts,
        app: &Arc<App>,
    ) -> Result<Self, Self::Rejection> {
        let ConnectInfo::<SocketAddr>(peer) = ConnectInfo::from_request_parts(parts, app).await?;
        Ok(Self(address(peer.ip(), &parts.headers, |ip| app.access.is_trusted(ip))))
    }
}

/// Headers that show that a proxy forwarded the request.
const FORWARDED: [&str; 4] = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    FORWARDED.iter().any(|name| headers.contains_key(*name))
}

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
