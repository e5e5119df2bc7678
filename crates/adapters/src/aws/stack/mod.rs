//! A deployed stack, as the operator's tools reach it, and the stacks that run on this machine.
//!
//! A stack's `CloudFormation` outputs name its two functions, and the functions' environment variables
//! contain everything else. They are parsed by the functions' own code, so that a tool uses the settings
//! that are in force. The stacks of this machine are found by the file that each local run writes into its
//! folder.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use aws_config::Region;
use aws_config::profile::ProfileFileLoadError;
use aws_credential_types::Credentials;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tidegate_core::config::{Campaign, ConfigError, LedgerKind, PollerConfig, SchedulerConfig};
use tidegate_core::control::Control;
use tidegate_core::store::Location;
use tidegate_delivery::ports::{Ledger as _, PortError, QueueUrl, Standing};
use tokio::net::TcpStream;

use super::{ChannelAccount, Clients, DynamoLedger, SqsQueues, SystemClock, Waker, port_error};

/// The outputs that name the functions.
const SCHEDULER: &str = "SchedulerFunction";
const POLLER: &str = "PollerFunction";

/// A Lambda function of the stack, as Lambda's API describes it.
#[derive(Clone, Debug)]
pub struct DeployedFunction {
    pub name: String,
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

    /// Where the store is; none without one.
    pub fn store(&self) -> Option<Location> {
        self.poller.store.clone().or_else(|| self.scheduler.store.clone())
    }

    pub fn dead_letter(&self) -> QueueUrl {
        QueueUrl::new(self.poller.dead_letter_queue_url.as_str())
    }

    /// The name under which changes are recorded: the caller's ARN without the account, or the
    /// local user's name on a local AWS.
    pub async fn operator(&self) -> String {
        let users = || fs::read_to_string("/etc/passwd").unwrap_or_default();
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
    let answer = answer.map_err(|error| port_error("GetFunctionConfiguration", name, error))?;
    let environment = answer.environment().and_then(|environment| environment.variables().cloned());
    let mut variables = environment.unwrap_or_default();
    // Lambda sets this variable in the function, but does not list it.
    let memory = answer.memory_size().map(|megabytes| megabytes.to_string());
    variables.extend(memory.map(|memory| ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE".to_owned(), memory)));
    Ok(DeployedFunction {
        name: answer.function_name().unwrap_or(name).to_owned(),
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
    let uid = fs::metadata("/proc/self").ok()?.uid().to_string();
    let user = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let user = user.into_iter().find(|fields| fields.get(2) == Some(&uid.as_str()))?;
    user.first().map(|name| (*name).to_owned()).filter(|name| !name.is_empty())
}

/// The file in a run's folder.
const FILE: &str = "stack.json";
/// A local port either answers at once, or nothing listens on it.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// The address and credentials of a stack on this machine, as they are written to the run's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalEndpoint {
    pub stack: String,
    /// The address of the local AWS, such as `http://127.0.0.1:4566`.
    pub endpoint: String,
    pub region: String,
    /// Access key id and secret access key alike: a local AWS checks neither.
    pub key: String,
}

impl LocalEndpoint {
    pub async fn clients(&self) -> Clients {
        let keys = Credentials::new(&self.key, &self.key, None, None, "local");
        let loader = Clients::loader().endpoint_url(&self.endpoint).credentials_provider(keys);
        Clients::of(loader.region(Region::new(self.region.clone())).load().await)
    }

    /// Writes it into the folder of its run.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        fs::write(folder.join(FILE), text)
    }

    async fn answers(&self) -> bool {
        let address = self.endpoint.trim_start_matches("http://");
        let connected = tokio::time::timeout(ANSWERS_WITHIN, TcpStream::connect(address)).await;
        matches!(connected, Ok(Ok(_)))
    }
}

/// Where Tidegate's programs keep state for this user: `$XDG_STATE_HOME/tidegate`, or
/// `~/.local/state/tidegate` (XDG Base Directory Specification). None without a home.
fn state_folder() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".local/state"));
    let folder = state.filter(|path| path.is_absolute()).or_else(home)?;
    Some(folder.join("tidegate"))
}

