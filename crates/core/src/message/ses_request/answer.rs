//! SES's answers, written for each of its two protocols.

use serde_json::{Value, json};

use crate::outcome::Failure;

const NAMESPACE: &str = "http://ses.amazonaws.com/doc/2010-12-01/";

/// Protocol of a call, in which it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SesProtocol<'a> {
    /// Version 2: JSON, with an error's code in a header.
    Json,
    /// Version 1: XML, with elements that are named after the operation; errors do not name it.
    Query(&'a str),
}

/// Content of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum SesReply {
    /// One mail's id.
    MessageId(String),
    /// The id or the failure of each mail of a bulk, in its order.
    Bulk(Vec<Result<String, Failure>>),
    /// Answers `GetAccount`, and `GetSendQuota` with its three figures.
    Account(SesAccount),
}

/// Figures of an account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SesAccount {
    /// Recipients in any 24 hours; -1 without a limit.
    pub max_24_hour_send: f64,
    /// Recipients a second.
    pub max_send_rate: f64,
    /// Recipients in the last 24 hours.
    pub sent_last_24_hours: f64,
    /// Whether the account may send.
    pub sending_enabled: bool,
}

/// An answer over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SesAnswer {
    /// Status, 200 or an error's.
    pub status: u16,
    /// Value of `Content-Type`.
    pub content_type: &'static str,
    /// Value of `x-amzn-ErrorType`, by which version 2 names an error's code.
    pub error_type: Option<String>,
    /// Body, in UTF-8.
    pub body: String,
}

/// Codes of version 2 with those of version 1. Others are the same in both, or in one alone. From the references of
/// [version 1](https://docs.aws.amazon.com/ses/latest/APIReference/API_SendEmail.html) and the
/// [common errors](https://docs.aws.amazon.com/ses/latest/APIReference/CommonErrors.html).
const QUERY_CODES: [[&str; 2]; 9] = [
    ["AccessDeniedException", "AccessDenied"],
    ["BadRequestException", "InvalidParameterValue"],
    ["IncompleteSignatureException", "IncompleteSignature"],
    ["InvalidSignatureException", "SignatureDoesNotMatch"],
    ["LimitExceededException", "Throttling"],
    ["MissingAuthenticationTokenException", "MissingAuthenticationToken"],
    ["SendingPausedException", "AccountSendingPausedException"],
    ["TooManyRequestsException", "Throttling"],
    ["UnrecognizedClientException", "InvalidClientTokenId"],
];

/// A code, and the status of a mail in a bulk's answer of [version
/// 2](https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_BulkEmailEntryResult.html) and of [version
/// 1](https://docs.aws.amazon.com/ses/latest/APIReference/API_BulkEmailDestinationStatus.html).
const STATUSES: [[&str; 3]; 6] = [
    ["AccountSuspendedException", "ACCOUNT_SUSPENDED", "AccountSuspended"],
    ["BadRequestException", "INVALID_PARAMETER", "InvalidParameterValue"],
    ["LimitExceededException", "ACCOUNT_DAILY_QUOTA_EXCEEDED", "AccountDailyQuotaExceeded"],
    ["MessageRejected", "MESSAGE_REJECTED", "MessageRejected"],
    ["SendingPausedException", "ACCOUNT_SENDING_PAUSED", "AccountSendingPaused"],
    ["TooManyRequestsException", "ACCOUNT_THROTTLED", "AccountThrottled"],
];

