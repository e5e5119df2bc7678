use std::fmt::Display;

use axum::extract::Query;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Serialize;

use crate::engine::JobError;
use tidegate_core::in_full;
use tidegate_operator::dead::LetterError;
use tidegate_operator::steer::SteerError;

/// An error as JSON, with its HTTP status.
#[derive(Debug, Serialize)]
pub(super) struct ErrorResponse {
    #[serde(skip)]
    status: StatusCode,
    #[serde(skip)]
    retry_after_s: Option<u64>,
    error: String,
    code: &'static str,
    field: Option<&'static str>,
}

impl ErrorResponse {
    pub(super) fn new(status: StatusCode, code: &'static str, error: impl Display) -> Self {
        Self { status, retry_after_s: None, error: error.to_string(), code, field: None }
    }

    /// A member of the request is not valid.
    pub(super) fn input(field: &'static str, error: impl Display) -> Self {
        let field = Some(field);
        Self { field, ..Self::new(StatusCode::BAD_REQUEST, "input", error) }
    }

    pub(super) fn unauthorized(error: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", error)
    }

    pub(super) fn forbidden(error: impl Display) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", error)
    }

    pub(super) fn too_many(retry_after_s: u64, error: impl Display) -> Self {
        let error_response = Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", error);
        Self { retry_after_s: Some(retry_after_s), ..error_response }
    }
}

/// The reason why a request was forbidden, in the answer's extensions, for the log.
#[derive(Clone, Debug)]
pub(super) struct Forbidden(pub(super) String);

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let retry_after =
            self.retry_after_s.map(|seconds| [(header::RETRY_AFTER, seconds.to_string())]);
        let forbidden = (self.status == StatusCode::FORBIDDEN)
            .then(|| Extension(Forbidden(self.error.clone())));
        (self.status, retry_after, forbidden, Json(self)).into_response()
    }
}

/// The result of a handler.
pub(super) type Answer<T> = Result<T, ErrorResponse>;

/// A request's body as JSON; one that is not is refused as all input is.
pub(super) type JsonBody<T> = Result<Json<T>, JsonRejection>;

/// The members of a request's URL, refused in the same way.
pub(super) type QueryString<T> = Result<Query<T>, QueryRejection>;

impl From<JsonRejection> for ErrorResponse {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), "input", rejection.body_text())
    }
}

impl From<QueryRejection> for ErrorResponse {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), "input", rejection.body_text())
    }
}

impl From<JobError> for ErrorResponse {
    fn from(error: JobError) -> Self {
        let said = in_full(&error);
        match error {
            JobError::Replay(LetterError::Reason(_)) => Self::input("reason", said),
            JobError::Steer(error) => match error {
                SteerError::Reason(_) => Self::input("reason", said),
                SteerError::NoCampaign { .. } => Self::input("campaign", said),
                SteerError::NoHold { .. } => Self::input("hold", said),
                SteerError::Weights(_) => Self::input("weights", said),
                SteerError::Past(_) | SteerError::PausedWithoutEnd { .. } => {
                    Self::input("for_s", said)
                }
                SteerError::NoLimit { .. }
                | SteerError::Overlap { .. }
                | SteerError::OtherChannel { .. }
                | SteerError::OtherKind { .. }
                | SteerError::NoBucket
                | SteerError::NoSharedBucket(_)
                | SteerError::TooManyLimits(_)
                | SteerError::Limit(_) => Self::input("limit", said),
                SteerError::Conflict => Self::new(StatusCode::CONFLICT, "conflict", said),
                SteerError::Ledger(_) => Self::new(StatusCode::BAD_GATEWAY, "service", said),
            },
            JobError::NoLetter(_) => Self::input("id", said),
            JobError::Correction(_) => Self::input("body", said),
            JobError::NoReview(_) => Self::input("review", said),
            JobError::Replaying => Self::new(StatusCode::CONFLICT, "busy", said),
            JobError::Replay(LetterError::Rate(_)) => Self::input("per_second", said),
            JobError::Replay(_) | JobError::Service(_) => {
                Self::new(StatusCode::BAD_GATEWAY, "service", said)
            }
            JobError::Busy | JobError::Ending => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", said)
            }
        }
    }
}

pub(super) async fn not_found() -> ErrorResponse {
    ErrorResponse::new(StatusCode::NOT_FOUND, "input", "there is nothing here")
}

pub(super) async fn method_not_allowed() -> ErrorResponse {
    ErrorResponse::new(StatusCode::METHOD_NOT_ALLOWED, "input", "not by this method")
}
