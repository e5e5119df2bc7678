//! The sandbox's own pages: settings, mailbox, figures.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::sandbox::mailbox::MailRecord;
use crate::sandbox::mailbox::SesStats;
use crate::sandbox::ses::config::SesSandboxConfig;
use crate::sandbox::ses::state::SesState;

const PAGE: &str = include_str!("../../../../assets/mailbox.html");
/// The page is this one file and loads nothing; a mail's HTML, shown in it, cannot either.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
     img-src data:; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

const USUAL_LIMIT: usize = 1_000;
const MOST_MAILS: usize = 10_000;

pub(super) async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, PAGE).into_response()
}

pub(super) async fn config(State(state): State<Arc<SesState>>) -> Json<SesSandboxConfig> {
    Json(state.engine().config().clone())
}

pub(super) async fn change(State(state): State<Arc<SesState>>, body: Bytes) -> Response {
    let now_ns = state.now_ns();
    let mut engine = state.engine();
    match engine.config().with_json(&body) {
        Ok(config) => {
            engine.reconfigure(now_ns, config.clone());
            tracing::info!(?config, "settings changed");
            Json(config).into_response()
        }
        Err(error) => refuse(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

pub(super) async fn stats(State(state): State<Arc<SesState>>) -> Json<SesStats> {
    Json(state.stats())
}

pub(super) async fn mails(
    State(state): State<Arc<SesState>>,
    RawQuery(query): RawQuery,
) -> Response {
    let (after, limit) = match read_range(query.as_deref().unwrap_or_default()) {
        Ok(range) => range,
        Err(reason) => return refuse(StatusCode::BAD_REQUEST, &reason),
    };
    let mails = state.engine().mails().after(after, limit);
    let mails: Vec<&MailRecord> = mails.iter().map(AsRef::as_ref).collect();
    Json(mails).into_response()
}

pub(super) async fn mail(State(state): State<Arc<SesState>>, Path(seq): Path<String>) -> Response {
    #[derive(Serialize)]
    struct Whole<'a> {
        #[serde(flatten)]
        mail: &'a MailRecord,
        request: Option<&'a RawValue>,
    }
    let found = seq.parse().ok().and_then(|seq| state.engine().mails().get(seq));
    let Some((mail, body)) = found else {
        return refuse(StatusCode::NOT_FOUND, &format!("no mail `{seq}` is kept"));
    };
    // An accepted request was JSON; a lone surrogate in it is all that can fail here.
    let request = body.as_deref().and_then(|body| serde_json::from_slice(body).ok());
    Json(Whole { mail: &mail, request }).into_response()
}

pub(super) async fn clear(State(state): State<Arc<SesState>>) -> StatusCode {
    state.engine().clear();
    StatusCode::NO_CONTENT
}

fn read_range(query: &str) -> Result<(u64, usize), String> {
    let (mut after, mut limit) = (0, USUAL_LIMIT);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "after" => {
                let wrong = |_| {
                    format!("after: must be a mail's number, or 0 for the oldest, not `{value}`")
                };
                after = value.parse().map_err(wrong)?;
            }
            "limit" => {
                let read = value.parse().ok().filter(|limit| (1..=MOST_MAILS).contains(limit));
                let wrong = || {
                    format!(
                        "limit: must be a number of mails from 1 to {MOST_MAILS}, not `{value}`"
                    )
                };
                limit = read.ok_or_else(wrong)?;
            }
            _ => return Err(format!("unknown parameter `{name}`, expected `after` or `limit`")),
        }
    }
    Ok((after, limit))
}

fn refuse(status: StatusCode, message: &str) -> Response {
    (status, Json(serde_json::json!({ "message": message }))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_mails_is_read_with_its_limits() {
        assert_eq!(read_range(""), Ok((0, 1_000)));
        assert_eq!(read_range("after=7&limit=10000"), Ok((7, 10_000)));
        for (query, named) in [
            ("after=x", "after: must be a mail's number, or 0 for the oldest, not `x`"),
            ("limit=0", "limit: must be a number of mails from 1 to 10000, not `0`"),
            ("limit=10001", "limit: must be a number of mails from 1 to 10000, not `10001`"),
            ("from=1", "unknown parameter `from`, expected `after` or `limit`"),
        ] {
            assert_eq!(read_range(query), Err(named.to_owned()));
        }
    }
}
