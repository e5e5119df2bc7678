//! Finds the stack that a command works on: by its name on AWS, or the newest run on this machine.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use aws_config::{Region, profile};
use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
use aws_sdk_cloudformation::error::ProvideErrorMetadata as _;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{
    HttpConnectorSettings, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_types::os_shim_internal::{Env, Fs};
use clap::Args;
use tidegate_adapters::aws::stack::{LocalRuns, Stack, StackError};
use tidegate_adapters::aws::{Clients, port_error};

use crate::shell::OutputArgs;

/// A connection through a proxy takes several round trips.
const CONNECTED: Duration = Duration::from_secs(5);

/// The options of every command that works on a stack.
#[derive(Clone, Debug, Args)]
pub struct OnStack {
    #[command(flatten)]
    pub stack: StackArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Options that select the stack
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Stack")]
pub struct StackArgs {
    /// Name of the stack, as it was deployed
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "TIDEGATE_STACK",
        default_value = "tidegate"
    )]
    pub stack: String,
    /// The stack that `make run` runs on this machine: the newest that answers, or the one of this run
    /// (`tidegate runs` lists them)
    #[arg(long, global = true, value_name = "RUN", num_args = 0..=1, require_equals = true, default_missing_value = "",
        conflicts_with_all = ["region", "profile", "endpoint_url"])]
    pub local: Option<String>,
    /// AWS region [default: the profile's, or `AWS_REGION`]
    #[arg(long, global = true, value_name = "REGION")]
    pub region: Option<String>,
    /// Profile of the AWS configuration [default: `AWS_PROFILE`]
    #[arg(long, global = true, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Where AWS answers, instead of Amazon's endpoints
    #[arg(long, global = true, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// Folder of the local runs, instead of all of this user's
    #[arg(long, global = true, value_name = "DIR", hide = true)]
    pub local_runs: Option<PathBuf>,
}

impl StackArgs {
    /// Finds the stack.
    ///
    /// # Errors
    /// [`StackError`].
    pub async fn open(&self) -> Result<Stack, StackError> {
        let (name, clients, run) = if let Some(run) = &self.local {
            let runs = self.local_runs.as_ref();
            let runs = runs.map_or_else(LocalRuns::of_user, LocalRuns::below);
            let run = runs.select(Some(run.as_str()).filter(|name| !name.is_empty())).await?;
            let clients = Box::pin(run.endpoint.clients()).await;
            (run.endpoint.stack, clients, Some(run.folder))
        } else {
            (self.stack.clone(), Box::pin(self.clients()).await?, None)
        };
        let outputs = outputs(&name, &clients).await?;
        Box::pin(Stack::open(&name, &outputs, clients, run)).await
    }

    async fn clients(&self) -> Result<Clients, StackError> {
        self.check_profile().await?;
        let mut loader = Clients::loader().http_client(http_client());
        if let Some(region) = &self.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(profile) = &self.profile {
            loader = loader.profile_name(profile);
        }
        if let Some(url) = &self.endpoint_url {
            loader = loader.endpoint_url(url);
        }
        Ok(Clients::of(loader.load().await))
    }

    /// Reads the AWS configuration before the SDK does: the SDK goes on without a profile that is missing or
    /// cannot be read, and then says something else, such as that it finds no region.
    async fn check_profile(&self) -> Result<(), StackError> {
        let mut files = EnvConfigFiles::builder();
        for (kind, variable) in [
            (EnvConfigFileKind::Config, "AWS_CONFIG_FILE"),
            (EnvConfigFileKind::Credentials, "AWS_SHARED_CREDENTIALS_FILE"),
        ] {
            files = match (std::env::var_os(variable), kind) {
                (Some(path), kind) => files.with_file(kind, path),
                (None, EnvConfigFileKind::Config) => files.include_default_config_file(true),
                (None, _) => files.include_default_credentials_file(true),
            };
        }
        let asked = self.profile.clone().map(Cow::Owned);
        let read = profile::load(&Fs::real(), &Env::real(), &files.build(), asked).await?;
        let selected = read.selected_profile();
        if selected == "default" || read.get_profile(selected).is_some() {
            return Ok(());
        }
        let mut known: Vec<String> = read.profiles().map(str::to_owned).collect();
        known.sort_unstable();
        Err(StackError::NoProfile { profile: selected.to_owned(), known })
    }
}

/// The client of the command, which honours `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, also in small letters:
/// operators may sit behind a proxy, pollers do not. All services share its connections.
fn http_client() -> SharedHttpClient {
    let settings = HttpConnectorSettings::builder().connect_timeout(CONNECTED).build();
    let connector = Connector::builder()
        .proxy_config(ProxyConfig::from_env())
        .connector_settings(settings)
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build();
    let connector = SharedHttpConnector::new(connector);
    http_client_fn(move |_, _| connector.clone())
}

async fn outputs(name: &str, clients: &Clients) -> Result<BTreeMap<String, String>, StackError> {
    let region = clients.config().region().ok_or(StackError::NoRegion)?.to_string();
    let client = aws_sdk_cloudformation::Client::new(clients.config());
    let answer = client.describe_stacks().stack_name(name).send().await.map_err(|error| {
        // CloudFormation answers this for an unknown name.
        if error.code() == Some("ValidationError") {
            StackError::NoStack { stack: name.to_owned(), region }
        } else {
            port_error("DescribeStacks", name, error).into()
        }
    })?;
    let stack = answer.stacks().first();
    let outputs =
        stack.map(aws_sdk_cloudformation::types::Stack::outputs).unwrap_or_default().iter();
    let pairs = outputs.filter_map(|output| Some((output.output_key()?, output.output_value()?)));
    Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}
