//! The local AWS: ministack with the real template deployed into it, and the SES sandbox.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Method;
use tidegate_adapters::aws::stack::{LocalEndpoint, LocalRuns, Stack};
use tidegate_adapters::aws::{Clients, DynamoLedger, SqsQueues};
use tokio::time::Instant;

use super::error::LocalError;
use super::http::Http;
use super::mailbox::SesSandboxClient;
use super::prerequisites::{self, Files};
use super::programs::{
    DeployedStack, MINISTACK, ProcessGroup, ProgramOutput, REGION, Scratch, deploy, ministack,
    start_ses, start_sqs, wait_until_ready,
};
use super::setup::{Setup, Sqs};

/// Credentials that are worth nothing anywhere else.
pub(super) const KEY: &str = "test";

/// ministack looks at its rules this often; and the scheduler's rule has this period.
const RULES_TICK: Duration = Duration::from_secs(10);
const RULE_PERIOD: Duration = Duration::from_mins(1);

/// A local AWS that runs Tidegate. [`LocalAws::stop`] ends it; dropping it kills all its programs
/// and removes its temporary files.
#[derive(Debug)]
pub struct LocalAws {
    // The programs end before their files go.
    pub(super) process_group: ProcessGroup,
    _scratch: Scratch,
    files: Files,
    parameters: Vec<(String, String)>,
    /// The name by which `tidegate --local=RUN` finds it.
    run: Option<String>,
    folder: PathBuf,
    ministack: Http,
    sandbox: SesSandboxClient,
    sdk: Sdk,
    stack: DeployedStack,
    started: Instant,
    deployed: Instant,
}

#[derive(Debug)]
struct Sdk {
    sqs_endpoint: String,
    queues: SqsQueues,
    clients: Clients,
}

impl LocalAws {
    /// Looks for what is needed, starts the programs, and deploys the template. Logs and temporary files
    /// go into `folder`.
    ///
    /// # Errors
    /// [`LocalError`], and nothing is left running.
    pub async fn start(setup: &Setup, folder: &Path) -> Result<Self, LocalError> {
        let files = Files::find(setup).await?;
        let port = prerequisites::port(setup.port, "--port")?;
        let sandbox_port = match setup.sandbox_port {
            Some(_) => prerequisites::port(setup.sandbox_port, "--sandbox-port")?,
            None => 0,
        };
        let scratch = Scratch::create(folder)?;
        let mut process_group = ProcessGroup::default();
        let started = Instant::now();
        let log = folder.join("ministack.log");
        process_group.start(
            MINISTACK,
            ministack(&files.python, port, scratch.path()),
            ProgramOutput::Log(&log),
        )?;
        let url =
            start_ses(&mut process_group, setup, &files.sandbox, sandbox_port, folder).await?;
        let mut parameters = setup.parameters(&url);
        let ministack = Http::new(format!("http://127.0.0.1:{port}"));
        let mut sqs_url = ministack.base().to_owned();
        if setup.settings.sqs == Sqs::Sandbox {
            sqs_url = start_sqs(&mut process_group, &files.sqs_sandbox()?, folder).await?;
            parameters.push(("SqsEndpointUrl".to_owned(), sqs_url.clone()));
        }
        wait_until_ready(&mut process_group, &ministack, &log).await?;
        let stack = deploy(&process_group, &files, ministack.base(), &parameters).await?;
        let endpoint = LocalEndpoint {
            stack: stack.name.clone(),
            endpoint: ministack.base().to_owned(),
            region: REGION.to_owned(),
            key: KEY.to_owned(),
        };
        endpoint
            .write(folder)
            .map_err(|source| LocalError::Write { path: folder.to_owned(), source })?;
        // A run that cannot be listed works all the same.
        let run = LocalRuns::of_user().add(folder).ok();
        let clients = endpoint.clients().await.with_sqs_at(Some(sqs_url.clone()));
        Ok(Self {
            process_group,
            _scratch: scratch,
            files,
            parameters,
            folder: folder.to_owned(),
            run,
            sandbox: SesSandboxClient::at(&url),
            sdk: Sdk { sqs_endpoint: sqs_url, queues: clients.queues(), clients },
            ministack,
            stack,
            started,
            deployed: Instant::now(),
        })
    }

