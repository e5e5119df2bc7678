//! Finds the stack that a command works on: by its name on AWS, or the newest run on this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use aws_config::Region;
use aws_sdk_cloudformation::error::ProvideErrorMetadata as _;
use clap::Args;
use tidegate_aws::Clients;
use tidegate_aws::stack::{LocalEndpoint, Stack, StackError};

/// Options that select the stack
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Stack")]
pub struct StackArgs {
    /// Name of the stack, as it was deployed
    #[arg(long, value_name = "NAME", env = "TIDEGATE_STACK", default_value = "tidegate")]
    pub stack: String,
    /// The stack that `make run` runs on this machine: the newest that answers
    #[arg(long, conflicts_with_all = ["region", "profile", "endpoint_url"])]
    pub local: bool,
    /// AWS region [default: the profile's, or `AWS_REGION`]
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// Profile of the AWS configuration [default: `AWS_PROFILE`]
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Where AWS answers, instead of Amazon's endpoints
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// Folder of the local runs
    #[arg(long, value_name = "DIR", default_value = ".local", hide = true)]
    pub local_runs: PathBuf,
}

impl StackArgs {
    /// Finds the stack.
    ///
    /// # Errors
    /// [`StackError`].
    pub async fn open(&self) -> Result<Stack, StackError> {
        let (name, clients, run) = if self.local {
            let (local, folder) = LocalEndpoint::newest(&self.local_runs).await?;
            (local.stack.clone(), Box::pin(local.clients()).await, Some(folder))
        } else {
            (self.stack.clone(), Box::pin(self.clients()).await, None)
        };
        let outputs = outputs(&name, &clients).await?;
        Box::pin(Stack::open(&name, &outputs, clients, run)).await
    }

    async fn clients(&self) -> Clients {
        let mut loader = Clients::loader();
        if let Some(region) = &self.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(profile) = &self.profile {
            loader = loader.profile_name(profile);
        }
        if let Some(url) = &self.endpoint_url {
            loader = loader.endpoint_url(url);
        }
        Clients::of(loader.load().await)
    }
}

async fn outputs(name: &str, clients: &Clients) -> Result<BTreeMap<String, String>, StackError> {
    let region = clients.config().region().ok_or(StackError::NoRegion)?.to_string();
    let client = aws_sdk_cloudformation::Client::new(clients.config());
    let answer = client.describe_stacks().stack_name(name).send().await.map_err(|error| {
        // CloudFormation answers this for an unknown name.
        if error.code() == Some("ValidationError") {
            StackError::NoStack { stack: name.to_owned(), region }
        } else {
            StackError::service("DescribeStacks", name, error)
        }
    })?;
    let stack = answer.stacks().first();
    let outputs =
        stack.map(aws_sdk_cloudformation::types::Stack::outputs).unwrap_or_default().iter();
    let pairs = outputs.filter_map(|output| Some((output.output_key()?, output.output_value()?)));
    Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}
