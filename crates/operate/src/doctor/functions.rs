use super::{Facts, Finding, Read, State, unread};
use crate::format::rate;

/// CPU seconds a mail: what `make bench` allows at most.
pub const CPU_SECONDS_PER_MAIL: f64 = 0.000_5;
/// Memory that buys one vCPU, in MB.
const MB_PER_VCPU: f64 = 1_769.0;
/// Part of its CPU that a poller may use.
const CPU_SHARE: f64 = 0.5;
/// Below, a TLS handshake eats a slot's lateness.
const LEAST_MB: u32 = 256;
/// Functions at the same time that Tidegate needs: two pollers overlap, seven at the worst, and two
/// schedulers.
const LEAST_CONCURRENCY: i64 = 20;

/// A function, as Lambda tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// `scheduler` or `poller`.
    pub kind: &'static str,
    /// Its memory in MB.
    pub memory_mb: u32,
    /// Its time-out in seconds.
    pub timeout_s: u32,
    /// The time-out it was made for.
    pub expected_timeout_s: u32,
    /// How often Lambda retries an asynchronous invocation; none where that was never set (then twice).
    pub retries: Read<Option<i32>>,
    /// Environments kept for it alone; none where none are.
    pub reserved: Read<Option<i64>>,
}

/// Memory that a poller needs at so many recipients a second, in MB: 1769 MB × q × CPU seconds a mail
/// / 0.5, at least 256.
///
/// ```
/// use tidegate_operate::doctor::memory_needed_mb;
/// assert_eq!(memory_needed_mb(14.0), 256);
/// assert_eq!(memory_needed_mb(200.0), 354);
/// ```
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most 10,000 recipients a second: 17,690"
)]
pub fn memory_needed_mb(per_second: f64) -> u32 {
    let needed = MB_PER_VCPU * per_second * CPU_SECONDS_PER_MAIL / CPU_SHARE;
    (needed.ceil() as u32).max(LEAST_MB)
}

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = facts.functions.iter().flat_map(of_function).collect();
    if let (Some(poller), Some(quota)) = (
        facts.functions.iter().find(|function| function.kind == "poller"),
        facts.status.quota.in_force,
    ) {
        findings.push(memory(poller, quota));
    }
    findings.push(concurrency(&facts.concurrency));
    findings
}

fn of_function(function: &Function) -> Vec<Finding> {
    let kind = function.kind;
    let check = format!("{kind}: time-out");
    let (has, expected) = (function.timeout_s, function.expected_timeout_s);
    let timeout = if has == expected {
        Finding::ok(check, format!("{has} s"))
    } else {
        let remedy = "deploy the template again: sends are timed to end within it";
        Finding::of(State::Failed, check, format!("{has} s, expected {expected} s"), remedy)
    };
    let check = format!("{kind}: retries of events");
    let retries = match &function.retries {
        Ok(Some(0)) => Finding::ok(check, "none"),
        Ok(found) => Finding::of(
            State::Failed,
            check,
            format!("{}, expected 0", found.unwrap_or(2)),
            "set MaximumRetryAttempts to 0: a tick that is repeated later is worth nothing",
        ),
        Err(why) => unread(check, why),
    };
    let check = format!("{kind}: reserved concurrency");
    let least = if kind == "poller" { 7 } else { 2 };
    let reserved = match &function.reserved {
        Ok(None) => Finding::ok(check, "none: the account's is shared"),
        Ok(Some(found)) if *found >= least => Finding::ok(check, found.to_string()),
        Ok(Some(found)) => Finding::of(
            State::Failed,
            check,
            format!("{found}, expected {least} or more"),
            "raise ReservedConcurrency, or take it away (0)",
        ),
        Err(why) => unread(check, why),
    };
    vec![timeout, retries, reserved]
}

fn memory(poller: &Function, quota: f64) -> Finding {
    let needed = memory_needed_mb(quota);
    let check = "poller: memory against rate";
    let found = format!("{} MB for {}; needed are {needed} MB", poller.memory_mb, rate(quota));
    if poller.memory_mb >= needed {
        return Finding::ok(check, found);
    }
    let remedy =
        format!("set PollerMemory to {needed} or more: memory buys CPU, and late sends skip slots");
    Finding::of(State::Warning, check, found, remedy)
}

fn concurrency(found: &Read<i64>) -> Finding {
    let check = "account: concurrent functions";
    match found {
        Ok(found) if *found >= LEAST_CONCURRENCY => Finding::ok(check, found.to_string()),
        Ok(found) => Finding::of(
            State::Failed,
            check,
            format!("{found}, needed are {LEAST_CONCURRENCY}"),
            "ask for more in Service Quotas, Lambda, Concurrent executions",
        ),
        Err(why) => unread(check, why),
    }
}