    /// Deploys once more into the running stack, with some parameters changed: an upgrade.
    ///
    /// # Errors
    /// [`LocalError::Deploy`], and the stack is what it was before.
    pub async fn update(&mut self, changed: &[(&str, &str)]) -> Result<(), LocalError> {
        for (name, value) in changed {
            self.parameters.retain(|(other, _)| other != name);
            self.parameters.push(((*name).to_owned(), (*value).to_owned()));
        }
        let endpoint = self.ministack.base();
        self.stack = deploy(&self.process_group, &self.files, endpoint, &self.parameters).await?;
        Ok(())
    }

    /// The stack, as the operator's tools see it.
    pub(super) async fn operated(&self) -> Result<Stack, LocalError> {
        let (stack, clients) = (&self.stack, self.sdk.clients.clone());
        let run = Some(self.folder.clone());
        Ok(Stack::open(&stack.name, &stack.outputs, clients, run).await?)
    }

    /// The address at which ministack answers, such as `http://127.0.0.1:4566`.
    pub fn endpoint(&self) -> &str {
        self.ministack.base()
    }

    /// The address of the queues: ministack's, or the SQS sandbox's.
    pub fn sqs_endpoint(&self) -> &str {
        &self.sdk.sqs_endpoint
    }

    /// The option by which `tidegate` finds this run.
    pub(super) fn option(&self) -> String {
        self.run.as_ref().map_or_else(|| "--local".to_owned(), |run| format!("--local={run}"))
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn sandbox(&self) -> &SesSandboxClient {
        &self.sandbox
    }

    pub fn stack(&self) -> &DeployedStack {
        &self.stack
    }

    pub fn queues(&self) -> &SqsQueues {
        &self.sdk.queues
    }

    /// The ledger.
    ///
    /// # Errors
    /// [`LocalError::NoOutput`] where the stack names no table.
    pub fn ledger(&self) -> Result<DynamoLedger, LocalError> {
        Ok(self.sdk.clients.ledger(self.stack.output("LedgerTable")?))
    }

    /// The process group of all programs: what the functions' processes are found by.
    pub fn group(&self) -> Option<i32> {
        self.process_group.group()
    }

    /// An error where ministack or the sandbox has ended.
    ///
    /// # Errors
    /// [`LocalError::Ended`], with the end of its log.
    pub fn check(&mut self) -> Result<(), LocalError> {
        self.process_group.check()
    }

    /// Invokes a function as an event, as EventBridge does; `function` is the output that names it.
    ///
    /// # Errors
    /// [`LocalError`] where it was not accepted.
    pub async fn invoke(
        &self,
        function: &'static str,
        payload: &serde_json::Value,
    ) -> Result<(), LocalError> {
        let path = format!("/2015-03-31/functions/{}/invocations", self.stack.output(function)?);
        let headers = [("x-amz-invocation-type", "Event"), ("content-type", "application/json")];
        self.ministack.call(Method::POST, &path, &headers, payload.to_string()).await.map(drop)
    }

    /// The time at which EventBridge first fires the scheduler. ministack looks at its rules every
    /// 10 s, and a rule of one minute is due one minute after it was made.
    pub fn first_trigger(&self) -> Instant {
        let due = (self.deployed + RULE_PERIOD).duration_since(self.started).as_secs();
        let tick = RULES_TICK.as_secs();
        self.started + Duration::from_secs(due.div_ceil(tick) * tick)
    }

    /// Ends all programs, at the latest after 3 s, and removes the temporary files.
    pub async fn stop(&mut self) {
        self.process_group.stop().await;
    }
}
