use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum_extra::headers::{ETag, HeaderMapExt as _, IfNoneMatch};

use super::error_response::{ErrorResponse, not_found};

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

pub(super) async fn index(headers: HeaderMap) -> Result<Response, ErrorResponse> {
    page("index.html", &headers).await
}

pub(super) async fn login(headers: HeaderMap) -> Result<Response, ErrorResponse> {
    page("login.html", &headers).await
}

async fn page(name: &str, headers: &HeaderMap) -> Result<Response, ErrorResponse> {
    answer(name, headers, ASK).ok_or(not_found().await)
}

pub(super) async fn file(
    Path((version, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    let found = if version == VERSION { answer(&name, &headers, FOR_EVER) } else { None };
    found.ok_or(not_found().await)
}

/// Sends a file, compressed to whoever takes that, or 304 if the browser has this version.
fn answer(name: &str, headers: &HeaderMap, caching: &'static str) -> Option<Response> {
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    let tag: ETag = asset.tag.parse().ok()?;
    let known = headers.typed_get::<IfNoneMatch>();
    let mut response = if known.is_some_and(|known| !known.precondition_passes(&tag)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if takes_gzip(headers) {
        let head = [(header::CONTENT_TYPE, asset.kind), (header::CONTENT_ENCODING, "gzip")];
        (head, asset.gzip).into_response()
    } else {
        ([(header::CONTENT_TYPE, asset.kind)], asset.plain).into_response()
    };
    let common: [(HeaderName, &'static str); 3] = [
        (header::ETAG, asset.tag),
        (header::CACHE_CONTROL, caching),
        (header::VARY, "accept-encoding"),
    ];
    let common = common.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(common);
    Some(response)
}

/// Whether the client takes gzip: it says so, and does not weigh it 0.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let named = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let mut codings =
        named.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused =
            weight.trim().strip_prefix("q=").is_some_and(|weight| weight.parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}
