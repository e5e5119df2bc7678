use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::App;
use super::error_response::{ErrorResponse, JsonBody, not_found};

/// The channel for an answer; the error is a sentence for people.
type MenuAnswer<T> = oneshot::Sender<Result<T, String>>;

/// A request of a page to whoever runs the console.
#[derive(Debug)]
pub enum StackRequest {
    /// The names of the stacks.
    List(MenuAnswer<Vec<String>>),
    /// The address of a console of the stack with this name; it is opened if there is none.
    Open(String, MenuAnswer<String>),
}

/// The stacks between which a page may choose.
#[derive(Clone, Debug)]
pub struct StackMenu {
    /// The name of the console's own stack among them.
    pub this: String,
    pub requests: mpsc::Sender<StackRequest>,
    /// Whether other stacks may be opened: only on loopback, where a page reaches each port.
    pub can_open: bool,
}

impl StackMenu {
    async fn ask<T>(
        &self,
        request: impl FnOnce(MenuAnswer<T>) -> StackRequest,
    ) -> Result<T, ErrorResponse> {
        let ending =
            || ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "the console is ending");
        let (answer, answered) = oneshot::channel();
        self.requests.send(request(answer)).await.map_err(|_| ending())?;
        let answer = answered.await.map_err(|_| ending())?;
        answer.map_err(|said| ErrorResponse::new(StatusCode::BAD_GATEWAY, "service", said))
    }
}

pub(super) async fn list(State(app): State<Arc<App>>) -> Result<Json<Value>, ErrorResponse> {
    let Some(menu) = &app.about.stacks else { return Err(not_found().await) };
    let names = menu.ask(StackRequest::List).await?;
    Ok(Json(json!({ "this": menu.this, "names": names, "can_open": menu.can_open })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenRequest {
    name: String,
}

pub(super) async fn open(
    State(app): State<Arc<App>>,
    JsonBody(asked): JsonBody<OpenRequest>,
) -> Result<Json<Value>, ErrorResponse> {
    let menu = app.about.stacks.as_ref().filter(|menu| menu.can_open);
    let Some(menu) = menu else { return Err(not_found().await) };
    let url = menu.ask(|answer| StackRequest::Open(asked.name, answer)).await?;
    Ok(Json(json!({ "url": url })))
}
