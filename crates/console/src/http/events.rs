use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use serde::Deserialize;

use super::App;
use super::client::{Peer, address};
use super::error_response::ErrorResponse;
use crate::rate_limit::{ClientAddress, TooManyStreams};
use crate::stream::Frame;

/// SSE's `retry`: how long a client waits before it reconnects.
const RETRY: Duration = Duration::from_secs(2);
/// `Retry-After` of a refused stream, in seconds.
const REFUSED_FOR_S: u64 = 5;
/// Interval of SSE comments, which keep proxies from closing a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(25);

#[derive(Debug, Deserialize)]
pub(super) struct EventsQuery {
    /// For a page that opens a new stream itself: only a browser's own return has the header.
    last_event_id: Option<String>,
}

/// Opens an event stream (SSE) for a page.
pub(super) async fn events(
    State(app): State<Arc<App>>,
    Extension(Peer(peer)): Extension<Peer>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    let client = address(peer.ip(), &headers, &app.access.trusted_proxies);
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let last = header.map(str::to_owned).or(query.last_event_id).filter(|id| !id.is_empty());
    let stream = app.shared.hub.subscribe(ClientAddress::of(client), last.as_deref());
    let stream = stream.map_err(|error| {
        let of = match error {
            TooManyStreams::OfAddress => "your address has as many streams as it may",
            TooManyStreams::OfAll => "the console has as many streams as it may",
        };
        ErrorResponse::too_many(REFUSED_FOR_S, of)
    })?;
    let stream = stream.map(|frame| Ok::<_, Infallible>(event(&frame)));
    let alive = KeepAlive::new().interval(HEARTBEAT).text("alive");
    let mut response = Sse::new(stream).keep_alive(alive).into_response();
    let headers = response.headers_mut();
    // nginx hands events on as they come.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

fn event(frame: &Frame) -> Event {
    let event = Event::default().event(frame.event).data(&*frame.data);
    let event = if frame.is_first { event.retry(RETRY) } else { event };
    match &frame.id {
        Some(id) => event.id(id),
        None => event,
    }
}
