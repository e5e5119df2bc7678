use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use include_dir::{Dir, File, include_dir};
use sha2::{Digest as _, Sha256};

use super::error_response::{ErrorResponse, not_found};

/// Everything a page needs is in the program.
static ASSETS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/assets");

pub(super) async fn index(headers: HeaderMap) -> Result<Response, ErrorResponse> {
    respond("index.html", &headers).await
}

pub(super) async fn login(headers: HeaderMap) -> Result<Response, ErrorResponse> {
    respond("login.html", &headers).await
}

pub(super) async fn file(
    Path(file): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    respond(&file, &headers).await
}

async fn respond(name: &str, headers: &HeaderMap) -> Result<Response, ErrorResponse> {
    match ASSETS.get_file(name).and_then(|file| answer(file, headers)) {
        Some(response) => Ok(response),
        None => Err(not_found().await),
    }
}

/// Sends a file with an `ETag`, or 304 if the browser has this version. Browsers ask every time
/// (`no-cache`), so that a new version of the console is used at once.
fn answer(file: &'static File<'static>, headers: &HeaderMap) -> Option<Response> {
    let kind = kind(file.path().extension()?.to_str()?)?;
    let hash = Sha256::digest(file.contents());
    let tag = URL_SAFE_NO_PAD.encode(hash.get(..12)?);
    let tag = HeaderValue::from_str(&format!("\"{tag}\"")).ok()?;
    let is_known = headers.get(header::IF_NONE_MATCH) == Some(&tag);
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, kind)], file.contents()).into_response()
    };
    response.headers_mut().insert(header::ETAG, tag);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Some(response)
}

/// Content type by file extension; files of other kinds, such as licences, are not served.
fn kind(extension: &str) -> Option<&'static str> {
    Some(match extension {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}
