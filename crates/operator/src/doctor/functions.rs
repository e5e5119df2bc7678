//! The functions: their settings as Lambda has them, and as they would be deployed.

use std::collections::BTreeMap;

use aws_sdk_lambda::Client;
use aws_sdk_lambda::error::ProvideErrorMetadata as _;
use serde::Deserialize;
use tidegate_adapters::aws::stack::{DeployedFunction, Stack};
use tidegate_core::config::{
    ConfigError, InvalidVariable, POLLER_TIMEOUT, PollerConfig, SchedulerConfig,
};
use tidegate_core::format::rate;
use tidegate_core::memory::Memory;

use super::finding::{Finding, ReadResult, answered};

/// The qualifier of the unpublished version. The templates configure this version, and the
/// scheduler invokes it.
const LATEST: &str = "$LATEST";
/// The scheduler's time-out in the templates: a minute of ticks, the windows after, and room.
const SCHEDULER_TIMEOUT_S: u32 = 90;
/// The concurrency that Tidegate needs: normally two pollers overlap, seven at worst, and two
/// schedulers; the rest is reserve.
const LEAST_CONCURRENCY: i64 = 20;
/// The mail size in KB that every poller should have memory for.
const SMALL_KB: u32 = 2;
/// Bytes that Lambda allows of an environment, measured as JSON.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
const LARGEST: usize = 4_096;

/// A function's settings, as Lambda reports them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FunctionSettings {
    pub(super) kind: &'static str,
    pub(super) memory_mb: u32,
    pub(super) timeout_s: u32,
    /// The time-out it was made for.
    pub(super) expected_timeout_s: u32,
    /// `MaximumRetryAttempts` of asynchronous invocations; `None` if it was never set, which means
    /// 2.
    pub(super) retries: ReadResult<Option<i32>>,
    /// The reserved concurrency; `None` without one, which shares the account's.
    pub(super) reserved: ReadResult<Option<i64>>,
}

pub(super) async fn read(stack: &Stack) -> Vec<FunctionSettings> {
    let client = Client::new(stack.clients().config());
    let poller = u32::try_from(POLLER_TIMEOUT.as_secs()).unwrap_or(u32::MAX);
    vec![
        function(&client, "scheduler", &stack.scheduler_function, SCHEDULER_TIMEOUT_S).await,
        function(&client, "poller", &stack.poller_function, poller).await,
    ]
}

async fn function(
    client: &Client,
    kind: &'static str,
    found: &DeployedFunction,
    expected_timeout_s: u32,
) -> FunctionSettings {
    FunctionSettings {
        kind,
        memory_mb: u32::try_from(found.memory_mb).unwrap_or(0),
        timeout_s: u32::try_from(found.timeout_s).unwrap_or(0),
        expected_timeout_s,
        retries: retries(client, &found.name).await,
        reserved: reserved(client, &found.name).await,
    }
}

async fn retries(client: &Client, function: &str) -> ReadResult<Option<i32>> {
    let call = client.get_function_event_invoke_config().function_name(function);
    match call.qualifier(LATEST).send().await {
        Ok(config) => Ok(config.maximum_retry_attempts()),
        Err(error) if error.code() == Some("ResourceNotFoundException") => Ok(None),
        Err(error) => answered("GetFunctionEventInvokeConfig", function, Err(error)),
    }
}

async fn reserved(client: &Client, function: &str) -> ReadResult<Option<i64>> {
    let answer = client.get_function_concurrency().function_name(function).send().await;
    let answer = answered("GetFunctionConcurrency", function, answer)?;
    Ok(answer.reserved_concurrent_executions().map(i64::from))
}

pub(super) async fn concurrency(stack: &Stack) -> ReadResult<i64> {
    let answer = Client::new(stack.clients().config()).get_account_settings().send().await;
    let answer = answered("GetAccountSettings", "Lambda", answer)?;
    let limit = answer.account_limit().map(|limit| i64::from(limit.concurrent_executions()));
    limit.ok_or_else(|| "the answer has no AccountLimit".to_owned())
}

pub(super) fn judge(
    functions: &[FunctionSettings],
    quota: Option<f64>,
    concurrency: &ReadResult<i64>,
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = functions.iter().flat_map(of_function).collect();
    let poller = functions.iter().find(|function| function.kind == "poller");
    let memory = poller.zip(quota).map(|(poller, quota)| memory(poller, quota));
    findings.extend(memory);
    let check = "account: concurrent functions";
    findings.push(Finding::on(check, concurrency, |check, &found| {
        let remedy = "ask for more in Service Quotas, Lambda, Concurrent executions";
        Finding::failed(check, format!("{found}, needed are {LEAST_CONCURRENCY}"), remedy)
            .unless(found >= LEAST_CONCURRENCY, found.to_string())
    }));
    findings
}