/// A local run, whether its stack still runs or not.
#[derive(Clone, Debug)]
pub struct KnownRun {
    /// Such as `run-20261120-203607`.
    pub name: String,
    pub folder: PathBuf,
    pub began: SystemTime,
    pub endpoint: LocalEndpoint,
    /// Whether the local AWS answers.
    pub answers: bool,
}

/// A folder with the folders of local runs, or links to them.
#[derive(Clone, Debug)]
pub struct LocalRuns(PathBuf);

impl LocalRuns {
    /// The runs below `folder`, or the one that was told to write there.
    pub fn below(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// All runs of this user, wherever their folders are: links below the folder of states.
    pub fn of_user() -> Self {
        Self(state_folder().unwrap_or_else(|| ".local".into()).join("runs"))
    }

    /// The folder of all runs and links.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Adds a run by a link to `folder`, and returns its name: the folder's, with a number where another
    /// run has it. Removes links to folders that are gone.
    ///
    /// # Errors
    /// The system's.
    pub fn add(&self, folder: &Path) -> io::Result<String> {
        fs::create_dir_all(&self.0)?;
        for entry in fs::read_dir(&self.0)?.flatten() {
            if !entry.path().exists() {
                fs::remove_file(entry.path())?;
            }
        }
        let folder = folder.canonicalize()?;
        let name = folder.file_name().map_or_else(String::new, |name| name.display().to_string());
        let numbered = (2_u32..).map(|number| format!("{name}-{number}"));
        for name in std::iter::once(name.clone()).chain(numbered) {
            let link = self.0.join(&name);
            match symlink(&folder, &link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if link.canonicalize().is_ok_and(|known| known == folder) {
                        return Ok(name);
                    }
                }
                linked => return linked.map(|()| name),
            }
        }
        Ok(name)
    }

    /// The runs, the newest first.
    pub async fn list(&self) -> Vec<KnownRun> {
        let entries = fs::read_dir(&self.0);
        let entries = entries.map(|entries| entries.flatten().map(|entry| entry.path()));
        let mut folders: Vec<PathBuf> = entries.map(Iterator::collect).unwrap_or_default();
        folders.push(self.0.clone());
        let mut runs = Vec::new();
        for folder in folders {
            let file = folder.join(FILE);
            let endpoint = fs::read_to_string(&file).ok();
            let endpoint =
                endpoint.and_then(|text| serde_json::from_str::<LocalEndpoint>(&text).ok());
            let began = fs::metadata(&file).and_then(|meta| meta.modified());
            let (Some(endpoint), Ok(began)) = (endpoint, began) else { continue };
            let name =
                folder.file_name().map_or_else(String::new, |name| name.display().to_string());
            let answers = endpoint.answers().await;
            let folder = folder.canonicalize().unwrap_or(folder);
            runs.push(KnownRun { name, folder, began, endpoint, answers });
        }
        runs.sort_by(|a, b| (b.began, &b.name).cmp(&(a.began, &a.name)));
        runs
    }

    /// The run called `name`, or the newest that answers.
    ///
    /// # Errors
    /// [`StackError::NoLocal`], [`StackError::NoRun`] and [`StackError::RunEnded`].
    pub async fn select(&self, name: Option<&str>) -> Result<KnownRun, StackError> {
        let mut runs = self.list().await;
        let Some(name) = name else {
            let alive = runs.into_iter().find(|run| run.answers);
            return alive.ok_or_else(|| StackError::NoLocal { runs: self.0.clone() });
        };
        match runs.iter().position(|run| run.name == name) {
            Some(at) if runs[at].answers => Ok(runs.swap_remove(at)),
            Some(at) => Err(StackError::RunEnded {
                name: name.to_owned(),
                folder: runs.swap_remove(at).folder,
            }),
            None => {
                let alive = runs.into_iter().filter(|run| run.answers).map(|run| run.name);
                Err(StackError::NoRun { name: name.to_owned(), known: alive.collect() })
            }
        }
    }
}

