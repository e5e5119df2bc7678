//! The meaning of SES's answers.
//!
//! SES uses several codes for one meaning and one code for several meanings. A failure is therefore
//! classified by its code **and** its message, both without regard to case.

use std::collections::BTreeSet;

use strum::IntoStaticStr;

/// The point that a send reached before it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Tidegate did not start the send, for example because its slot had passed.
    NotSent,
    /// There was no connection, or it was lost before the request was written.
    Connect,
    /// The request was written; then the time limit passed or the connection was lost.
    AfterWrite,
    /// SES, or a proxy on the way to it, answered.
    Answered,
}

/// A send that SES did not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The answer's HTTP status; none if there was no answer.
    pub http_status: Option<u16>,
    /// The error code, with or without its namespace (`com.amazonaws.sesv2#MessageRejected`); none if
    /// there was none.
    pub code: Option<String>,
    /// The message of SES or of the transport.
    pub message: String,
    /// The point that the send reached.
    pub stage: Stage,
}

/// An error as a service answers it.
pub fn answered(http_status: u16, code: &str, message: impl Into<String>) -> Failure {
    let (http_status, code) = (Some(http_status), Some(code.to_owned()));
    Failure { http_status, code, message: message.into(), stage: Stage::Answered }
}

/// A failure before a service answered.
pub fn unanswered(stage: Stage, message: impl Into<String>) -> Failure {
    Failure { http_status: None, code: None, message: message.into(), stage }
}

/// The meaning of a failure for the mail, its campaign and the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// The account's rate was exceeded: the slot is spent, the mail is kept, the rate is lowered. Not
    /// an attempt.
    RateExceeded,
    /// The daily quota is used up: all sending is held until enough of it is free. Not an attempt.
    DailyQuotaExceeded,
    /// SES paused or suspended the account: all sending is held, with an alarm. Not an attempt.
    AccountPaused,
    /// The month's money for text messages is spent: all sending is held, with an alarm. Not an attempt.
    SpendLimit,
    /// SES refuses this environment's token, signature or clock, which it does now and then with valid credentials. The
    /// mail is left to another environment, and the breaker counts it as a fault of SES. Not an attempt.
    Environment,
    /// An identity, mail-from domain, template or configuration set that the mail names is missing, unverified, paused
    /// or denied. An operator may put it right: the mail is retried.
    NotReady,
    /// SES refuses the mail's tenant: it is paused or unknown, or lacks an association. The tenant's campaigns are
    /// held, with an alarm. Not an attempt.
    Tenant,
    /// SES will never accept this mail: it is dead-lettered.
    Permanent,
    /// The recipient takes no text messages: it is dead-lettered. It says nothing about other recipients.
    OptedOut,
    /// The mail was not sent for a reason that may pass: it is retried.
    Transient,
    /// SES may or may not have accepted the mail: it is retried and counted as possibly sent.
    Ambiguous,
    /// The send did not start: the mail takes a later slot. Not an attempt.
    NotSent,
}

impl Outcome {
    /// The outcome's name in logs, metrics and holds.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// True if SES may have sent the mail although no answer says so.
    pub const fn possibly_sent(self) -> bool {
        matches!(self, Self::Ambiguous)
    }
}

// Codes as [`bare_code`] writes them.
const THROTTLED: [&str; 6] = [
    "toomanyrequests",
    "throttling",
    "throttled",
    "requestthrottled",
    "requestlimitexceeded",
    "slowdown",
];

const LIMITED: &str = "limitexceeded";

const PAUSED: [&str; 3] = ["sendingpaused", "accountsuspended", "accountsendingpaused"];

/// Codes about the token, signature or clock of an environment. AWS sends several of them with status 400.
const ENVIRONMENT: [&str; 12] = [
    "expiredtoken",
    "incompletesignature",
    "invalidaccesskeyid",
    "invalidclienttokenid",
    "invalidsignature",
    "invalidtoken",
    "missingauthenticationtoken",
    "optinrequired",
    "requestexpired",
    "requesttimetooskewed",
    "signaturedoesnotmatch",
    "unrecognizedclient",
];

const DENIED: [&str; 3] = ["accessdenied", "notauthorized", "unauthorizedoperation"];

