//! The errors of the SES v2 API.

use std::borrow::Cow;

use serde::Serialize;
use tidegate_core::outcome::{Failure, Stage};

use super::quota::QuotaExceeded;

/// An error as SES answers it: the code in a header, the message in the body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SesError {
    pub(crate) code: Cow<'static, str>,
    pub(crate) status: u16,
    pub(crate) message: Cow<'static, str>,
}

impl SesError {
    pub(crate) fn new(
        code: &'static str,
        status: u16,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { code: Cow::Borrowed(code), status, message: message.into() }
    }

    pub(crate) fn over_rate() -> Self {
        Self::new("TooManyRequestsException", 429, "Maximum sending rate exceeded.")
    }

    pub(crate) fn over_daily() -> Self {
        Self::new("LimitExceededException", 400, "Daily message quota exceeded.")
    }

    pub(crate) fn paused() -> Self {
        Self::new("SendingPausedException", 400, "Sending paused for this account.")
    }
}

impl From<QuotaExceeded> for SesError {
    fn from(over: QuotaExceeded) -> Self {
        match over {
            QuotaExceeded::Rate => Self::over_rate(),
            QuotaExceeded::Daily => Self::over_daily(),
        }
    }
}

impl From<SesError> for Failure {
    fn from(SesError { code, status, message }: SesError) -> Self {
        Self {
            http_status: Some(status),
            code: Some(code.into_owned()),
            message: message.into_owned(),
            stage: Stage::Answered,
        }
    }
}
