//! Checks a deployment: facts are read first and then judged one by one, each finding with its
//! remedy.

mod account;
mod environments;
mod functions;
mod queues;
mod tenants;
pub mod texts;
mod view;

use serde::Serialize;
use tidegate_core::Timestamp;

pub use account::{AccountHealth, SenderIdentity};
pub use environments::Environments;
pub use functions::FunctionSettings;
pub use queues::{DeployedQueue, QueueAttributes, QueueKind};
pub use tenants::TenantFacts;
pub use texts::TextFacts;

use crate::status::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    Ok,
    Unknown,
    Warning,
    /// Does not work, or will not.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the check, such as `queue big: visibility timeout`.
    pub check: String,
    pub state: CheckState,
    /// The value found, and the allowed one.
    pub found: String,
    /// The remedy; empty if nothing has to be done.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl Finding {
    pub(crate) fn ok(check: impl Into<String>, found: impl Into<String>) -> Self {
        let (check, found) = (check.into(), found.into());
        Self { check, state: CheckState::Ok, found, remedy: String::new() }
    }

    pub(crate) fn of(
        state: CheckState,
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { check: check.into(), state, found: found.into(), remedy: remedy.into() }
    }
}

/// A value that was read, or the reason why it could not be. A check without its value is reported
/// as unknown, not as passed.
pub type ReadResult<T> = Result<T, String>;

/// The facts about SES.
#[derive(Clone, Debug)]
pub struct SesFacts {
    pub account: ReadResult<AccountHealth>,
    /// The allowed senders, and whether SES has verified them.
    pub senders: Vec<SenderIdentity>,
    /// The configuration set of mails that name none, and whether SES has it.
    pub configuration_set: Option<(String, ReadResult<bool>)>,
    /// The SES tenants of the campaigns.
    pub tenants: Vec<TenantFacts>,
}

/// The facts about the service that sends.
#[derive(Clone, Debug)]
pub enum ChannelFacts {
    Email(SesFacts),
    Sms(TextFacts),
}

#[derive(Clone, Debug)]
// More than 12 fields: one for each thing that is read.
pub struct DeploymentFacts {
    pub status: Status,
    pub channel: ChannelFacts,
    pub queues: Vec<DeployedQueue>,
    /// The bucket of deferred mail, and whether it exists; `None` if deferral is off.
    pub deferral_bucket: Option<(String, ReadResult<bool>)>,
    pub functions: Vec<FunctionSettings>,
    /// Functions of the account that may run at the same time, in this region.
    pub concurrency: ReadResult<i64>,
    /// Whether the ledger's table deletes expired marks.
    pub expiry: ReadResult<bool>,
    /// Seconds after which the scheduler finds express mail while the stack sleeps; `None` without an express queue.
    pub express_wake: Option<u64>,
    /// Whether marks are written: deduplication is on.
    pub guarded: bool,
    /// This machine's clock, and AWS's at the same moment.
    pub clocks: ReadResult<(Timestamp, Timestamp)>,
}

/// The findings of all checks, the worst first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    pub stack: String,
    pub findings: Vec<Finding>,
}

impl DoctorReport {
    pub fn of(facts: &DeploymentFacts) -> Self {
        let mut findings: Vec<Finding> = facts.express_wake.map(express).into_iter().collect();
        findings.extend(match &facts.channel {
            ChannelFacts::Email(mail) => [account::judge(mail), tenants::judge(mail)].concat(),
            ChannelFacts::Sms(texts) => texts::judge(texts, &facts.status.serving),
        });
        findings.extend(functions::judge(facts));
        findings.extend(queues::judge(facts));
        findings.extend(facts.deferral_bucket.iter().map(deferral_bucket));
        findings.extend(running(facts));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.state));
        Self { stack: facts.status.stack.clone(), findings }
    }

    /// Whether anything does not work, or will not.
    pub fn has_failed(&self) -> bool {
        self.findings.iter().any(|finding| finding.state == CheckState::Failed)
    }

    fn count(&self, state: CheckState) -> usize {
        self.findings.iter().filter(|finding| finding.state == state).count()
    }
}

