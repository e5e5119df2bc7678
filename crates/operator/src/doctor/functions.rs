use tidegate_core::memory::Memory;

use super::{CheckState, DeploymentFacts, Finding, ReadResult, unread};
use tidegate_core::format::rate;

/// The concurrency that Tidegate needs: normally two pollers overlap, seven at worst, and two
/// schedulers; the rest is reserve.
const LEAST_CONCURRENCY: i64 = 20;

/// A function's settings, as Lambda reports them.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSettings {
    pub kind: &'static str,
    pub memory_mb: u32,
    pub timeout_s: u32,
    /// The time-out it was made for.
    pub expected_timeout_s: u32,
    /// `MaximumRetryAttempts` of asynchronous invocations; `None` if it was never set, which means
    /// 2.
    pub retries: ReadResult<Option<i32>>,
    /// The reserved concurrency; `None` without one, which shares the account's.
    pub reserved: ReadResult<Option<i64>>,
}

/// The mail size in KB that every poller should have memory for.
const SMALL_KB: u32 = 2;

pub(super) fn judge(facts: &DeploymentFacts) -> Vec<Finding> {
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

fn of_function(function: &FunctionSettings) -> Vec<Finding> {
    let kind = function.kind;
    let check = format!("{kind}: time-out");
    let (has, expected) = (function.timeout_s, function.expected_timeout_s);
    let timeout = if has == expected {
        Finding::ok(check, format!("{has} s"))
    } else {
        let remedy = "deploy the template again: sends are timed to end within it";
        Finding::of(CheckState::Failed, check, format!("{has} s, expected {expected} s"), remedy)
    };
    let check = format!("{kind}: retries of events");
    let retries = match &function.retries {
        Ok(Some(0)) => Finding::ok(check, "none"),
        Ok(found) => Finding::of(
            CheckState::Failed,
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
            CheckState::Failed,
            check,
            format!("{found}, expected {least} or more"),
            "raise ReservedConcurrency, or take it away (0)",
        ),
        Err(why) => unread(check, why),
    };
    vec![timeout, retries, reserved]
}

/// Checks the poller's memory against the rate. The size of the mails is not known here, so the
/// finding states the largest size that the memory is sufficient for.
fn memory(poller: &FunctionSettings, quota: f64) -> Finding {
    let needed = Memory::needed(quota, SMALL_KB).as_megabytes();
    let check = "poller: memory against rate";
    let has = format!("{} MB for {}", poller.memory_mb, rate(quota));
    if poller.memory_mb >= needed {
        let largest = Memory::megabytes(poller.memory_mb).largest_kilobytes(quota);
        return Finding::ok(check, format!("{has}, of mails up to {largest} KB"));
    }
    let remedy =
        format!("set PollerMemory to {needed} or more: memory buys CPU, and late sends skip slots");
    let found = format!("{has}; mails of {SMALL_KB} KB need {needed} MB");
    Finding::of(CheckState::Warning, check, found, remedy)
}

fn concurrency(found: &ReadResult<i64>) -> Finding {
    let check = "account: concurrent functions";
    match found {
        Ok(found) if *found >= LEAST_CONCURRENCY => Finding::ok(check, found.to_string()),
        Ok(found) => Finding::of(
            CheckState::Failed,
            check,
            format!("{found}, needed are {LEAST_CONCURRENCY}"),
            "ask for more in Service Quotas, Lambda, Concurrent executions",
        ),
        Err(why) => unread(check, why),
    }
}
