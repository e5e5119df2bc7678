//! Faults: what goes wrong, how often, and for whom.
//!
//! Reading a fault from a setting's string or JSON object.
//!
//! The errors that only an answer over HTTP has.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::SeededEntropy;
use crate::ses::SesError;
use crate::value::{ValueError, parse_span, show_span};

/// One fault: what happens to a request, to which, and to what share of them.
///
/// Read from a string, the kind first and `message` last:
///
/// ```
/// use tidegate_fakes::sandbox::ses::InjectedFault;
/// for text in [
///     "lost-answer,ratio=0.01",
///     "reset,to=*@reset.example",
///     "timeout,to=*@slow.example,after=10s",
///     "ServiceUnavailable,ratio=0.05",
///     "MessageRejected,to=*@spam.example,message=Email address is not verified.",
///     "TooManyRequestsException,operation=GetAccount",
/// ] {
///     text.parse::<InjectedFault>()?;
/// }
/// # Ok::<(), tidegate_fakes::ValueError>(())
/// ```
///
/// or from a JSON object with the members `kind` (`error`, `lost-answer`, `reset`, `timeout`),
/// `operation`, `ratio`, `to`, `after` and, for errors, `code`, `status` and `message`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub struct InjectedFault {
    #[serde(flatten)]
    pub(crate) kind: FaultKind,
    pub(crate) operation: SesOperation,
    pub(crate) ratio: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "show_after")]
    pub(crate) after: Option<Duration>,
}

/// The effect of a fault on a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum FaultKind {
    /// The request is refused with this error.
    Error(SesError),
    /// Accepted and recorded; then the connection is closed without an answer.
    LostAnswer,
    /// Not accepted; the connection is reset.
    Reset,
    /// Not accepted, never answered; the connection is closed after `after`, else kept open.
    Timeout,
}

/// The call that a fault waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) enum SesOperation {
    #[default]
    SendEmail,
    GetAccount,
}

impl FaultKind {
    /// The name in settings and stats.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Error(_) => "error",
            Self::LostAnswer => "lost-answer",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
        }
    }
}

/// The first fault that meets a call to one of these recipients, if any does.
pub(crate) fn draw<'a>(
    faults: &'a [InjectedFault],
    operation: SesOperation,
    recipients: &[&str],
    entropy: &SeededEntropy,
) -> Option<&'a InjectedFault> {
    faults.iter().filter(|fault| fault.operation == operation).find(|fault| {
        let meant = fault
            .to
            .as_deref()
            .is_none_or(|pattern| recipients.iter().any(|address| matches(pattern, address)));
        meant && entropy.chance(fault.ratio)
    })
}

/// Whether an address matches a pattern in which `*` stands for any text. Case is ignored.
fn matches(pattern: &str, address: &str) -> bool {
    let (pattern, address) = (pattern.to_ascii_lowercase(), address.to_ascii_lowercase());
    // The part before the first `*` must be the beginning, the part after the last one the end, and
    // all parts between must follow each other in this order. The leftmost place for each part
    // leaves most room.
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == address };
    let Some(mut left) = address.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[expect(clippy::ref_option, reason = "the signature is serde's")]
fn show_after<S: serde::Serializer>(after: &Option<Duration>, out: S) -> Result<S::Ok, S::Error> {
    after.map(show_span).serialize(out)
}

const ALLOWED: &str = "a fault such as `lost-answer,ratio=0.01`, `reset`, `timeout,after=10s` or \
    `MessageRejected,status=400,to=*@x.example,message=…`: a kind (`lost-answer`, `reset`, \
    `timeout` or an error code), then any of `operation`, `ratio`, `to`, `after`, `status`, \
    and last `message`";
const MEMBERS: &str = "a fault with the members `kind` (`error`, `lost-answer`, `reset` or \
    `timeout`), `operation`, `ratio`, `to`, `after` and, for errors, `code`, `status`, `message`";
const RATIO: &str = "a fault whose `ratio` is a number from 0 to 1";
const AFTER: &str = "a fault whose `after` is a time such as `10s`, at most 1h";
const STATUS: &str = "a fault whose `status` is an HTTP error from 400 to 599";
const CODE: &str = "a fault whose error code is made of letters, digits and _, with a `status` unless \
    it is one of SES's own";
