//! The errors that only an answer over HTTP has.

use std::borrow::Cow;

use crate::ses::SesError;

/// Code, status and usual message of the errors that a client must tell apart.
const USUAL: &[(&str, u16, &str)] = &[
    ("AccessDeniedException", 403, "User is not authorized to perform this action."),
    ("DESTINATION_COUNTRY_BLOCKED", 400, "The destination country is blocked."),
    ("DESTINATION_PHONE_NUMBER_OPTED_OUT", 400, "The destination phone number has opted out."),
    ("INVALID_PARAMETER", 400, "The destination phone number is not valid."),
    ("MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT", 400, "The monthly spend limit is reached."),
    ("AccountSuspendedException", 400, "The account is suspended."),
    ("BadRequestException", 400, "The input you provided is invalid."),
    ("ExpiredTokenException", 403, "The security token included in the request is expired."),
    ("InternalFailure", 500, "The request processing has failed because of an internal error."),
    ("InternalServiceErrorException", 500, "The request could not be processed."),
    ("LimitExceededException", 400, "Daily message quota exceeded."),
    ("MailFromDomainNotVerifiedException", 400, "The MAIL FROM domain is not verified."),
    ("MessageRejected", 400, "Email address is not verified."),
    ("NotFoundException", 404, "The resource you attempted to access doesn't exist."),
    ("RequestTimeout", 408, "The request timed out."),
    ("SendingPausedException", 400, "Sending paused for this account."),
    ("ServiceUnavailable", 503, "The service is temporarily unavailable."),
    ("ThrottlingException", 400, "Maximum sending rate exceeded."),
    ("TooManyRequestsException", 429, "Maximum sending rate exceeded."),
    ("UnrecognizedClientException", 403, "The security token in the request is invalid."),
];

impl SesError {
    /// One of SES's own errors with its usual status and message.
    pub(crate) fn usual(code: &str) -> Option<Self> {
        let (code, status, message) = USUAL.iter().find(|(known, ..)| *known == code)?;
        Some(Self::new(code, *status, *message))
    }

    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new("BadRequestException", 400, message)
    }

    /// A call that the sandbox does not have.
    pub(crate) fn unknown_operation(method: &str, path: &str) -> Self {
        let message = format!(
            "{method} {path}: this sandbox has POST /v2/email/outbound-emails (SendEmail), \
             GET /v2/email/account (GetAccount) and its own pages under /_sandbox/."
        );
        Self::new("UnknownOperationException", 404, message)
    }
}
