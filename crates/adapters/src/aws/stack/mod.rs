//! A deployed stack, as the operator's tools reach it.
//!
//! A stack's `CloudFormation` outputs name its two functions, and the functions' environment variables
//! contain everything else. They are parsed by the functions' own code, so that a tool uses the settings
//! that are in force.

mod error;
mod local;

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_core::config::{Campaign, LedgerKind, PollerConfig, SchedulerConfig};
use tidegate_core::control::Control;
use tidegate_core::deferral::Location;
use tidegate_delivery::ports::{Ledger as _, PortError, QueueUrl, Standing};

pub use error::StackError;
pub use local::{KnownRun, LocalEndpoint, LocalRuns};

use crate::aws::{ChannelAccount, Clients, DynamoLedger, SqsQueues, SystemClock, Waker};

/// The outputs that name the functions.
const SCHEDULER: &str = "SchedulerFunction";
const POLLER: &str = "PollerFunction";

/// A Lambda function of the stack, as Lambda's API describes it.
#[derive(Clone, Debug)]
pub struct DeployedFunction {
    pub name: String,
    pub arn: String,
    pub memory_mb: i32,
    pub timeout_s: i32,
    /// Environment variables.
    pub variables: HashMap<String, String>,
}

/// A deployed stack, and how it is reached.
#[derive(Clone, Debug)]
pub struct Stack {
    pub name: String,
    /// The region that the SDK is configured with.
    pub region: String,
    pub scheduler: SchedulerConfig,
    pub poller: PollerConfig,
    pub scheduler_function: DeployedFunction,
    pub poller_function: DeployedFunction,
    /// Name of the DynamoDB table that holds the ledger.
    pub table: String,
    /// The folder of the run; only for a local AWS.
    pub run: Option<PathBuf>,
    clients: Clients,
    /// Wakes the stack; `None` for one that does not sleep.
    waker: Option<Arc<Waker>>,
}

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
        // A ledger in the poller's memory can be read by no other process.
        let LedgerKind::DynamoDb(table) = poller.ledger.clone() else {
            return Err(StackError::MemoryLedger(name.to_owned()));
        };
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

    /// The name for people: on this machine with that of the run.
    pub fn label(&self) -> String {
        let run = self.run.as_ref().and_then(|folder| folder.file_name());
        run.map_or_else(|| self.name.clone(), |run| format!("{} ({})", self.name, run.display()))
    }

    pub const fn is_local(&self) -> bool {
        self.run.is_some()
    }

    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// The queues. Whoever sends to one of them wakes the stack.
    pub fn queues(&self) -> SqsQueues {
        self.clients.patient_queues().waking(self.waker.clone())
    }

    /// Has waiting mail sent at once, although the stack sleeps.
    pub async fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake().await;
        }
    }

    /// The ledger, its marks and its history.
    pub fn ledger(&self) -> DynamoLedger {
        self.clients.ledger(&self.table)
    }

    pub fn account(&self) -> ChannelAccount {
        let SchedulerConfig { channel, cap, origins, .. } = &self.scheduler;
        self.clients.account(*channel, cap, origins)
    }

    pub fn clock(&self) -> SystemClock {
        SystemClock::new()
    }

    /// The campaigns: the configured ones, or the ledger's list where that is in force.
    pub fn campaigns(&self, control: &Control) -> Vec<Campaign> {
        self.poller.campaigns.in_force(control)
    }

    /// Reads the ledger, and lists the campaigns that are in force.
    ///
    /// # Errors
    /// [`PortError`].
    pub async fn standing(&self) -> Result<(Standing, Vec<Campaign>), PortError> {
        let standing = self.ledger().read().await?;
        let campaigns = self.campaigns(&standing.control);
        Ok((standing, campaigns))
    }

    /// The merge queue; none in direct mode.
    pub fn merge(&self) -> Option<QueueUrl> {
        self.poller.merge_queue_url.as_deref().map(QueueUrl::new)
    }

    /// The queues on which mails of all campaigns wait: the merge queue and the limit queues.
    pub fn shared_queues(&self) -> Vec<QueueUrl> {
        let domains = self.poller.limits.queues.iter().map(|url| QueueUrl::new(url.as_str()));
        self.merge().into_iter().chain(domains).collect()
    }

    /// The express queue, if the stack has one.
    pub fn express(&self) -> Option<QueueUrl> {
        self.poller.express_queue_url.as_deref().map(QueueUrl::new)
    }

    /// Where deferred mail is; none if deferral is off.
    pub fn deferral(&self) -> Option<Location> {
        self.poller.deferral.clone().or_else(|| self.scheduler.deferral.clone())
    }

    pub fn dead_letter(&self) -> QueueUrl {
        QueueUrl::new(self.poller.dead_letter_queue_url.as_str())
    }

    /// The name under which changes are recorded: the caller's ARN without the account, or the
    /// local user's name on a local AWS.
    pub async fn operator(&self) -> String {
        let users = || std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let here = || local_user(|name| std::env::var(name).ok(), &users());
        if self.is_local() {
            return here();
        }
        let sts = aws_sdk_sts::Client::new(self.clients.config());
        let caller = sts.get_caller_identity().send().await.ok();
        let arn = caller.and_then(|caller| caller.arn().map(str::to_owned));
        let name = arn.and_then(|arn| arn.splitn(6, ':').nth(5).map(str::to_owned));
        name.filter(|name| !name.is_empty()).unwrap_or_else(here)
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

/// The user's name on this machine, by the variables that tell it, or by its number; `unknown` if nothing does.
fn local_user(variable: impl Fn(&str) -> Option<String>, users: &str) -> String {
    let names = ["USER", "LOGNAME", "USERNAME"].into_iter().filter_map(variable);
    let mut names = names.filter(|name| !name.trim().is_empty());
    names.next().or_else(|| user_of_process(users)).unwrap_or_else(|| "unknown".to_owned())
}

/// The name of the user that this process runs as, from the lines of `/etc/passwd`: containers often set no variable.
fn user_of_process(users: &str) -> Option<String> {
    let uid = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let user = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let user = user.into_iter().find(|fields| fields.get(2) == Some(&uid.as_str()))?;
    user.first().map(|name| (*name).to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    #[test]
    fn who_changes_something_is_never_an_empty_name() {
        let of = |given: &[(&str, &str)]| {
            let find = |name: &str| given.iter().find(|(known, _)| *known == name);
            super::local_user(|name| find(name).map(|(_, value)| (*value).to_owned()), "x:x:none")
        };
        assert_eq!(of(&[("USER", "ada"), ("LOGNAME", "grace")]), "ada");
        assert_eq!(of(&[("USER", ""), ("LOGNAME", "grace")]), "grace");
        assert_eq!(of(&[("USER", " ")]), "unknown");
        assert_eq!(of(&[]), "unknown");
    }
}
