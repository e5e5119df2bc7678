use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tidegate_core::Timestamp;
use tidegate_core::control::ChangeRecord;

use super::App;
use super::error_response::{ErrorResponse, QueryString};
use crate::engine::EngineJob;
use crate::event::StateChange;
use crate::figures::{Curves, LongSpan, seconds};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    span: LongSpan,
}

/// The curves of a long span, and the changes that fall into it.
#[derive(Debug, Serialize)]
pub(super) struct History {
    span: LongSpan,
    series: Curves,
    changes: Vec<StateChange>,
}

pub(super) async fn history(
    State(app): State<Arc<App>>,
    QueryString(query): QueryString<HistoryQuery>,
) -> Result<Json<History>, ErrorResponse> {
    let span = query.span;
    let series = app.shared.jobs.ask(|answer| EngineJob::Curves(span, answer)).await?;
    let begin = span.begin((app.now)().into());
    let at = |change: &StateChange| seconds(Timestamp::from(change.at));
    let changes = app.shared.hub.look(|registry| {
        let changes = registry.history().all().map(|recorded| recorded.change.clone());
        changes.filter(|change| at(change) >= begin).collect()
    });
    Ok(Json(History { span, series, changes }))
}

/// The newest changes by operators: more of them than a stream has.
pub(super) async fn changes(State(app): State<Arc<App>>) -> Json<Vec<ChangeRecord>> {
    Json(app.shared.shown.borrow().figures.status.changes.clone())
}