fn of_function(function: &FunctionSettings) -> [Finding; 3] {
    let kind = function.kind;
    let check = format!("{kind}: time-out");
    let (has, expected) = (function.timeout_s, function.expected_timeout_s);
    let remedy = "deploy the template again: sends are timed to end within it";
    let timeout = Finding::failed(check, format!("{has} s, expected {expected} s"), remedy);
    let timeout = timeout.unless(has == expected, format!("{has} s"));
    let check = format!("{kind}: retries of events");
    let retries = Finding::on(check, &function.retries, |check, found| match found.unwrap_or(2) {
        0 => Finding::ok(check, "none"),
        found => Finding::failed(
            check,
            format!("{found}, expected 0"),
            "set MaximumRetryAttempts to 0: a tick that is repeated later is worth nothing",
        ),
    });
    let check = format!("{kind}: reserved concurrency");
    let least = if kind == "poller" { 7 } else { 2 };
    let reserved = Finding::on(check, &function.reserved, |check, found| match *found {
        None => Finding::ok(check, "none: the account's is shared"),
        Some(found) if found >= least => Finding::ok(check, found.to_string()),
        Some(found) => {
            let remedy = "raise ReservedConcurrency, or take it away (0)";
            Finding::failed(check, format!("{found}, expected {least} or more"), remedy)
        }
    });
    [timeout, retries, reserved]
}

/// Checks the poller's memory against the rate. The size of the mails is not known here, so the
/// finding states the largest size that the memory is sufficient for.
fn memory(poller: &FunctionSettings, quota: f64) -> Finding {
    let needed = Memory::needed(quota, SMALL_KB).0;
    let check = "poller: memory against rate";
    let has = format!("{} MB for {}", poller.memory_mb, rate(quota));
    if poller.memory_mb >= needed {
        let largest = Memory(poller.memory_mb).largest_kilobytes(quota);
        return Finding::ok(check, format!("{has}, of mails up to {largest} KB"));
    }
    let remedy =
        format!("set PollerMemory to {needed} or more: memory buys CPU, and late sends skip slots");
    Finding::warning(check, format!("{has}; mails of {SMALL_KB} KB need {needed} MB"), remedy)
}

/// The functions' environments, each variable with its value, before they are deployed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Environments {
    pub(super) scheduler: BTreeMap<String, String>,
    pub(super) poller: BTreeMap<String, String>,
}

impl Environments {
    /// Checks with the functions' own parsers whether both would start.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let scheduler = SchedulerConfig::from_variables(|name| self.scheduler.get(name).cloned());
        let poller = PollerConfig::from_variables(|name| self.poller.get(name).cloned());
        let mut findings = settings("poller", poller.err());
        findings.extend(settings("scheduler", scheduler.err()));
        findings.extend(too_large("poller", &self.poller));
        findings.extend(too_large("scheduler", &self.scheduler));
        findings
    }
}

fn settings(function: &str, error: Option<ConfigError>) -> Vec<Finding> {
    let Some(ConfigError(invalid)) = error else {
        return vec![Finding::ok(format!("{function}: settings"), "all allowed")];
    };
    let finding = |InvalidVariable { name, value, allowed }| {
        Finding::failed(format!("{function}: {name}"), value, format!("allowed is {allowed}"))
    };
    invalid.into_iter().map(finding).collect()
}

/// Lambda would refuse it in the middle of a deployment.
fn too_large(function: &str, environment: &BTreeMap<String, String>) -> Option<Finding> {
    let size = serde_json::to_string(environment).map_or(0, |json| json.len());
    let (name, value) = environment.iter().max_by_key(|(_, value)| value.len())?;
    let found = format!("{size} bytes, and AWS allows {LARGEST}");
    let remedy = format!(
        "{name} is the longest, with {} characters: *@example.org is all senders of a domain, and `tags` finds any number of campaigns",
        value.chars().count()
    );
    (size > LARGEST).then(|| Finding::failed(format!("{function}: environment"), found, remedy))
}

#[cfg(test)]
mod tests {
    use super::super::finding::CheckState;
    use super::*;

    #[test]
    fn what_a_functions_own_parser_refuses_is_found_before_it_is_deployed() {
        let mut given = Environments::default();
        for variables in [&mut given.scheduler, &mut given.poller] {
            variables.insert("TIDEGATE_LEDGER".into(), "dynamodb:ledger".into());
            variables.insert("TIDEGATE_CAMPAIGNS".into(), "ledger".into());
        }
        given.scheduler.insert("TIDEGATE_POLLER_FUNCTION".into(), "poller".into());
        let dead = ("TIDEGATE_DEAD_LETTER_QUEUE_URL".into(), "https://sqs/1/dead".into());
        given.poller.extend([dead]);
        assert!(given.findings().iter().all(|finding| finding.state == CheckState::Ok));

        let measured = serde_json::to_string(&given.poller).unwrap().len();
        let senders = |length: usize| {
            let mut given = given.clone();
            given.poller.insert("TIDEGATE_ALLOWED_SENDERS".into(), "a.b,".repeat(length / 4));
            given.findings()
        };
        let found = senders(4_096 - measured);
        let large = found.iter().find(|finding| finding.check == "poller: environment").unwrap();
        assert!(large.remedy.starts_with("TIDEGATE_ALLOWED_SENDERS is the longest"));
        assert!(senders(3_000).iter().all(|finding| finding.check != "poller: environment"));

        given.poller.insert("TIDEGATE_MAX_IN_FLIGHT".into(), "950".into());
        given.scheduler.insert("TIDEGATE_QUOTA_PER_SECOND".into(), "0".into());
        let findings = given.findings();
        let found: Vec<_> =
            findings.iter().map(|f| (f.check.as_str(), f.remedy.as_str())).collect();
        assert_eq!(
            found,
            [
                ("poller: TIDEGATE_MAX_IN_FLIGHT", "allowed is a whole number from 1 to 800"),
                ("scheduler: TIDEGATE_QUOTA_PER_SECOND", "allowed is a number from 0.001 to 10000"),
            ]
        );
    }
}