/// The reasons why a stack cannot be found or used.
#[derive(Debug, Error)]
pub enum StackError {
    #[error("no region: name one with --region, AWS_REGION, or in the profile")]
    NoRegion,
    #[error(
        "the AWS configuration has no profile {profile}; it has {}",
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    )]
    NoProfile { profile: String, known: Vec<String> },
    #[error("the AWS configuration cannot be used")]
    AwsConfiguration(#[from] ProfileFileLoadError),
    #[error(
        "no stack runs on this machine: no run in {runs} answers; start one with `make run KEEP=1`, or name a stack with --stack"
    )]
    NoLocal { runs: PathBuf },
    #[error(
        "no local run is called {name}; there run: {}",
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    )]
    NoRun { name: String, known: Vec<String> },
    #[error("the local run {name} has ended; its report and logs are in {}", folder.display())]
    RunEnded { name: String, folder: PathBuf },
    #[error(
        "there is no stack {stack} in {region}: name it with --stack, its region with --region"
    )]
    NoStack {
        /// The name that was asked for.
        stack: String,
        region: String,
    },
    /// The stack was not made by Tidegate's templates.
    #[error(
        "the stack {stack} has no output {output}: it is none of Tidegate's, or not yet deployed"
    )]
    NoOutput { stack: String, output: &'static str },
    /// The function's environment variables are not valid for this version.
    #[error("the function {function} of the stack {stack} is configured with something it refuses")]
    Config {
        stack: String,
        function: String,
        /// Every variable that is missing or invalid.
        source: ConfigError,
    },
    /// The ledger is the poller's own memory.
    #[error(
        "the stack {0} keeps its ledger in the poller's memory (TIDEGATE_LEDGER=memory): nothing can be read or changed from outside"
    )]
    MemoryLedger(String),
    /// The service did not answer, or refused.
    #[error(transparent)]
    Service(#[from] PortError),
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

#[cfg(test)]
mod local_tests {
    use super::*;

    fn run(folder: &Path, endpoint: &str) {
        fs::create_dir_all(folder).unwrap();
        let run = LocalEndpoint {
            stack: "tidegate".to_owned(),
            endpoint: endpoint.to_owned(),
            region: "us-east-1".to_owned(),
            key: "test".to_owned(),
        };
        run.write(folder).unwrap();
    }

    #[tokio::test]
    async fn of_several_runs_the_newest_that_answers_is_taken_or_the_one_that_is_named() {
        let folder = std::env::temp_dir().join(format!("tidegate-runs-{}", std::process::id()));
        let runs = LocalRuns::below(folder.join("links"));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let alive = format!("http://{}", listener.local_addr().unwrap());
        let mut names = Vec::new();
        for (place, endpoint) in [
            ("a/run-1", alive.as_str()),
            ("b/run-2", &alive),
            ("c/run-2", &alive),
            ("a/run-3", "http://127.0.0.1:9"),
            ("a/gone", &alive),
        ] {
            run(&folder.join(place), endpoint);
            names.push(runs.add(&folder.join(place)).unwrap());
        }
        let again = runs.add(&folder.join("c/run-2")).unwrap();
        fs::remove_dir_all(folder.join("a/gone")).unwrap();
        let newest = runs.select(None).await;
        let named = runs.select(Some("run-1")).await;
        let ended = runs.select(Some("run-3")).await;
        let unknown = runs.select(Some("run-9")).await;
        let own = LocalRuns::below(folder.join("b/run-2")).select(None).await;
        drop(listener);
        let none = runs.select(None).await;
        runs.add(&folder.join("a/run-1")).unwrap();
        let left = fs::read_dir(folder.join("links")).unwrap().count();
        let real = folder.canonicalize().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(names, ["run-1", "run-2", "run-2-2", "run-3", "gone"]);
        assert_eq!((again.as_str(), left), ("run-2-2", 4), "a link to nothing is removed");
        assert_eq!(newest.unwrap().folder, real.join("c/run-2"));
        assert_eq!(named.unwrap().folder, real.join("a/run-1"));
        assert_eq!(own.unwrap().name, "run-2");
        assert!(matches!(ended, Err(StackError::RunEnded { .. })));
        assert!(matches!(none, Err(StackError::NoLocal { .. })));
        let said = unknown.unwrap_err().to_string();
        assert!(said.starts_with("no local run is called run-9; there run: run-2-2"), "{said}");
    }
}