/// Codes for something that the mail names and SES does not have, or has not verified. For `SendEmail`, "not found" can
/// only concern an identity, template, configuration set or tenant.
const NOT_READY: [&str; 5] = [
    "notfound",
    "mailfromdomainnotverified",
    "configurationsetdoesnotexist",
    "configurationsetsendingpaused",
    "templatedoesnotexist",
];

/// The codes with which SES tells only by its text that the account may not send, or not more; and none, as from a
/// proxy. With other codes the text decides nothing about the account: it may repeat what a producer wrote.
const TELLS_BY_TEXT: [&str; 2] = ["messagerejected", ""];

/// Codes for a request that did not arrive completely. They say nothing about the mail, although the
/// status is 4xx.
const UNREAD: [&str; 2] = ["requesttimeout", "requestaborted"];

/// Classifies a failure by its stage, status, code and message.
///
/// ```
/// use tidegate_core::outcome::{Failure, Outcome, Stage, classify};
/// let failure = Failure {
///     http_status: Some(429),
///     code: Some("TooManyRequestsException".into()),
///     message: "Maximum sending rate exceeded.".into(),
///     stage: Stage::Answered,
/// };
/// assert_eq!(classify(&failure), Outcome::RateExceeded);
/// ```
pub fn classify(failure: &Failure) -> Outcome {
    match failure.stage {
        Stage::NotSent => Outcome::NotSent,
        Stage::Connect => Outcome::Transient,
        Stage::AfterWrite => Outcome::Ambiguous,
        Stage::Answered => {
            let code = bare_code(failure.code.as_deref().unwrap_or_default());
            classify_answer(failure.http_status, &code, &failure.message.to_lowercase())
        }
    }
}

/// Classifies a failure of a mail that was sent for a tenant: what may be the tenant's problem is not the
/// account's.
///
/// SES answers 403 `AccessDeniedException` "Tenant not associated with resources […]." and 404 `NotFoundException`
/// "Tenant acme for … not found.", as [observed] on AWS. Its reference names no error for a paused tenant, so every
/// pause counts as the tenant's; an account that is paused is found by `GetAccount` within a minute. IAM may deny a
/// single tenant (condition key `ses:TenantName`), so a denial that names nothing concerns the mail.
///
/// [observed]: https://github.com/floci-io/floci/pull/2815
pub fn classify_for_tenant(failure: &Failure) -> Outcome {
    // Further words may be a producer's.
    let message = failure.message.to_lowercase();
    let names_tenant = message.starts_with("tenant ") || message.starts_with("the tenant ");
    let code = bare_code(failure.code.as_deref().unwrap_or_default());
    let is_denied = DENIED.contains(&code.as_str());
    match classify(failure) {
        Outcome::AccountPaused => Outcome::Tenant,
        Outcome::NotReady | Outcome::Permanent if names_tenant => Outcome::Tenant,
        Outcome::Environment if is_denied && names_tenant => Outcome::Tenant,
        Outcome::Environment if is_denied => Outcome::NotReady,
        other => other,
    }
}

/// Whether the identities that SES names as not verified are recipients of the mail, and its sender is not among them, as
/// in SES's sandbox, which takes verified ones alone.
///
/// ```
/// use tidegate_core::outcome::names_recipients_alone;
/// let said = "Email address is not verified. The following identities failed the check in region EU-WEST-1: Bob@example.com";
/// assert!(names_recipients_alone(said, "news@example.org", ["ada@example.com", "bob@example.com"]));
/// assert!(!names_recipients_alone(said, "bob@example.com", ["bob@example.com"]));
/// assert!(!names_recipients_alone(said, "news@example.org", ["ada@example.com"]));
/// ```
pub fn names_recipients_alone<'a>(
    message: &str,
    sender: &str,
    recipients: impl IntoIterator<Item = &'a str>,
) -> bool {
    let message = message.to_lowercase();
    let Some((_, listed)) = message.split_once("identities failed the check") else { return false };
    let recipients: BTreeSet<String> = recipients.into_iter().map(str::to_lowercase).collect();
    let mut named = listed
        .split(|c: char| c.is_whitespace() || ",;<>\"'()[]".contains(c))
        .filter(|word| word.contains('@'))
        .peekable();
    let sender = sender.to_lowercase();
    named.peek().is_some() && named.all(|word| word != sender && recipients.contains(word))
}

