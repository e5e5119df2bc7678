//! A stack's outputs, and its functions' settings.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use aws_config::Region;
use aws_sdk_cloudformation::error::{ProvideErrorMetadata, SdkError};
use tidegate_aws::Clients;
use tidegate_core::config::{PollerConfig, SchedulerConfig};

use super::args::StackArgs;
use super::error::StackError;
use super::{DeployedFunction, Stack};

const SCHEDULER: &str = "SchedulerFunction";
const POLLER: &str = "PollerFunction";

pub(super) async fn clients(args: &StackArgs) -> Clients {
    let mut loader = Clients::loader();
    if let Some(region) = &args.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(profile) = &args.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(url) = &args.endpoint_url {
        loader = loader.endpoint_url(url);
    }
    Clients::of(loader.load().await)
}

pub(super) async fn stack(
    name: &str,
    clients: Clients,
    run: Option<PathBuf>,
) -> Result<Stack, StackError> {
    let region = clients.config().region().ok_or(StackError::NoRegion)?.to_string();
    let outputs = outputs(name, &region, &clients).await?;
    let output = |output: &'static str| {
        let missing = || StackError::NoOutput { stack: name.to_owned(), output };
        outputs.get(output).ok_or_else(missing)
    };
    let (scheduler_function, scheduler) = function(output(SCHEDULER)?, &clients).await?;
    let (poller_function, poller) = function(output(POLLER)?, &clients).await?;
    let config_error = |function: &DeployedFunction| {
        let (stack, function) = (name.to_owned(), function.name.clone());
        move |source| StackError::Config { stack, function, source }
    };
    let variable = |variables: &HashMap<String, String>, name: &str| variables.get(name).cloned();
    // Functions of a local stack have the addresses of its services in their environment.
    let endpoint = |service: &str| variable(&poller, service).filter(|_| run.is_some());
    let clients = clients
        .with_sqs_at(endpoint("AWS_ENDPOINT_URL_SQS"))
        .with_ses_at(endpoint("AWS_ENDPOINT_URL_SESV2"));
    let scheduler = SchedulerConfig::from_variables(|name| variable(&scheduler, name))
        .map_err(config_error(&scheduler_function))?;
    let poller = PollerConfig::from_variables(|name| variable(&poller, name))
        .map_err(config_error(&poller_function))?;
    let table = Stack::table(&poller).ok_or_else(|| StackError::MemoryLedger(name.to_owned()))?;
    Ok(Stack {
        name: name.to_owned(),
        region,
        scheduler,
        poller,
        scheduler_function,
        poller_function,
        table,
        run,
        clients,
    })
}

async fn outputs(
    name: &str,
    region: &str,
    clients: &Clients,
) -> Result<BTreeMap<String, String>, StackError> {
    let client = aws_sdk_cloudformation::Client::new(clients.config());
    let answer = client.describe_stacks().stack_name(name).send().await.map_err(|error| {
        // CloudFormation answers this for an unknown name.
        if error.code() == Some("ValidationError") {
            StackError::NoStack { stack: name.to_owned(), region: region.to_owned() }
        } else {
            failed("DescribeStacks", name, error)
        }
    })?;
    let stack = answer.stacks().first();
    let outputs =
        stack.map(aws_sdk_cloudformation::types::Stack::outputs).unwrap_or_default().iter();
    let pairs = outputs.filter_map(|output| Some((output.output_key()?, output.output_value()?)));
    Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

async fn function(
    name: &str,
    clients: &Clients,
) -> Result<(DeployedFunction, HashMap<String, String>), StackError> {
    let client = aws_sdk_lambda::Client::new(clients.config());
    let answer = client.get_function_configuration().function_name(name).send().await;
    let answer = answer.map_err(|error| failed("GetFunctionConfiguration", name, error))?;
    let function = DeployedFunction {
        name: answer.function_name().unwrap_or(name).to_owned(),
        arn: answer.function_arn().unwrap_or_default().to_owned(),
        role: answer.role().unwrap_or_default().to_owned(),
        memory_mb: answer.memory_size().unwrap_or_default(),
        timeout_s: answer.timeout().unwrap_or_default(),
    };
    let variables = answer.environment().and_then(|environment| environment.variables().cloned());
    let mut variables = variables.unwrap_or_default();
    // Lambda sets this variable in the function, but does not list it.
    let memory = answer.memory_size().map(|megabytes| megabytes.to_string());
    variables.extend(memory.map(|memory| ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE".to_owned(), memory)));
    Ok((function, variables))
}

/// The error of a failed call, with the service's error code if it has one.
pub(crate) fn failed<E, R>(
    operation: &'static str,
    resource: &str,
    error: SdkError<E, R>,
) -> StackError
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    StackError::Service {
        operation,
        resource: resource.to_owned(),
        code: error.code().map(str::to_owned),
        source: Box::new(error),
    }
}
