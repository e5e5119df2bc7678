//! The programs of a local AWS: how each is started, and when it is ready.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Method;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::deployed::{DeployedStack, REGION};
use super::error::LocalError;
use super::http::Http;
use super::prerequisites::{Files, StackFile};
use super::process_group::{ProcessGroup, ProgramOutput};
use super::setup::Setup;

const READY_SECONDS: u64 = 30;
const LOOK: Duration = Duration::from_millis(50);
pub(super) const MINISTACK: &str = "ministack";

/// Starts ministack. Its standard input is a pipe from this process: when that ends, however it ends, the
/// thread kills ministack's whole process group.
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
/// A command with an almost empty environment, because the functions inherit ministack's.
fn isolated(program: impl AsRef<OsStr>, scratch: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", scratch).env("TMPDIR", scratch);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

pub(super) fn ministack(python: &Path, port: u16, scratch: &Path) -> Command {
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

/// Starts one of our own servers, and returns the URL that it prints as JSON. Port 0 takes a free one.
async fn start_server(
    process_group: &mut ProcessGroup,
    name: &'static str,
    mut command: Command,
    port: u16,
    folder: &Path,
) -> Result<String, LocalError> {
    #[derive(Deserialize)]
    struct Told {
        url: String,
    }
    let log = folder.join(format!("{name}.log"));
    command.args(["--json", "--listen", &format!("127.0.0.1:{port}")]).env("RUST_LOG", "info");
    let output = process_group.start(name, command, ProgramOutput::Piped(&log))?.stdout.take();
    let mut line = String::new();
    if let Some(output) = output {
        let mut output = BufReader::new(output);
        let _ = timeout(Duration::from_secs(READY_SECONDS), output.read_line(&mut line)).await;
    }
    if let Ok(told) = serde_json::from_str::<Told>(&line) {
        return Ok(told.url);
    }
    if line.is_empty() {
        // The program closed its output, so it is ending: wait for its exit status.
        let _ = timeout(Duration::from_secs(1), process_group.wait_for_last()).await;
    }
    process_group.check()?;
    Err(LocalError::NotReady { program: name, seconds: READY_SECONDS, log })
}

pub(super) async fn start_ses(
    process_group: &mut ProcessGroup,
    setup: &Setup,
    binary: &Path,
    port: u16,
    folder: &Path,
) -> Result<String, LocalError> {
    let mut command = isolated(binary, folder);
    command.args(setup.sandbox_options());
    start_server(process_group, "ses-sandbox", command, port, folder).await
}

/// Starts the SQS sandbox with `--create`: queues are created at their first use, under the names
/// that the stack gives them.
pub(super) async fn start_sqs(
    process_group: &mut ProcessGroup,
    binary: &Path,
    folder: &Path,
) -> Result<String, LocalError> {
    let mut command = isolated(binary, folder);
    command.arg("--create");
    start_server(process_group, "sqs-sandbox", command, 0, folder).await
}

pub(super) async fn wait_until_ready(
    process_group: &mut ProcessGroup,
    http: &Http,
    log: &Path,
) -> Result<(), LocalError> {
    let deadline = Instant::now() + Duration::from_secs(READY_SECONDS);
    loop {
        process_group.check()?;
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

pub(super) async fn deploy(
    process_group: &ProcessGroup,
    files: &Files,
    endpoint: &str,
    parameters: &[(String, String)],
) -> Result<DeployedStack, LocalError> {
    let mut command = isolated(&files.python, &std::env::temp_dir());
    command.arg("-B").arg(&files.script).args(["deploy", "--region", REGION]);
    command.args(["--endpoint", endpoint]);
    match &files.stack {
        StackFile::Sam(template) => command.arg("--template").arg(template),
        StackFile::Cdk(app) => command.arg("--cdk").arg(app),
    };
    command.arg("--scheduler").arg(&files.scheduler).arg("--poller").arg(&files.poller);
    for (name, value) in parameters {
        command.arg("--parameter").arg(format!("{name}={value}"));
    }
    let output = process_group.run("the deployment", command).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(LocalError::Deploy(said.trim().to_owned()));
    }
    let stack = serde_json::from_slice(&output.stdout);
    stack.map_err(|error| LocalError::Deploy(format!("its answer cannot be read: {error}")))
}

/// A folder for temporary files, removed with all that is in it.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn create(folder: &Path) -> Result<Self, LocalError> {
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
