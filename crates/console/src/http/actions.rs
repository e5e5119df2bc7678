use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_core::control::ChangeRecord;
use tidegate_core::identity::EpochMillis;
use tidegate_core::limits::Limit;
use tidegate_core::rate::Rate;
use tidegate_core::{InvalidText, Timestamp};
use tidegate_operator::dead::{LetterDetails, LetterReport};
use tidegate_operator::steer::{Author, SteerAction, SteerReport};
use tidegate_operator::why::{Explanation, MailQuery};

use super::auth::{Credential, MOST_NAME};
use super::error_response::{Answer, ErrorResponse, JsonBody, QueryString};
use super::{App, Shared};
use crate::engine::{
    DeadLetterView, EngineJob, JobError, ReplayRequest, ReviewRequest, ReviewSummary,
};
use crate::event::StateChange;
use crate::figures::{Curves, LongSpan, seconds};

/// The longest pause, seconds: as `tidegate pause --for` has it.
const MOST_PAUSE_S: u64 = 30 * 24 * 3_600;

/// A change that an operator asks for.
#[derive(Debug, Deserialize)]
pub(super) struct SteerRequest {
    #[serde(flatten)]
    action: RequestedAction,
    reason: String,
    by: Option<String>,
}

/// The change itself, by `action`.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
enum RequestedAction {
    /// Without `for_s` until it is resumed.
    Pause { campaign: Option<String>, for_s: Option<u64> },
    /// Ends a pause.
    Resume { campaign: Option<String> },
    /// Lifts another hold.
    Lift { campaign: Option<String>, hold: String },
    /// Overrides the weights of some campaigns.
    Weights { weights: BTreeMap<String, u32> },
    /// Goes back to the configured weights.
    ResetWeights {},
    /// `cap` is missing where it is removed.
    Rate { cap: Option<f64> },
    /// `limit` is missing where it is removed.
    Limit { key: String, limit: Option<Value> },
}

/// Who acts, in the form that the history gets: the name of the token, or else the name that is given.
fn author(
    app: &App,
    credential: &Credential,
    by: Option<String>,
    reason: String,
) -> Answer<Author> {
    let by = by.unwrap_or_default().trim().to_owned();
    let length = by.chars().count();
    if length > MOST_NAME || by.chars().any(char::is_control) {
        let said = format!(
            "the name has {length} characters, or control characters; allowed are at most {MOST_NAME} others"
        );
        return Err(ErrorResponse::input("by", said));
    }
    match app.auth.holder(credential).and_then(|holder| holder.name.clone()) {
        Some(name) if !by.is_empty() && by != name => {
            let said = format!("the name is {by:?}, and the token is that of {name}: leave it out");
            Err(ErrorResponse::input("by", said))
        }
        name => Ok(Author { by: name.unwrap_or(by), reason }),
    }
}

impl RequestedAction {
    fn into_action(self, now: EpochMillis) -> Answer<SteerAction> {
        Ok(match self {
            Self::Pause { campaign, for_s } => {
                let until = for_s.map(|seconds| end(seconds, now)).transpose()?;
                SteerAction::Pause { campaign, until }
            }
            Self::Resume { campaign } => SteerAction::Resume { campaign },
            Self::Lift { campaign, hold } => SteerAction::Lift { campaign, reason: hold },
            Self::Weights { weights } => SteerAction::Weights(weights),
            Self::ResetWeights {} => SteerAction::ResetWeights,
            Self::Rate { cap } => {
                let rate = |cap: f64| {
                    let said =
                        format!("the cap is {cap}; allowed is 0.001 to 10000 recipients a second");
                    Rate::per_second(cap).map_err(|_| ErrorResponse::input("cap", said))
                };
                SteerAction::Cap(cap.map(rate).transpose()?)
            }
            Self::Limit { key, limit } => {
                let refused = |error: InvalidText| ErrorResponse::input("key", error);
                let key = key.parse().map_err(refused)?;
                let limit = limit.map(serde_json::from_value::<Limit>).transpose();
                let limit = limit.map_err(|error| ErrorResponse::input("limit", error))?;
                SteerAction::Limit { key, limit: limit.map(Box::new) }
            }
        })
    }
}

fn end(seconds: u64, now: EpochMillis) -> Answer<EpochMillis> {
    if !(1..=MOST_PAUSE_S).contains(&seconds) {
        let said =
            format!("the pause lasts {seconds} s; allowed are 1 s to {MOST_PAUSE_S} s (30 days)");
        return Err(ErrorResponse::input("for_s", said));
    }
    let after = u64::try_from(Duration::from_secs(seconds).as_millis()).unwrap_or(u64::MAX);
    Ok(EpochMillis::new(now.as_millis().saturating_add(after)))
}