/// Removes namespace and suffixes: `com.amazonaws.sesv2#NotFoundException:http://…` becomes `notfound`. SES writes several
/// codes with and without the last word.
fn bare_code(code: &str) -> String {
    let code = code.split(':').next().unwrap_or_default();
    let code = code.rsplit('#').next().unwrap_or_default().trim().to_lowercase();
    code.strip_suffix("exception").map_or_else(|| code.clone(), str::to_owned)
}

fn classify_answer(status: Option<u16>, code: &str, message: &str) -> Outcome {
    let says = |parts: &[&str]| parts.iter().all(|part| message.contains(part));
    // The order matters. Limits come first, because SES and proxies send them with several statuses; then 5xx, which
    // says nothing about the mail; then what concerns the account, what concerns the mail, and the environment; and at
    // last the bare status.
    let daily =
        says(&["daily"]) || says(&["24", "hour", "quota"]) || says(&["24", "hour", "limit"]);
    if THROTTLED.contains(&code) || code == LIMITED {
        // A limit is never the mail's fault. Unless the message names the daily quota, the rate is
        // lowered; this loses nothing, whatever the limit was. It also applies to a 5xx (503 SlowDown),
        // which a retry would only aggravate.
        return if daily { Outcome::DailyQuotaExceeded } else { Outcome::RateExceeded };
    }
    if status.is_some_and(|s| s >= 500) {
        return Outcome::Transient;
    }
    let names_set = says(&["configuration set"]);
    if PAUSED.contains(&code) {
        return if names_set { Outcome::NotReady } else { Outcome::AccountPaused };
    }
    if TELLS_BY_TEXT.contains(&code)
        && let Some(outcome) = outcome_of_text(message).filter(|_| !names_set)
    {
        return outcome;
    }
    if names_what_is_missing(code, &says) || (DENIED.contains(&code) && says(&["resource", "arn:"]))
    {
        return Outcome::NotReady;
    }
    if ENVIRONMENT.contains(&code) || DENIED.contains(&code) || matches!(status, Some(401 | 403)) {
        return Outcome::Environment;
    }
    match status {
        // SES answers 429 only for its rate. From a proxy it also means "too fast".
        Some(429) => Outcome::RateExceeded,
        _ if UNREAD.contains(&code) => Outcome::Transient,
        Some(408) => Outcome::Transient,
        Some(400..=499) => Outcome::Permanent,
        // A 2xx answer that could not be read: SES may have accepted the mail.
        Some(200..=299) => Outcome::Ambiguous,
        None if code.is_empty() => Outcome::Ambiguous,
        // SES documents these codes as 4xx.
        None if ["messagerejected", "badrequest", "validation"].contains(&code) => {
            Outcome::Permanent
        }
        // Another code without a status; 1xx and 3xx come from a proxy that did not pass the mail on.
        None | Some(_) => Outcome::Transient,
    }
}

/// The outcome that a text of SES about the account tells by its first words. Further words may be a producer's.
fn outcome_of_text(message: &str) -> Option<Outcome> {
    const TEXTS: [(&str, Outcome); 5] = [
        ("sending paused", Outcome::AccountPaused),
        ("sending suspended", Outcome::AccountPaused),
        ("email sending for the account is paused", Outcome::AccountPaused),
        ("daily message quota exceeded", Outcome::DailyQuotaExceeded),
        ("maximum sending rate exceeded", Outcome::RateExceeded),
    ];
    TEXTS.into_iter().find(|(begin, _)| message.starts_with(begin)).map(|(_, outcome)| outcome)
}

fn names_what_is_missing(code: &str, says: &impl Fn(&[&str]) -> bool) -> bool {
    NOT_READY.contains(&code)
        || says(&["address", "not verified"])
        || says(&["identit", "not verified"])
        || says(&["identities failed the check"])
        || says(&["domain", "not verified"])
        || says(&["configuration set", "does not exist"])
        || says(&["configuration set", "paused"])
        || says(&["configuration set", "disabled"])
        || says(&["template", "does not exist"])
        || says(&["identity", "does not exist"])
        || says(&["could not read the mx record"])
}

#[cfg(test)]
mod tests;
