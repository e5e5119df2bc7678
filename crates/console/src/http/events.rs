use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::unfold;
use serde::Deserialize;

use super::App;
use super::auth::Credential;
use super::client::Client;
use super::error_response::{ErrorResponse, QueryString};
use super::excuses::{Excuse, Excuses};
use crate::rate_limit::ClientAddress;
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
    Client(client): Client,
    Extension(credential): Extension<Credential>,
    Extension(excuses): Extension<Excuses>,
    QueryString(query): QueryString<EventsQuery>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ErrorResponse> {
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let last = header.map(str::to_owned).or(query.last_event_id).filter(|id| !id.is_empty());
    let client = app.auth.stream_client(&credential, ClientAddress::of(client));
    let stream = app.shared.hub.subscribe(client, last.as_deref());
    let stream =
        stream.map_err(|refusal| ErrorResponse::too_many(REFUSED_FOR_S, refusal.to_string()))?;
    let excuse = excuses.add(Excuse::Stream(credential.clone()));
    let open = (stream, app, credential, excuse);
    let events = unfold(open, async |(mut stream, app, credential, excuse)| {
        let frame = stream.next().await?;
        let event = app.is_good(&credential).then(|| event(&frame))?;
        Some((Ok::<_, Infallible>(event), (stream, app, credential, excuse)))
    });
    let alive = KeepAlive::new().interval(HEARTBEAT).text("alive");
    // nginx hands events on as they come.
    Ok(([("x-accel-buffering", "no")], Sse::new(events).keep_alive(alive)))
}

fn event(frame: &Frame) -> Event {
    let event = Event::default().event(frame.event).data(&*frame.data);
    let event = if frame.event == "state" { event.retry(RETRY) } else { event };
    match &frame.id {
        Some(id) => event.id(id),
        None => event,
    }
}
