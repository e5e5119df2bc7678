//! The local AWS: ministack with the real template deployed into it, and the SES sandbox.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_credential_types::Credentials;
use http::Method;
use serde::Deserialize;
use tidegate_aws::{DynamoLedger, SqsQueues, Wire};
use tidegate_delivery::ports::QueueUrl;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::crew::{Crew, Words};
use super::error::LocalError;
use super::http::Http;
use super::needs::{self, Files};
use super::sandbox::Sandbox;
use super::setup::Setup;

/// Where everything stands in the local AWS.
pub(super) const REGION: &str = "us-east-1";
/// Credentials that are worth nothing anywhere else.
pub(super) const KEY: &str = "test";

const READY_SECONDS: u64 = 30;
const LOOK: Duration = Duration::from_millis(50);
/// How often ministack looks at its rules, and how often the scheduler's is due.
const RULES_TICK: Duration = Duration::from_secs(10);
const RULE_PERIOD: Duration = Duration::from_mins(1);
const MINISTACK: &str = "ministack";
const SANDBOX: &str = "ses-sandbox";

/// Starts ministack, and ends it with all it started when we are gone: then its input ends.
const LAUNCHER: &str = "
import os, signal, sys, threading
def last():
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=last, daemon=True).start()
from ministack.app import main
sys.argv = ['ministack']
main()
";

/// A local AWS that runs Tidegate. [`LocalAws::stop`] ends it; dropping it kills all its programs
/// and removes its temporary files.
#[derive(Debug)]
pub struct LocalAws {
    // The programs end before their files go.
    pub(super) crew: Crew,
    _scratch: Scratch,
    folder: PathBuf,
    ministack: Http,
    sandbox: Sandbox,
    sdk: Sdk,
    stack: Stack,
    started: Instant,
    deployed: Instant,
}

/// What was deployed.
#[derive(Clone, Debug, Deserialize)]
pub struct Stack {
    /// The stack's outputs, by name.
    pub outputs: BTreeMap<String, String>,
    /// The deployment packages' bytes, by the functions' logical ids.
    pub package_bytes: BTreeMap<String, u64>,
}

impl Stack {
    /// An output.
    ///
    /// # Errors
    /// [`LocalError::NoOutput`] where there is none.
    pub fn output(&self, name: &'static str) -> Result<&str, LocalError> {
        self.outputs.get(name).map(String::as_str).ok_or(LocalError::NoOutput(name))
    }

    /// The URL of a queue.
    ///
    /// # Errors
    /// [`LocalError::NoOutput`] where there is no such queue.
    pub fn queue(&self, name: &'static str) -> Result<QueueUrl, LocalError> {
        self.output(name).map(QueueUrl::new)
    }
}

#[derive(Debug)]
struct Sdk {
    queues: SqsQueues,
    dynamodb: aws_sdk_dynamodb::Client,
}

impl LocalAws {
    /// Looks for what is needed, starts both programs, and deploys the template.
    ///
    /// # Errors
    /// [`LocalError`], and nothing is left running.
    pub async fn start(setup: &Setup, folder: &Path) -> Result<Self, LocalError> {
        let files = Files::find(&setup.root, &setup.python, &setup.bin_dir).await?;
        let port = needs::port(setup.port, "--port")?;
        let sandbox_port = match setup.sandbox_port {
            Some(_) => needs::port(setup.sandbox_port, "--sandbox-port")?,
            None => 0,
        };
        let scratch = Scratch::create(folder)?;
        let mut crew = Crew::default();
        let started = Instant::now();
        let log = folder.join("ministack.log");
        crew.start(MINISTACK, ministack(&files.python, port, &scratch.0), Words::Log(&log))?;
        let url = start_sandbox(&mut crew, setup, &files.sandbox, sandbox_port, folder).await?;
        let ministack = Http::new(format!("http://127.0.0.1:{port}"));
        wait_until_ready(&mut crew, &ministack, &log).await?;
        let stack = deploy(&crew, setup, &files, ministack.base(), &url).await?;
        Ok(Self {
            crew,
            _scratch: scratch,
            folder: folder.to_owned(),
            sandbox: Sandbox::at(&url),
            sdk: Sdk::connect(ministack.base()),
            ministack,
            stack,
            started,
            deployed: Instant::now(),
        })
    }

    /// Where ministack answers, such as `http://127.0.0.1:4566`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.ministack.base()
    }

    /// The folder with the logs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The sandbox: mailbox, figures, settings.
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// What was deployed.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The queues.
    #[must_use]
    pub fn queues(&self) -> &SqsQueues {
        &self.sdk.queues
    }

    /// The ledger.
    ///
    /// # Errors
    /// [`LocalError::NoOutput`] where the stack names no table.
    pub fn ledger(&self) -> Result<DynamoLedger, LocalError> {
        Ok(DynamoLedger::new(&self.sdk.dynamodb, self.stack.output("LedgerTable")?))
    }

    /// The process group of all programs: what the functions' processes are found by.
    #[must_use]
    pub fn group(&self) -> Option<i32> {
        self.crew.group()
    }

    /// An error where ministack or the sandbox has ended.
    ///
    /// # Errors
    /// [`LocalError::Ended`], with the end of its log.
    pub fn check(&mut self) -> Result<(), LocalError> {
        self.crew.check()
    }

    /// Invokes a function as an event, as `EventBridge` does; `function` is the output that names it.
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

    /// When `EventBridge` will fire the scheduler first. ministack looks at its rules every 10 s, and
    /// a rule of one minute is due a minute after it was made.
    #[must_use]
    pub fn first_trigger(&self) -> Instant {
        let due = (self.deployed + RULE_PERIOD).duration_since(self.started).as_secs();
        let tick = RULES_TICK.as_secs();
        self.started + Duration::from_secs(due.div_ceil(tick) * tick)
    }

    /// Ends all programs, at the latest after 3 s, and removes the temporary files.
    pub async fn stop(&mut self) {
        self.crew.stop().await;
    }
}

