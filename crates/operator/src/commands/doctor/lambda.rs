//! The functions' settings, and the account's concurrency.

use crate::doctor::{FunctionSettings, ReadResult};
use aws_sdk_lambda::Client;
use aws_sdk_lambda::error::ProvideErrorMetadata as _;
use tidegate_adapters::aws::stack::{DeployedFunction, Stack};
use tidegate_core::config::POLLER_TIMEOUT;

use super::read;

/// The qualifier of the unpublished version. The templates configure this version, and the
/// scheduler invokes it.
const LATEST: &str = "$LATEST";
/// The scheduler's time-out in the templates: a minute of ticks, the windows after, and room.
const SCHEDULER_TIMEOUT_S: u32 = 90;

pub(super) async fn functions(stack: &Stack) -> Vec<FunctionSettings> {
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
        Err(error) => read("GetFunctionEventInvokeConfig", function, Err(error)),
    }
}

async fn reserved(client: &Client, function: &str) -> ReadResult<Option<i64>> {
    let answer = client.get_function_concurrency().function_name(function).send().await;
    let answer = read("GetFunctionConcurrency", function, answer)?;
    Ok(answer.reserved_concurrent_executions().map(i64::from))
}

pub(super) async fn concurrency(stack: &Stack) -> ReadResult<i64> {
    let client = Client::new(stack.clients().config());
    let answer = read("GetAccountSettings", "Lambda", client.get_account_settings().send().await)?;
    let limit = answer.account_limit().map(|limit| i64::from(limit.concurrent_executions()));
    limit.ok_or_else(|| "the answer has no AccountLimit".to_owned())
}