const OPERATION: &str = "a fault whose `operation` is `SendEmail` (then `to` may be given) or \
    `GetAccount`";

/// A fault before its members are checked together.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct FaultSpec {
    kind: String,
    code: Option<String>,
    status: Option<u16>,
    message: Option<String>,
    operation: Option<String>,
    ratio: Option<f64>,
    to: Option<String>,
    after: Option<String>,
}

impl FromStr for InjectedFault {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let shown = format!("`{text}`");
        let refused = |allowed| ValueError::new(&shown, allowed);
        let (members, message) = match text.split_once(",message=") {
            Some((members, message)) => (members, Some(message.to_owned())),
            None => (text, None),
        };
        let mut members = members.split(',').map(str::trim);
        let first = members.next().unwrap_or_default().to_owned();
        let mut draft = match first.as_str() {
            "lost-answer" | "reset" | "timeout" => {
                FaultSpec { kind: first, ..FaultSpec::default() }
            }
            _ => FaultSpec { kind: "error".to_owned(), code: Some(first), ..FaultSpec::default() },
        };
        draft.message = message;
        for member in members {
            let (name, value) = member.split_once('=').ok_or_else(|| refused(ALLOWED))?;
            match name {
                "operation" => draft.operation = Some(value.to_owned()),
                "to" => draft.to = Some(value.to_owned()),
                "after" => draft.after = Some(value.to_owned()),
                "ratio" => draft.ratio = Some(value.parse().map_err(|_| refused(RATIO))?),
                "status" => draft.status = Some(value.parse().map_err(|_| refused(STATUS))?),
                _ => return Err(refused(ALLOWED)),
            }
        }
        draft.check(&shown)
    }
}

impl TryFrom<Value> for InjectedFault {
    type Error = ValueError;

    fn try_from(value: Value) -> Result<Self, ValueError> {
        if let Some(text) = value.as_str() {
            return text.parse();
        }
        let shown = value.to_string();
        if !value.is_object() {
            return Err(ValueError::new(shown, ALLOWED));
        }
        let draft: FaultSpec =
            serde_json::from_value(value).map_err(|_| ValueError::new(&shown, MEMBERS))?;
        draft.check(&shown)
    }
}

impl FaultSpec {
    fn check(self, shown: &str) -> Result<InjectedFault, ValueError> {
        let refused = |allowed| ValueError::new(shown, allowed);
        let operation = match self.operation.as_deref() {
            None | Some("SendEmail") => SesOperation::SendEmail,
            Some("GetAccount") if self.to.is_none() => SesOperation::GetAccount,
            Some(_) => return Err(refused(OPERATION)),
        };
        let ratio = self.ratio.unwrap_or(1.0);
        if !(0.0..=1.0).contains(&ratio) {
            return Err(refused(RATIO));
        }
        let after = self.after.as_deref().map(|after| parse_span(after, AFTER)).transpose();
        let after = after.map_err(|_| refused(AFTER))?;
        let of_an_error = self.code.is_some() || self.status.is_some() || self.message.is_some();
        let kind = match self.kind.as_str() {
            "error" => FaultKind::Error(error(self.code, self.status, self.message, shown)?),
            _ if of_an_error => return Err(refused(MEMBERS)),
            "lost-answer" => FaultKind::LostAnswer,
            "reset" => FaultKind::Reset,
            "timeout" => FaultKind::Timeout,
            _ => return Err(refused(MEMBERS)),
        };
        Ok(InjectedFault { kind, operation, ratio, to: self.to, after })
    }
}

/// The error that a fault answers with: SES's own status and message where they are not given.
fn error(
    code: Option<String>,
    status: Option<u16>,
    message: Option<String>,
    shown: &str,
) -> Result<SesError, ValueError> {
    let code = code.unwrap_or_default();
    let known = SesError::usual(&code);
    let status = status.or(known.as_ref().map(|known| known.status));
    let Some(status) = status.filter(|_| is_code(&code)) else {
        return Err(ValueError::new(shown, CODE));
    };
    if !(400..=599).contains(&status) {
        return Err(ValueError::new(shown, STATUS));
    }
    let message = message.map(Into::into).or(known.map(|known| known.message));
    Ok(SesError { code: code.into(), status, message: message.unwrap_or_default() })
}