impl Sdk {
    fn connect(endpoint: &str) -> Self {
        let wire = Wire::new();
        let keys = || Credentials::new(KEY, KEY, None, None, "local");
        let sqs = aws_sdk_sqs::Config::builder()
            .behavior_version_latest()
            .region(aws_sdk_sqs::config::Region::new(REGION))
            .credentials_provider(keys())
            .endpoint_url(endpoint)
            .http_client(wire.clone());
        let dynamodb = aws_sdk_dynamodb::Config::builder()
            .behavior_version_latest()
            .region(aws_sdk_dynamodb::config::Region::new(REGION))
            .credentials_provider(keys())
            .endpoint_url(endpoint)
            .http_client(wire);
        Self {
            queues: SqsQueues::new(&aws_sdk_sqs::Client::from_conf(sqs.build())),
            dynamodb: aws_sdk_dynamodb::Client::from_conf(dynamodb.build()),
        }
    }
}

/// A program with an environment of its own: the functions inherit ministack's.
fn isolated(program: impl AsRef<OsStr>, scratch: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", scratch).env("TMPDIR", scratch);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn ministack(python: &Path, port: u16, scratch: &Path) -> Command {
    let mut command = isolated(python, scratch);
    command.args(["-u", "-c", LAUNCHER]).current_dir(scratch);
    for (name, value) in [
        ("BIND_HOST", "127.0.0.1"),
        ("MINISTACK_HOST", "127.0.0.1"),
        ("SFTP_ENABLED", "0"),
        ("IOT_MTLS_ENABLED", "0"),
    ] {
        command.env(name, value);
    }
    command.env("GATEWAY_PORT", port.to_string());
    command
}

async fn start_sandbox(
    crew: &mut Crew,
    setup: &Setup,
    binary: &Path,
    port: u16,
    folder: &Path,
) -> Result<String, LocalError> {
    #[derive(Deserialize)]
    struct Told {
        url: String,
    }
    let log = folder.join("ses-sandbox.log");
    let mut command = isolated(binary, folder);
    command.env("RUST_LOG", "info").arg("--json");
    command.args(["--listen", &format!("127.0.0.1:{port}")]).args(setup.sandbox_options());
    let output = crew.start(SANDBOX, command, Words::Piped(&log))?.stdout.take();
    let mut line = String::new();
    if let Some(output) = output {
        let mut output = BufReader::new(output);
        let _ = timeout(Duration::from_secs(READY_SECONDS), output.read_line(&mut line)).await;
    }
    if let Ok(told) = serde_json::from_str::<Told>(&line) {
        return Ok(told.url);
    }
    if line.is_empty() {
        // It closed its output: it has ended, or is about to.
        let _ = timeout(Duration::from_secs(1), crew.wait_for_last()).await;
    }
    crew.check()?;
    Err(LocalError::NotReady { program: SANDBOX, seconds: READY_SECONDS, log })
}

async fn wait_until_ready(crew: &mut Crew, http: &Http, log: &Path) -> Result<(), LocalError> {
    let deadline = Instant::now() + Duration::from_secs(READY_SECONDS);
    loop {
        crew.check()?;
        if http.call(Method::GET, "/_ministack/ready", &[], String::new()).await.is_ok() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let log = log.to_owned();
            return Err(LocalError::NotReady { program: MINISTACK, seconds: READY_SECONDS, log });
        }
        sleep(LOOK).await;
    }
}

async fn deploy(
    crew: &Crew,
    setup: &Setup,
    files: &Files,
    endpoint: &str,
    sandbox: &str,
) -> Result<Stack, LocalError> {
    let mut command = isolated(&files.python, &std::env::temp_dir());
    command.arg("-B").arg(&files.script).args(["deploy", "--region", REGION]);
    command.args(["--endpoint", endpoint]).arg("--template").arg(&files.template);
    command.arg("--scheduler").arg(&files.scheduler).arg("--poller").arg(&files.poller);
    for (name, value) in setup.parameters(sandbox) {
        command.arg("--parameter").arg(format!("{name}={value}"));
    }
    let output = crew.run("the deployment", command).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(LocalError::Deploy(said.trim().to_owned()));
    }
    let stack = serde_json::from_slice(&output.stdout);
    stack.map_err(|error| LocalError::Deploy(format!("its answer cannot be read: {error}")))
}

/// A folder for temporary files, removed with all that is in it.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn create(folder: &Path) -> Result<Self, LocalError> {
        let path = std::path::absolute(folder).map(|folder| folder.join("tmp"));
        let path = path.unwrap_or_else(|_| folder.join("tmp"));
        let failed = |source| LocalError::Write { path: path.clone(), source };
        fs::create_dir_all(&path).map_err(failed)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A program that was just killed may still have been writing.
        for _ in 0..3 {
            if fs::remove_dir_all(&self.0).is_ok() {
                return;
            }
        }
    }
}
