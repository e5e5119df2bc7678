//! Errors of SES, of AWS End User Messaging, and of the connection to them.

pub(crate) use tidegate_core::outcome::answered;
use tidegate_core::outcome::{Failure, Stage, unanswered};

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
    ("InternalFailure", 500, "The request processing has failed because of an unknown error."),
    ("InternalServiceErrorException", 500, "The request could not be processed."),
    ("LimitExceededException", 400, "Daily message quota exceeded."),
    ("MailFromDomainNotVerifiedException", 400, "The MAIL FROM domain is not verified."),
    ("MessageRejected", 400, "Email address is not verified."),
    ("NotFoundException", 404, "The resource you attempted to access doesn't exist."),
    ("RequestTimeout", 408, "The request timed out."),
    ("SendingPausedException", 400, "Sending paused for this account."),
    ("ServiceUnavailable", 503, "The service is temporarily unavailable."),
    ("ThrottlingException", 400, "Rate exceeded"),
    ("TooManyRequestsException", 429, "Maximum sending rate exceeded."),
    ("UnrecognizedClientException", 403, "The security token included in the request is invalid."),
];

/// One of the service's own errors with its usual status and message.
pub(crate) fn known(code: &str) -> Option<Failure> {
    let (code, status, message) = USUAL.iter().find(|(known, ..)| *known == code)?;
    Some(answered(*status, code, *message))
}

/// SES's answer of this code, with the status and message that are usual for it; of another code the status is 400 and the message empty.
pub fn usual(code: &str) -> Failure {
    known(code).unwrap_or_else(|| answered(400, code, ""))
}

/// Over the rate: 429, "Maximum sending rate exceeded."
pub fn rate_exceeded() -> Failure {
    usual("TooManyRequestsException")
}

/// Over the daily quota: "Daily message quota exceeded."
pub fn daily_quota_exceeded() -> Failure {
    usual("LimitExceededException")
}

pub fn sending_paused() -> Failure {
    usual("SendingPausedException")
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
    usual("UnrecognizedClientException")
}

/// SES has a fault of its own: 500.
pub fn server_error() -> Failure {
    usual("InternalFailure")
}

/// Text messages over the rate.
pub fn throttled() -> Failure {
    usual("ThrottlingException")
}

/// The month's money for text messages is spent.
pub(crate) fn spend_limit_reached() -> Failure {
    usual("MONTHLY_SPEND_LIMIT_REACHED_FOR_TEXT")
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