pub(super) async fn steer(
    State(app): Shared,
    Extension(credential): Extension<Credential>,
    asked: JsonBody<SteerRequest>,
) -> Answer<Json<SteerReport>> {
    let Json(SteerRequest { action, reason, by }) = asked?;
    let action = action.into_action((app.now)())?;
    let author = author(&app, &credential, by, reason)?;
    let steered = app.shared.jobs.ask(|answer| EngineJob::Steer(action, author, answer)).await?;
    Ok(Json(steered))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WhyRequest {
    id: String,
    campaign: Option<String>,
}

pub(super) async fn why(
    State(app): Shared,
    asked: JsonBody<WhyRequest>,
) -> Answer<Json<Explanation>> {
    let Json(WhyRequest { id, campaign }) = asked?;
    let campaign = campaign.filter(|name| !name.is_empty());
    let asked = MailQuery::new(&id, campaign);
    let asked = asked.map_err(|error| ErrorResponse::input("id", error))?;
    Ok(Json(app.shared.jobs.ask(|answer| EngineJob::Why(asked, answer)).await?))
}

pub(super) async fn read_dead(State(app): Shared) -> Answer<Json<DeadLetterView>> {
    Ok(Json(app.shared.jobs.ask(EngineJob::ReadDead).await?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LetterQuery {
    id: String,
}

/// All that is known of a dead letter.
pub(super) async fn show_letter(
    State(app): Shared,
    asked: JsonBody<LetterQuery>,
) -> Answer<Json<Vec<LetterDetails>>> {
    let Json(LetterQuery { id }) = asked?;
    Ok(Json(app.shared.jobs.ask(|answer| EngineJob::ShowLetter(id, answer)).await?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiscardRequest {
    id: String,
    reason: String,
    by: Option<String>,
}

pub(super) async fn discard(
    State(app): Shared,
    Extension(credential): Extension<Credential>,
    asked: JsonBody<DiscardRequest>,
) -> Answer<Json<LetterReport>> {
    let Json(DiscardRequest { id, reason, by }) = asked?;
    let author = author(&app, &credential, by, reason)?;
    Ok(Json(app.shared.jobs.ask(|answer| EngineJob::Discard(id, author, answer)).await?))
}

pub(super) async fn review(
    State(app): Shared,
    asked: JsonBody<ReviewRequest>,
) -> Answer<Json<ReviewSummary>> {
    let Json(asked) = asked?;
    Ok(Json(app.shared.jobs.ask(|answer| EngineJob::Review(asked, answer)).await?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplayBody {
    review: String,
    reason: String,
    by: Option<String>,
    per_second: Option<f64>,
}

pub(super) async fn replay(
    State(app): Shared,
    Extension(credential): Extension<Credential>,
    asked: JsonBody<ReplayBody>,
) -> Answer<(StatusCode, Json<Value>)> {
    let Json(ReplayBody { review, reason, by, per_second }) = asked?;
    if let Some(rate) = per_second.filter(|rate| !(0.01..=10_000.0).contains(rate)) {
        let said = format!("the rate is {rate}; allowed is 0.01 to 10000 mails a second");
        return Err(ErrorResponse::input("per_second", said));
    }
    let author = author(&app, &credential, by, reason)?;
    // Before the review is used up.
    author.check().map_err(|error| JobError::Replay(error.into()))?;
    let asked = ReplayRequest { review, author, per_second };
    let of = app.shared.jobs.ask(|answer| EngineJob::Replay(asked, answer)).await?;
    Ok((StatusCode::ACCEPTED, Json(json!({ "of": of }))))
}

pub(super) async fn stop_replay(State(app): Shared) -> Answer<(StatusCode, Json<Value>)> {
    app.shared.jobs.ask(EngineJob::StopReplay).await?;
    Ok((StatusCode::ACCEPTED, Json(json!({}))))
}

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
    State(app): Shared,
    query: QueryString<HistoryQuery>,
) -> Answer<Json<History>> {
    let Query(HistoryQuery { span }) = query?;
    let series = app.shared.jobs.ask(|answer| EngineJob::Curves(span, answer)).await?;
    let begin = span.begin((app.now)().into());
    let at = |change: &StateChange| seconds(Timestamp::from(change.at));
    let changes = app.shared.hub.look(|registry| {
        let changes = registry.history.all().map(|recorded| recorded.change.clone());
        changes.filter(|change| at(change) >= begin).collect()
    });
    Ok(Json(History { span, series, changes }))
}

/// The newest changes by operators: more of them than a stream has.
pub(super) async fn changes(State(app): Shared) -> Json<Vec<ChangeRecord>> {
    Json(app.shared.shown.borrow().figures.status.changes.clone())
}
