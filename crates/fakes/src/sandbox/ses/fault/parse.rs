//! Reading a fault from a setting's string or JSON object.

use std::str::FromStr;

use serde::Deserialize;
use serde_json::Value;

use super::{FaultKind, InjectedFault, SesOperation};
use crate::ses::SesError;
use crate::value::{ValueError, parse_span};

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

#[cfg(test)]
mod tests {
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