/// Writes an answer. Failures have the codes of version 2.
///
/// ```
/// use tidegate_core::ses_request::{SesProtocol, SesReply, write_answer};
/// let sent = Ok(SesReply::MessageId("0100".to_owned()));
/// assert_eq!(write_answer(SesProtocol::Json, &sent, "r-1").body, r#"{"MessageId":"0100"}"#);
/// let written = write_answer(SesProtocol::Query("SendEmail"), &sent, "r-1").body;
/// assert!(written.contains("<SendEmailResult><MessageId>0100</MessageId></SendEmailResult>"));
/// ```
pub fn write_answer(
    protocol: SesProtocol<'_>,
    reply: &Result<SesReply, Failure>,
    request_id: &str,
) -> SesAnswer {
    let failed = reply.as_ref().err();
    let mut status = failed.map_or(200, status_of);
    let SesProtocol::Query(action) = protocol else {
        let body =
            reply.as_ref().map_or_else(|it| json!({ "message": it.message }), SesReply::json);
        let error_type = failed.map(|failure| code_of(failure).to_owned());
        let content_type = "application/json";
        return SesAnswer { status, content_type, error_type, body: body.to_string() };
    };
    let (action, id) = (escaped(action), escaped(request_id));
    let body = match reply {
        Ok(reply) => format!(
            "<{action}Response xmlns=\"{NAMESPACE}\"><{action}Result>{}</{action}Result>\
             <ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata></{action}Response>",
            reply.xml()
        ),
        Err(failure) => {
            let code = code_of(failure);
            let code = QUERY_CODES.iter().find(|[v2, _]| *v2 == code).map_or(code, |[_, v1]| *v1);
            // Version 1 has no 429.
            status = if code == "Throttling" { 400 } else { status };
            let kind = if status < 500 { "Sender" } else { "Receiver" };
            let (code, message) = (escaped(code), escaped(&failure.message));
            format!(
                "<ErrorResponse xmlns=\"{NAMESPACE}\"><Error><Type>{kind}</Type><Code>{code}</Code>\
                 <Message>{message}</Message></Error><RequestId>{id}</RequestId></ErrorResponse>"
            )
        }
    };
    SesAnswer { status, content_type: "text/xml", error_type: None, body }
}

fn status_of(failure: &Failure) -> u16 {
    failure.http_status.unwrap_or(500)
}

fn code_of(failure: &Failure) -> &str {
    failure.code.as_deref().unwrap_or_default()
}

impl SesReply {
    fn json(&self) -> Value {
        match self {
            Self::MessageId(id) => json!({ "MessageId": id }),
            Self::Bulk(mails) => {
                let result = |mail: &Result<String, Failure>| match mail {
                    Ok(id) => json!({ "Status": "SUCCESS", "MessageId": id }),
                    Err(it) => json!({ "Status": bulk_status(it)[0], "Error": it.message }),
                };
                json!({ "BulkEmailEntryResults": mails.iter().map(result).collect::<Vec<_>>() })
            }
            Self::Account(account) => json!({
                "DedicatedIpAutoWarmupEnabled": true,
                "EnforcementStatus": "HEALTHY",
                "ProductionAccessEnabled": true,
                "SendQuota": {
                    "Max24HourSend": account.max_24_hour_send,
                    "MaxSendRate": account.max_send_rate,
                    "SentLast24Hours": account.sent_last_24_hours,
                },
                "SendingEnabled": account.sending_enabled,
            }),
        }
    }

    fn xml(&self) -> String {
        match self {
            Self::MessageId(id) => format!("<MessageId>{}</MessageId>", escaped(id)),
            Self::Bulk(mails) => {
                let member = |mail: &Result<String, Failure>| {
                    let (status, name, text) = match mail {
                        Ok(id) => ("Success", "MessageId", id),
                        Err(failure) => (bulk_status(failure)[1], "Error", &failure.message),
                    };
                    let text = escaped(text);
                    format!("<member><Status>{status}</Status><{name}>{text}</{name}></member>")
                };
                format!("<Status>{}</Status>", mails.iter().map(member).collect::<String>())
            }
            Self::Account(account) => format!(
                "<Max24HourSend>{:?}</Max24HourSend><MaxSendRate>{:?}</MaxSendRate>\
                 <SentLast24Hours>{:?}</SentLast24Hours>",
                account.max_24_hour_send, account.max_send_rate, account.sent_last_24_hours
            ),
        }
    }
}

/// The status of a mail in a bulk's answer: that of version 2, and that of version 1.
fn bulk_status(failure: &Failure) -> [&'static str; 2] {
    match STATUSES.iter().find(|[code, ..]| *code == code_of(failure)) {
        Some(&[_, v2, v1]) => [v2, v1],
        None if status_of(failure) >= 500 => ["TRANSIENT_FAILURE", "TransientFailure"],
        None => ["FAILED", "Failed"],
    }
}

/// The text in XML. A character that XML cannot hold, escaped or not, becomes U+FFFD.
fn escaped(text: &str) -> String {
    let whole = |c| match c {
        '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
            '\u{fffd}'
        }
        _ => c,
    };
    let text: String = text.chars().map(whole).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