fn is_code(code: &str) -> bool {
    !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(texts: &[&str]) -> Vec<InjectedFault> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    #[test]
    fn a_pattern_matches_whole_addresses_whatever_their_case() {
        for (pattern, address, expected) in [
            ("*@slow.example", "Ada@Slow.example", true),
            ("*@slow.example", "ada@slow.example.org", false),
            ("ada@*", "ada@x", true),
            ("ada@x", "ada@x", true),
            ("ada@x", "ada@xy", false),
            ("*+bounce*@*", "ada+bounce7@x.example", true),
            ("*+bounce*@*", "ada@x.example", false),
            ("a*a", "a", false),
            ("*", "anyone@x", true),
        ] {
            assert_eq!(matches(pattern, address), expected, "{pattern} on {address}");
        }
    }

    #[test]
    fn the_first_fault_that_is_meant_wins_and_calls_are_told_apart() {
        let faults =
            faults(&["reset,to=*@r.example", "timeout", "lost-answer,operation=GetAccount"]);
        let entropy = SeededEntropy::new(1);
        let name = |operation, to: &[&str]| {
            draw(&faults, operation, to, &entropy).map(|fault| fault.kind.name())
        };
        assert_eq!(name(SesOperation::SendEmail, &["a@x", "b@r.example"]), Some("reset"));
        assert_eq!(name(SesOperation::SendEmail, &["a@x"]), Some("timeout"));
        assert_eq!(name(SesOperation::GetAccount, &[]), Some("lost-answer"));
    }

    #[test]
    fn a_ratio_meets_its_share_of_the_calls() {
        let faults = faults(&["reset,ratio=0.2"]);
        let entropy = SeededEntropy::new(3);
        let met = (0..10_000)
            .filter(|_| draw(&faults, SesOperation::SendEmail, &["a@x"], &entropy).is_some())
            .count();
        assert!((1_900..2_100).contains(&met), "{met}");
    }
}

#[cfg(test)]
mod parse_tests {
    use super::*;

    #[test]
    fn a_fault_reads_what_it_writes() {
        for text in [
            "lost-answer,ratio=0.01,after=2s",
            "reset,to=*@r.example",
            "timeout",
            "InternalFailure,operation=GetAccount",
            "Odd,status=418,message=one, two",
        ] {
            let fault: InjectedFault = text.parse().expect(text);
            let json = serde_json::to_value(&fault).expect("serialize");
            assert_eq!(InjectedFault::try_from(json), Ok(fault), "{text}");
        }
    }

    #[test]
    fn an_error_of_ses_brings_its_own_status_and_message() {
        let fault: InjectedFault = "SendingPausedException".parse().expect("fault");
        let FaultKind::Error(error) = fault.kind else { panic!("{fault:?}") };
        assert_eq!(error.status, 400);
        assert!(error.message.contains("paused"), "{error:?}");
    }

    #[test]
    fn a_fault_is_a_string_or_an_object() {
        for value in [serde_json::json!(["reset"]), serde_json::json!(7)] {
            let error = InjectedFault::try_from(value).expect_err("neither").to_string();
            assert!(error.contains("`lost-answer,ratio=0.01`"), "{error}");
        }
    }

    #[test]
    fn a_fault_that_cannot_be_is_refused_with_itself_and_what_is_allowed() {
        for (text, named) in [
            ("", "error code"),
            ("boom", "`status`"),
            ("boom,status=200", "400 to 599"),
            ("reset,ratio=1.5", "from 0 to 1"),
            ("reset,ratio=NaN", "from 0 to 1"),
            ("reset,often", "`ratio`"),
            ("reset,from=a@x", "`ratio`"),
            ("reset,status=500", "for errors"),
            ("timeout,after=soon", "`10s`"),
            ("reset,operation=GetAccount,to=a@x", "`GetAccount`"),
        ] {
            let error = text.parse::<InjectedFault>().expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains(named), "{error}");
        }
        let value = serde_json::json!({"kind": "reset", "rate": 1});
        let error = InjectedFault::try_from(value).expect_err("unknown member").to_string();
        assert!(error.contains("`ratio`") && error.contains("\"rate\":1"), "{error}");
    }
}
