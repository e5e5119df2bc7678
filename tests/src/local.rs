//! A local AWS (ministack) as a process of the test's own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tempfile::TempDir;
use thiserror::Error;
use tidegate_adapters::aws::Wire;
use tidegate_fakes::unused_port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// The environment variable with the path of the `ministack` executable.
pub const MINISTACK: &str = "TIDEGATE_MINISTACK";
/// The path to which `make tools` installs it.
const INSTALLED: &str = ".tools/local/bin/ministack";
const REGION: &str = "us-east-1";
const READY_WITHIN: Duration = Duration::from_secs(30);
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// The reasons why the local AWS does not start.
#[derive(Debug, Error)]
pub enum LocalError {
    #[error(
        "ministack is not at {path}: run `make tools`, or set {MINISTACK} to the path of a \
         ministack executable"
    )]
    Missing { path: PathBuf },
    #[error("{path} cannot be started")]
    Start { path: PathBuf, source: io::Error },
    /// It ended, or did not answer in time.
    #[error("ministack did not become ready at {endpoint}; its log ends with:\n{log}")]
    NotReady { endpoint: String, log: String },
    /// The system refused a file, a directory or a port.
    #[error("a local AWS needs a temporary directory and a free port")]
    System(#[from] io::Error),
}

/// A local AWS on a free port of loopback, with a directory of its own for all it writes.
///
/// Dropping it ends it and the functions it runs, and removes the directory.
#[derive(Debug)]
pub struct Ministack {
    executable: PathBuf,
    directory: TempDir,
    address: SocketAddr,
    process: Group,
}

impl Ministack {
    /// Starts one and waits until it is ready.
    ///
    /// # Errors
    /// [`LocalError`]; a missing executable is an error, never a reason to skip a test.
    pub async fn start() -> Result<Self, LocalError> {
        let executable = executable()?;
        let directory = TempDir::with_prefix("tidegate-local-")?;
        let address = (Ipv4Addr::LOCALHOST, unused_port()?).into();
        let process = launch(&executable, directory.path(), address).await?;
        Ok(Self { executable, directory, address, process })
    }

    /// Ends it, with its functions, and whatever it held in memory: an outage of AWS.
    pub fn stop(&mut self) {
        self.process.end();
    }

    /// Starts it again on the same port, with nothing in it.
    ///
    /// # Errors
    /// [`LocalError`].
    pub async fn start_again(&mut self) -> Result<(), LocalError> {
        self.process.end();
        self.process = launch(&self.executable, self.directory.path(), self.address).await?;
        Ok(())
    }

    pub fn endpoint(&self) -> String {
        endpoint(self.address)
    }

    /// The directory it writes to, its log (`ministack.log`) included.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub async fn sdk_config(&self) -> SdkConfig {
        sdk_config(&self.endpoint()).await
    }
}

/// The SDK's configuration for a local endpoint, with credentials that are worth nothing elsewhere.
pub async fn sdk_config(endpoint: &str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .endpoint_url(endpoint)
        .region(Region::from_static(REGION))
        .credentials_provider(Credentials::new("test", "test", None, None, "local"))
        .http_client(Wire::new())
        .load()
        .await
}

fn executable() -> Result<PathBuf, LocalError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    found(std::env::var_os(MINISTACK).map_or_else(|| root.join(INSTALLED), PathBuf::from))
}

fn found(path: PathBuf) -> Result<PathBuf, LocalError> {
    if path.is_file() { Ok(path) } else { Err(LocalError::Missing { path }) }
}

fn endpoint(address: SocketAddr) -> String {
    format!("http://{address}")
}

async fn launch(
    executable: &Path,
    directory: &Path,
    address: SocketAddr,
) -> Result<Group, LocalError> {
    let log = directory.join("ministack.log");
    let output = std::fs::File::create(&log)?;
    let child = Command::new(executable)
        .env("BIND_HOST", "127.0.0.1")
        .env("MINISTACK_HOST", "127.0.0.1")
        .env("GATEWAY_PORT", address.port().to_string())
        .env("SFTP_ENABLED", "0")
        .env("IOT_MTLS_ENABLED", "0")
        .env("STATE_DIR", directory.join("state"))
        .env("S3_DATA_DIR", directory.join("s3"))
        .env("TMPDIR", directory)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .spawn()
        .map_err(|source| LocalError::Start { path: executable.to_owned(), source })?;
    let mut group = Group(child);
    let deadline = Instant::now() + READY_WITHIN;
    while Instant::now() < deadline && group.runs() {
        if is_ready(address).await {
            return Ok(group);
        }
        sleep(Duration::from_millis(50)).await;
    }
    let log = std::fs::read_to_string(&log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let end = lines[lines.len().saturating_sub(20)..].join("\n");
    Err(LocalError::NotReady { endpoint: endpoint(address), log: end })
}

async fn is_ready(address: SocketAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET /_ministack/ready HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = timeout(Duration::from_secs(2), ask).await;
    matches!(answer, Ok(Ok(answer)) if String::from_utf8_lossy(&answer).contains(" 200 "))
}

/// A process and all it started, in a process group of their own.
#[derive(Debug)]
struct Group(Child);

impl Group {
    fn runs(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// Asks all to end, then makes them.
    #[expect(clippy::disallowed_methods, reason = "it waits for processes, also while dropped")]
    fn end(&mut self) {
        let Ok(id) = i32::try_from(self.0.id()) else { return };
        let Some(group) = Pid::from_raw(id) else { return };
        // An error says that nothing of the group is left.
        let _ = kill_process_group(group, Signal::TERM);
        let step = Duration::from_millis(20);
        let mut waited = Duration::ZERO;
        while waited < ENDS_WITHIN {
            let _ = self.0.try_wait();
            if test_kill_process_group(group).is_err() {
                return;
            }
            std::thread::sleep(step);
            waited += step;
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.0.wait();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_executable_says_where_it_was_looked_for_and_what_to_do() {
        let error = found(PathBuf::from("/no/such/ministack")).unwrap_err().to_string();
        assert!(error.contains("/no/such/ministack") && error.contains("make tools"), "{error}");
    }

    #[tokio::test]
    async fn a_program_that_ends_at_once_is_told_with_its_log() {
        let directory = TempDir::new().unwrap();
        let program = directory.path().join("program");
        // Written by another process: a file that this process has open, and with it a child that another
        // test forks meanwhile, cannot be executed.
        let write =
            "printf '#!/bin/sh\\necho no such option\\nexit 3\\n' > program && chmod 700 program";
        let written = Command::new("sh").args(["-c", write]).current_dir(directory.path()).status();
        assert!(written.unwrap().success());
        let address = ([127, 0, 0, 1], 9).into();
        let error = launch(&program, directory.path(), address).await.unwrap_err().to_string();
        assert!(error.contains("no such option"), "{error}");
    }

    #[tokio::test]
    async fn a_local_aws_stops_and_starts_on_its_port_and_leaves_nothing_behind() {
        let mut local = Ministack::start().await.unwrap_or_else(|error| panic!("{error}"));
        let (address, directory) = (local.address, local.directory().to_owned());
        assert!(is_ready(address).await);
        local.stop();
        assert!(!is_ready(address).await);
        local.start_again().await.unwrap_or_else(|error| panic!("{error}"));
        assert!(is_ready(address).await);
        drop(local);
        assert!(!is_ready(address).await && !directory.exists());
    }
}
