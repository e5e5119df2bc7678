use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::error_response::{Answer, not_found};

/// A file of the page. Everything that a page needs is in the program.
struct Asset {
    name: &'static str,
    /// The media type.
    kind: &'static str,
    /// The `ETag`.
    tag: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

// `VERSION` and `ASSETS`: build.rs makes them of the folder `assets`.
include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// For files whose address names their version: they never change.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
/// For pages: browsers ask every time, so that a new version of the console is used at once.
const ASK: &str = "no-cache";

/// A page of this name.
pub(super) async fn page(name: &str, headers: HeaderMap) -> Answer<Response> {
    answer(name, &headers, ASK).ok_or(not_found().await)
}

pub(super) async fn file(
    Path((version, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let found = if version == VERSION { answer(&name, &headers, FOR_EVER) } else { None };
    found.ok_or(not_found().await)
}

/// Sends a file, compressed to whoever takes that, or 304 if the browser has this version.
fn answer(name: &str, headers: &HeaderMap, caching: &'static str) -> Option<Response> {
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    let is_tag = |known: &str| known.trim_start_matches("W/") == asset.tag || known == "*";
    let mut response = if listed(headers, &header::IF_NONE_MATCH).any(is_tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if takes_gzip(headers) {
        let head = [(header::CONTENT_TYPE, asset.kind), (header::CONTENT_ENCODING, "gzip")];
        (head, asset.gzip).into_response()
    } else {
        ([(header::CONTENT_TYPE, asset.kind)], asset.plain).into_response()
    };
    let vary = (header::VARY, "accept-encoding");
    for (name, value) in [(header::ETAG, asset.tag), (header::CACHE_CONTROL, caching), vary] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Some(response)
}

/// Whether the client takes gzip: it says so, and does not weigh it 0.
fn takes_gzip(headers: &HeaderMap) -> bool {
    listed(headers, &header::ACCEPT_ENCODING).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused =
            weight.trim().strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// The parts of a header that is a list.
fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|text| text.split(',')).map(str::trim)
}
