//! What an answer of SES means.
//!
//! SES says the same thing under several codes, and different things under one code: so a failure
//! is read by its code **and** its message, both without regard to case.

/// How far a send came before it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It was refused on our side, before anything went out (its slot had passed, say).
    NotSent,
    /// No connection, or one that broke before the request was written.
    Connect,
    /// The request was written; then came a time-out, or the connection was lost.
    AfterWrite,
    /// SES, or something on the way to it, answered.
    Answered,
}

/// A send that did not end in "accepted".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The answer's HTTP status, where there was an answer.
    pub http_status: Option<u16>,
    /// The error code, with or without its namespace (`com.amazonaws.sesv2#MessageRejected`).
    pub code: Option<String>,
    /// What SES, or the transport, said.
    pub message: String,
    /// How far it came.
    pub stage: Stage,
}

/// What a failure means for the mail, its campaign and the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Over the account's rate: the slot is spent, the mail kept, the rate lowered.
    RateExceeded,
    /// The daily quota is used up: all sending is held until it frees up.
    DailyQuotaExceeded,
    /// SES paused or suspended the account: all sending is held, alarm.
    AccountPaused,
    /// Credentials or permissions are wrong: all sending is held, alarm.
    Credentials,
    /// An identity, mail-from domain, template or configuration set is missing, unverified or
    /// paused: the campaign is held, alarm.
    Deployment,
    /// The mail will never be taken: dead-letter it.
    Permanent,
    /// Worth another try.
    Transient,
    /// Worth another try, but SES may have taken it already.
    Ambiguous,
    /// Never left us: a later slot takes it.
    NotSent,
}

/// What a hold stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldScope {
    /// All sending.
    All,
    /// The mail's campaign.
    Campaign,
}

impl Outcome {
    /// The name in logs, metrics and holds.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RateExceeded => "rate_exceeded",
            Self::DailyQuotaExceeded => "daily_quota_exceeded",
            Self::AccountPaused => "account_paused",
            Self::Credentials => "credentials",
            Self::Deployment => "deployment",
            Self::Permanent => "permanent",
            Self::Transient => "transient",
            Self::Ambiguous => "ambiguous",
            Self::NotSent => "not_sent",
        }
    }

    /// Whether the send counts towards `TIDEGATE_MAX_ATTEMPTS`: only where the mail itself, or
    /// its way to SES, failed.
    pub const fn counts_as_attempt(self) -> bool {
        matches!(self, Self::Permanent | Self::Transient | Self::Ambiguous)
    }

    /// Whether sending stops until someone or something lifts the hold.
    pub const fn is_hold(self) -> bool {
        self.hold_scope().is_some()
    }

    /// What is held, where something is.
    pub const fn hold_scope(self) -> Option<HoldScope> {
        match self {
            Self::DailyQuotaExceeded | Self::AccountPaused | Self::Credentials => {
                Some(HoldScope::All)
            }
            Self::Deployment => Some(HoldScope::Campaign),
            _ => None,
        }
    }

    /// Whether SES may have sent the mail all the same.
    pub const fn possibly_sent(self) -> bool {
        matches!(self, Self::Ambiguous)
    }
}

const THROTTLED: [&str; 9] = [
    "toomanyrequestsexception",
    "toomanyrequests",
    "throttlingexception",
    "throttling",
    "throttledexception",
    "requestthrottledexception",
    "requestthrottled",
    "requestlimitexceeded",
    "slowdown",
];

const LIMITED: [&str; 2] = ["limitexceededexception", "limitexceeded"];

const PAUSED: [&str; 4] = [
    "sendingpausedexception",
    "accountsuspendedexception",
    "accountsendingpausedexception",
    "accountsendingpaused",
];

/// AWS answers several of these with 400.
const CREDENTIALS: [&str; 19] = [
    "accessdenied",
    "accessdeniedexception",
    "expiredtoken",
    "expiredtokenexception",
    "incompletesignature",
    "incompletesignatureexception",
    "invalidclienttokenid",
    "invalidsignatureexception",
    "invalidtoken",
    "missingauthenticationtoken",
    "missingauthenticationtokenexception",
    "notauthorized",
    "optinrequired",
    "requestexpired",
    "requesttimetooskewed",
    "signaturedoesnotmatch",
    "unauthorizedoperation",
    "unrecognizedclientexception",
    "invalidaccesskeyid",
];

