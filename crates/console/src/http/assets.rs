use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum_extra::TypedHeader;
use axum_extra::headers::{CacheControl, ETag, HeaderMapExt as _, IfNoneMatch};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use include_dir::{Dir, include_dir};
use sha2::{Digest as _, Sha256};

use super::error_response::{ErrorResponse, not_found};

/// Everything a page needs is in the program.
static ASSETS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/assets");

pub(super) async fn index(headers: HeaderMap) -> Result<Response, ErrorResponse> {
    file(Path("index.html".to_owned()), headers).await
}

pub(super) async fn login(headers: HeaderMap) -> Result<Response, ErrorResponse> {
    file(Path("login.html".to_owned()), headers).await
}

pub(super) async fn file(
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    match answer(&name, &headers) {
        Some(response) => Ok(response),
        None => Err(not_found().await),
    }
}

/// Sends a file with an `ETag`, or 304 if the browser has this version. Browsers ask every time
/// (`no-cache`), so that a new version of the console is used at once.
fn answer(name: &str, headers: &HeaderMap) -> Option<Response> {
    let file = ASSETS.get_file(name)?;
    // Files of other kinds, such as licences, are not served.
    let kind = match file.path().extension()?.to_str()? {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    };
    let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(file.contents()));
    let tag: ETag = format!("\"{hash}\"").parse().ok()?;
    let asked = headers.typed_get::<IfNoneMatch>();
    let response = if asked.is_some_and(|known| !known.precondition_passes(&tag)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, kind)], file.contents()).into_response()
    };
    let caching = TypedHeader(CacheControl::new().with_no_cache());
    Some((TypedHeader(tag), caching, response).into_response())
}
