//! From a stack's outputs to its functions' settings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_core::config::{PollerConfig, SchedulerConfig};

use super::error::StackError;
use super::{DeployedFunction, Stack};
use crate::aws::{Clients, Waker};

const SCHEDULER: &str = "SchedulerFunction";
const POLLER: &str = "PollerFunction";

impl Stack {
    /// Reads the settings of the two functions that `outputs` name; `run` is the folder of a local run.
    ///
    /// # Errors
    /// [`StackError`].
    pub async fn open(
        name: &str,
        outputs: &BTreeMap<String, String>,
        clients: Clients,
        run: Option<PathBuf>,
    ) -> Result<Self, StackError> {
        let region = clients.config().region().ok_or(StackError::NoRegion)?.to_string();
        let output = |output: &'static str| {
            let missing = || StackError::NoOutput { stack: name.to_owned(), output };
            outputs.get(output).ok_or_else(missing)
        };
        let scheduler_function = function(output(SCHEDULER)?, &clients).await?;
        let poller_function = function(output(POLLER)?, &clients).await?;
        let config_error = |function: &DeployedFunction| {
            let (stack, function) = (name.to_owned(), function.name.clone());
            move |source| StackError::Config { stack, function, source }
        };
        let variable =
            |function: &DeployedFunction, name: &str| function.variables.get(name).cloned();
        // Functions of a local stack have the addresses of its services in their environment.
        let endpoint =
            |service: &str| variable(&poller_function, service).filter(|_| run.is_some());
        let clients = clients
            .with_sqs_at(endpoint("AWS_ENDPOINT_URL_SQS"))
            .with_ses_at(endpoint("AWS_ENDPOINT_URL_SESV2"));
        let scheduler = SchedulerConfig::from_variables(|name| variable(&scheduler_function, name))
            .map_err(config_error(&scheduler_function))?;
        let poller = PollerConfig::from_variables(|name| variable(&poller_function, name))
            .map_err(config_error(&poller_function))?;
        let table =
            Self::table(&poller).ok_or_else(|| StackError::MemoryLedger(name.to_owned()))?;
        let sleeps = scheduler.idle_wake > 1;
        let invoke = || clients.invoke(scheduler_function.name.as_str());
        let waker = sleeps.then(|| Arc::new(Waker::new(invoke())));
        Ok(Self {
            name: name.to_owned(),
            region,
            scheduler,
            poller,
            scheduler_function,
            poller_function,
            table,
            run,
            clients,
            waker,
        })
    }
}

async fn function(name: &str, clients: &Clients) -> Result<DeployedFunction, StackError> {
    let client = aws_sdk_lambda::Client::new(clients.config());
    let answer = client.get_function_configuration().function_name(name).send().await;
    let answer =
        answer.map_err(|error| StackError::service("GetFunctionConfiguration", name, error))?;
    let environment = answer.environment().and_then(|environment| environment.variables().cloned());
    let mut variables = environment.unwrap_or_default();
    // Lambda sets this variable in the function, but does not list it.
    let memory = answer.memory_size().map(|megabytes| megabytes.to_string());
    variables.extend(memory.map(|memory| ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE".to_owned(), memory)));
    Ok(DeployedFunction {
        name: answer.function_name().unwrap_or(name).to_owned(),
        arn: answer.function_arn().unwrap_or_default().to_owned(),
        memory_mb: answer.memory_size().unwrap_or_default(),
        timeout_s: answer.timeout().unwrap_or_default(),
        variables,
    })
}