/// In `SendEmail`, not found can only be an identity, template, configuration set or tenant.
const DEPLOYMENT: [&str; 9] = [
    "notfoundexception",
    "mailfromdomainnotverifiedexception",
    "mailfromdomainnotverified",
    "configurationsetdoesnotexist",
    "configurationsetdoesnotexistexception",
    "configurationsetsendingpaused",
    "configurationsetsendingpausedexception",
    "templatedoesnotexist",
    "templatedoesnotexistexception",
];

/// The request did not arrive whole: no verdict on the mail, though the status is 4xx.
const UNREAD: [&str; 4] =
    ["requesttimeout", "requesttimeoutexception", "requestabortedexception", "requestaborted"];

/// Reads a failure.
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

/// `com.amazonaws.sesv2#MessageRejected:http://…` is `messagerejected`.
fn bare_code(code: &str) -> String {
    let code = code.split(':').next().unwrap_or_default();
    code.rsplit('#').next().unwrap_or_default().trim().to_lowercase()
}

fn classify_answer(status: Option<u16>, code: &str, message: &str) -> Outcome {
    let says = |parts: &[&str]| parts.iter().all(|part| message.contains(part));
    let daily =
        says(&["daily"]) || says(&["24", "hour", "quota"]) || says(&["24", "hour", "limit"]);
    if THROTTLED.contains(&code) || LIMITED.contains(&code) {
        // A limit is never the mail's fault. One that is not said to be the day's is met by
        // slowing down: nothing is lost by that, whatever limit it was. So too under a 5xx
        // (503 SlowDown), which a retry would only make worse.
        return if daily { Outcome::DailyQuotaExceeded } else { Outcome::RateExceeded };
    }
    if status.is_some_and(|s| s >= 500) {
        return Outcome::Transient;
    }
    if names_missing_deployment(code, &says) {
        return Outcome::Deployment;
    }
    if PAUSED.contains(&code) || says_account_is_paused(&says) {
        return Outcome::AccountPaused;
    }
    if CREDENTIALS.contains(&code) || matches!(status, Some(401 | 403)) {
        return Outcome::Credentials;
    }
    if says(&["daily message quota exceeded"]) {
        return Outcome::DailyQuotaExceeded;
    }
    // SES answers 429 only for its rate; from anything on the way it also means "too fast".
    if says(&["maximum sending rate exceeded"]) || status == Some(429) {
        return Outcome::RateExceeded;
    }
    match status {
        _ if UNREAD.contains(&code) => Outcome::Transient,
        Some(408) => Outcome::Transient,
        Some(400..=499) => Outcome::Permanent,
        // An answer that says neither: SES may have taken the mail (a 200 that could not be read).
        Some(200..=299) => Outcome::Ambiguous,
        None if code.is_empty() => Outcome::Ambiguous,
        None => classify_code_alone(code),
        // 1xx and 3xx come from something on the way, which did not pass the mail on.
        Some(_) => Outcome::Transient,
    }
}

/// Codes that SES documents as 4xx, where the status was not passed on.
fn classify_code_alone(code: &str) -> Outcome {
    const REFUSED: [&str; 3] = ["messagerejected", "badrequestexception", "validationexception"];
    if REFUSED.contains(&code) { Outcome::Permanent } else { Outcome::Transient }
}

fn names_missing_deployment(code: &str, says: &impl Fn(&[&str]) -> bool) -> bool {
    DEPLOYMENT.contains(&code)
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

fn says_account_is_paused(says: &impl Fn(&[&str]) -> bool) -> bool {
    says(&["sending paused"])
        || says(&["sending suspended"])
        || says(&["sending", "is paused"])
        || says(&["account", "paused"])
        || says(&["account", "suspended"])
        || says(&["account", "sending", "disabled"])
        || says(&["shutdown", "account"])
}

#[cfg(test)]
mod tests;
