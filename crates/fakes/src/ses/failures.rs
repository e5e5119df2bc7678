//! Errors of SES, of AWS End User Messaging, and of the connection to them, for a fault plan.
//!
//! The errors of the SES v2 API.

use std::borrow::Cow;

use serde::Serialize;
use tidegate_core::outcome::{Failure, Stage};

use super::quota::QuotaExceeded;

fn answered(http_status: u16, code: &'static str, message: &'static str) -> Failure {
    SesError::new(code, http_status, message).into()
}

fn unanswered(stage: Stage, message: &str) -> Failure {
    Failure { http_status: None, code: None, message: message.to_owned(), stage }
}

/// Over the rate: 429, "Maximum sending rate exceeded."
pub fn rate_exceeded() -> Failure {
    SesError::over_rate().into()
}

/// Over the daily quota: "Daily message quota exceeded."
pub fn daily_quota_exceeded() -> Failure {
    SesError::over_daily().into()
}

pub fn sending_paused() -> Failure {
    SesError::paused().into()
}

/// SES rejects this mail permanently: its recipient is on the suppression list.
pub fn rejected() -> Failure {
    answered(400, "MessageRejected", "Address is on the suppression list for your account.")
}

pub fn not_verified() -> Failure {
    let message = "Email address is not verified. The following identities failed the check in \
                   region US-EAST-1: news@example.org";
    answered(400, "MessageRejected", message)
}

/// In the sandbox: this recipient is not verified.
pub fn recipient_not_verified(address: &str) -> Failure {
    let sender = not_verified();
    Failure { message: sender.message.replace("news@example.org", address), ..sender }
}

/// SES has no template of this name: 404.
pub fn template_missing() -> Failure {
    answered(404, "NotFoundException", "Template receipt-v2-draft does not exist")
}

/// The role may not send from this identity: 403.
pub fn access_denied() -> Failure {
    let message = "User: arn:aws:sts::123456789012:assumed-role/poller/poller is not authorized to perform: \
                   ses:SendEmail on resource: arn:aws:ses:us-east-1:123456789012:identity/example.org because no \
                   identity-based policy allows the ses:SendEmail action";
    answered(403, "AccessDeniedException", message)
}

/// AWS does not know the token of the environment, as happens now and then with a valid one: 403.
pub fn token_refused() -> Failure {
    let message = "The security token included in the request is invalid.";
    answered(403, "UnrecognizedClientException", message)
}

/// SES has a fault of its own: 500.
pub fn server_error() -> Failure {
    answered(
        500,
        "InternalFailure",
        "The request processing has failed because of an unknown error.",
    )
}

/// Text messages over the rate.
pub fn throttled() -> Failure {
    answered(400, "ThrottlingException", "ThrottlingException: Rate exceeded")
}

/// The month's money for text messages is spent.
pub fn spend_limit_reached() -> Failure {
    let said = "ServiceQuotaExceededException: Monthly spend limit reached for text messages";
    answered(400, "MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT", said)
}

/// The recipient has opted out of text messages.
pub fn opted_out() -> Failure {
    let said = "ConflictException: Destination phone number has opted out";
    answered(400, "DESTINATION_PHONE_NUMBER_OPTED_OUT", said)
}

/// No phone has this number.
pub fn invalid_number() -> Failure {
    let said = "ValidationException: Invalid parameter: DestinationPhoneNumber";
    answered(400, "INVALID_PARAMETER", said)
}

/// The account does not send to the recipient's country.
pub fn country_blocked() -> Failure {
    answered(400, "DESTINATION_COUNTRY_BLOCKED", "ValidationException: Destination country blocked")
}

pub fn connection_refused() -> Failure {
    unanswered(Stage::Connect, "connection refused")
}

/// The connection broke after the request was written, so SES may have sent the mail.
pub fn answer_lost() -> Failure {
    unanswered(Stage::AfterWrite, "connection reset by peer")
}

/// The mail's slot had passed before the request was written, so nothing was sent.
pub fn too_late() -> Failure {
    unanswered(Stage::NotSent, "its slot had passed before the request was written")
}

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
