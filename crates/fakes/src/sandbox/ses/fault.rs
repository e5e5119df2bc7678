//! Faults: what goes wrong, how often, and for whom.

mod parse;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::entropy::SeededEntropy;
use crate::ses::SesError;
use crate::value::show_span;

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