/// A clock that differs by more than this would shift windows noticeably.
const CLOCK_OFF_MS: u64 = 1_000;

fn running(facts: &DeploymentFacts) -> Vec<Finding> {
    let mut findings = vec![expiry(facts), clock(facts)];
    let serving = &facts.status.serving;
    let said = facts.status.sending().text;
    findings.push(match serving.state {
        "serving" | "idle" => Finding::ok("windows", said),
        // This is normal during the first minute after a deployment.
        "never" => Finding::of(
            CheckState::Warning,
            "windows",
            said,
            "ask again in two minutes; if none was served then, enable the scheduler's EventBridge rule, and read the scheduler's and the poller's logs",
        ),
        _ => Finding::of(
            CheckState::Failed,
            "windows",
            said,
            "enable the scheduler's EventBridge rule, and read the scheduler's and the poller's logs",
        ),
    });
    for hold in &facts.status.holds {
        let of = hold.campaign.as_deref().unwrap_or("all sending");
        let check = format!("hold on {of}");
        let found = format!("{}: {}", hold.reason, hold.detail);
        findings.push(Finding::of(
            CheckState::Warning,
            check,
            found,
            format!("lifted by {}", hold.lifted_by),
        ));
    }
    if facts.status.holds.is_empty() {
        findings.push(Finding::ok("holds", "none"));
    }
    findings
}

fn deferral_bucket((bucket, exists): &(String, ReadResult<bool>)) -> Finding {
    let check = format!("deferral bucket {bucket}");
    match exists {
        Ok(true) => Finding::ok(check, "there"),
        Ok(false) => Finding::of(
            CheckState::Failed,
            check,
            "S3 has no such bucket",
            "deploy the template again, or turn deferral off: mail that the level defers stays on its queue",
        ),
        Err(why) => unread(check, why),
    }
}

/// A wake time that people who wait for a code bear, and its price a month beside a stack without mail (docs/cost.md).
const SOON_S: u64 = 5;
pub const SOON_COSTS: &str = "$4.68";

fn express(wake: u64) -> Finding {
    let check = "express: after a pause";
    let found = format!("the first mail waits up to {wake} s, unless who sends it wakes the stack");
    if wake <= SOON_S {
        return Finding::ok(check, found);
    }
    let remedy = format!("set IdleWakeSeconds to {SOON_S}, for {SOON_COSTS} a month more at most");
    Finding::of(CheckState::Warning, check, found, remedy)
}

fn expiry(facts: &DeploymentFacts) -> Finding {
    let check = "ledger: expiry";
    match &facts.expiry {
        Ok(true) => Finding::ok(check, "on"),
        Ok(false) => {
            // Without deduplication no marks are written, so nothing important expires.
            let state = if facts.guarded { CheckState::Failed } else { CheckState::Warning };
            let remedy = "turn the table's time to live on, for the attribute expires_at";
            Finding::of(state, check, "off: marks of deduplication are never deleted", remedy)
        }
        Err(why) => unread(check, why),
    }
}

fn clock(facts: &DeploymentFacts) -> Finding {
    let check = "clock";
    match &facts.clocks {
        Ok((here, there)) => {
            let off = here.as_millis().abs_diff(there.as_millis());
            // AWS reports whole seconds, so one second more is allowed.
            if off <= CLOCK_OFF_MS + 1_000 {
                Finding::ok(check, "this machine and AWS agree within 2 s")
            } else {
                Finding::of(
                    CheckState::Warning,
                    check,
                    format!(
                        "this machine is {:.1} s off AWS's time",
                        crate::status::as_f64(off) / 1e3
                    ),
                    "let this machine's clock be set by NTP: ages and ends of pauses are reported by it",
                )
            }
        }
        Err(why) => unread(check, why),
    }
}

/// A check that could not be made.
pub(crate) fn unread(check: impl Into<String>, why: &str) -> Finding {
    let remedy = "grant the caller the permission to read it, or check it by hand";
    Finding::of(CheckState::Unknown, check, format!("not checked: {why}"), remedy)
}

#[cfg(test)]
mod tests;
