//! Faults: what goes wrong, how often, and for whom.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};
use tidegate_core::outcome::Failure;

use crate::clock::SeededEntropy;
use crate::ses::failures::{answered, known};
use crate::value::{ValueError, parse_span};

const ALLOWED: &str = "a fault such as `lost-answer,ratio=0.01`, `reset`, `timeout,after=10s` or \
    `MessageRejected,status=400,to=*@x.example,message=…`: a kind (`lost-answer`, `reset`, \
    `timeout` or an error code), then any of `operation`, `ratio`, `to`, `after`, `status`, \
    and last `message`";
const RATIO: &str = "a fault whose `ratio` is a number from 0 to 1";
const AFTER: &str = "a fault whose `after` is a time such as `10s`, at most 1h";
const STATUS: &str = "a fault whose `status` is an HTTP error from 400 to 599";
const CODE: &str = "a fault whose error code is made of letters, digits and _, with a `status` unless \
    it is one of SES's own";
const OF_ERRORS: &str = "a fault with `status` and `message` for errors only";
const OPERATION: &str = "a fault whose `operation` is `SendEmail` (then `to` may be given) or \
    `GetAccount`";

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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct InjectedFault {
    text: String,
    pub(crate) kind: FaultKind,
    operation: SesOperation,
    ratio: f64,
    to: Option<String>,
    pub(crate) after: Option<Duration>,
}

/// The effect of a fault on a request. Its name is that of settings and stats.
#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum FaultKind {
    /// The request is refused with this error.
    Error(Failure),
    /// Accepted and recorded; then the connection is closed without an answer.
    LostAnswer,
    /// Not accepted; the connection is reset.
    Reset,
    /// Not accepted, never answered; the connection is closed after `after`, else kept open.
    Timeout,
}

/// The call that a fault waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
pub(crate) enum SesOperation {
    SendEmail,
    GetAccount,
}

/// The first fault that meets a call to one of these recipients, if any does.
pub(crate) fn draw<'a>(
    faults: &'a [InjectedFault],
    operation: SesOperation,
    recipients: &[&str],
    entropy: &SeededEntropy,
) -> Option<&'a InjectedFault> {
    faults.iter().filter(|fault| fault.operation == operation).find(|fault| {
        let is_of = |pattern: &str| recipients.iter().any(|address| matches(pattern, address));
        fault.to.as_deref().is_none_or(is_of) && entropy.chance(fault.ratio)
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

impl FromStr for InjectedFault {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refused = |allowed| ValueError::new(format_args!("`{text}`"), allowed);
        let (members, message) = match text.split_once(",message=") {
            Some((members, message)) => (members, Some(message)),
            None => (text, None),
        };
        let mut members = members.split(',').map(str::trim);
        let kind = members.next().unwrap_or_default();
        let (mut operation, mut ratio) = (SesOperation::SendEmail, 1.0);
        let (mut to, mut after, mut status) = (None, None, None);
        for member in members {
            let (name, value) = member.split_once('=').ok_or_else(|| refused(ALLOWED))?;
            match name {
                "operation" => operation = value.parse().map_err(|_| refused(OPERATION))?,
                "to" => to = Some(value.to_owned()),
                "after" => after = Some(parse_span(value).ok_or_else(|| refused(AFTER))?),
                "ratio" => ratio = value.parse().map_err(|_| refused(RATIO))?,
                "status" => status = Some(value.parse().map_err(|_| refused(STATUS))?),
                _ => return Err(refused(ALLOWED)),
            }
        }
        if operation == SesOperation::GetAccount && to.is_some() {
            return Err(refused(OPERATION));
        }
        if !(0.0..=1.0).contains(&ratio) {
            return Err(refused(RATIO));
        }
        let of_an_error = status.is_some() || message.is_some();
        let kind = match kind {
            "lost-answer" | "reset" | "timeout" if of_an_error => return Err(refused(OF_ERRORS)),
            "lost-answer" => FaultKind::LostAnswer,
            "reset" => FaultKind::Reset,
            "timeout" => FaultKind::Timeout,
            code => FaultKind::Error(error(code, status, message).map_err(refused)?),
        };
        Ok(Self { text: text.to_owned(), kind, operation, ratio, to, after })
    }
}

/// The error that a fault answers with: SES's own status and message where they are not given. Refused with what is
/// allowed.
fn error(code: &str, status: Option<u16>, message: Option<&str>) -> Result<Failure, &'static str> {
    let is_code = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let known = known(code);
    let status = status.or(known.as_ref().and_then(|known| known.http_status));
    let status = status.filter(|_| !code.is_empty() && code.bytes().all(is_code)).ok_or(CODE)?;
    if !(400..=599).contains(&status) {
        return Err(STATUS);
    }
    let usual = known.map(|known| known.message).unwrap_or_default();
    Ok(answered(status, code, message.map_or(usual, str::to_owned)))
}

impl TryFrom<String> for InjectedFault {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Self, ValueError> {
        text.parse()
    }
}

impl From<InjectedFault> for String {
    fn from(fault: InjectedFault) -> Self {
        fault.text
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
            draw(&faults, operation, to, &entropy).map(|fault| <&str>::from(&fault.kind))
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
            assert_eq!(serde_json::from_value::<InjectedFault>(json).expect(text), fault);
        }
    }

    #[test]
    fn an_error_of_ses_brings_its_own_status_and_message() {
        let fault: InjectedFault = "SendingPausedException".parse().expect("fault");
        let FaultKind::Error(error) = fault.kind else { panic!("{fault:?}") };
        assert_eq!(error.http_status, Some(400));
        assert!(error.message.contains("paused"), "{error:?}");
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
    }
}
