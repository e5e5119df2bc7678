//! A server of the Redis protocol (Valkey or Redis) as a process of the test's own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use thiserror::Error;
use tidegate_core::config::BucketUrl;
use tidegate_fakes::unused_port;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

/// The environment variable with the path of the server's executable.
pub const SERVER: &str = "TIDEGATE_REDIS_SERVER";
const READY_WITHIN: Duration = Duration::from_secs(10);

/// The reasons why the server does not start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// Nothing says which it is, or it is not there.
    #[error(
        "no server of the Redis protocol {}: `make test` finds or installs one; else set {SERVER} to the path of a \
         valkey-server or redis-server", path.as_ref().map_or_else(|| "is named".to_owned(), |path| format!("is at {}", path.display()))
    )]
    Missing { path: Option<PathBuf> },
    /// It ended, or did not answer in time.
    #[error("the server did not become ready at {address}; its log ends with:\n{log}")]
    NotReady { address: SocketAddr, log: String },
    /// The system refused a file, a process or a port.
    #[error("a server needs a temporary directory and a free port")]
    System(#[from] io::Error),
}

/// A server on a free port of loopback, which keeps nothing on disk. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    executable: PathBuf,
    directory: TempDir,
    address: SocketAddr,
    options: Vec<String>,
    process: Child,
}

impl Server {
    /// Starts one with more options, such as `["--user", "ada on >secret ~* +@all"]`, and waits until it answers.
    ///
    /// # Errors
    /// [`ServerError`]; a missing executable is an error, never a reason to skip a test.
    pub async fn start(options: &[&str]) -> Result<Self, ServerError> {
        let executable = std::env::var_os(SERVER).map(PathBuf::from);
        let missing = |path: &Option<PathBuf>| ServerError::Missing { path: path.clone() };
        let found = executable.clone().filter(|path| path.is_file());
        let executable = found.ok_or_else(|| missing(&executable))?;
        let directory = TempDir::new()?;
        let address = free_address()?;
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let process = launch(&executable, directory.path(), address, &options)?;
        let mut server = Self { executable, directory, address, options, process };
        server.ready().await?;
        Ok(server)
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, with a login such as `ada:secret@`.
    ///
    /// # Panics
    /// On a login that makes none.
    #[expect(clippy::expect_used, reason = "a test's own login")]
    pub fn url(&self, login: &str) -> BucketUrl {
        format!("redis://{login}{}", self.address).parse().expect("a URL")
    }

    /// Kills it: connections break, what it knew is gone.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it anew on its port.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn start_again(&mut self) -> Result<(), ServerError> {
        self.kill();
        let directory = self.directory.path();
        self.process = launch(&self.executable, directory, self.address, &self.options)?;
        self.ready().await
    }

    async fn ready(&mut self) -> Result<(), ServerError> {
        let deadline = Instant::now() + READY_WITHIN;
        while Instant::now() < deadline && matches!(self.process.try_wait(), Ok(None)) {
            if answers(self.address).await {
                return Ok(());
            }
            sleep(Duration::from_millis(10)).await;
        }
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        Err(ServerError::NotReady { address: self.address, log })
    }

    /// What it answers to a command of words without blanks, in its protocol.
    ///
    /// # Errors
    /// The connection's.
    pub async fn command(&self, line: &str) -> io::Result<String> {
        ask(self.address, line).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A node of a cluster listens on a second port, which is 10,000 above.
fn free_address() -> io::Result<SocketAddr> {
    loop {
        let port = unused_port()?;
        if port.checked_add(10_000).is_some() {
            return Ok((Ipv4Addr::LOCALHOST, port).into());
        }
    }
}

fn launch(
    executable: &Path,
    directory: &Path,
    address: SocketAddr,
    options: &[String],
) -> io::Result<Child> {
    let log = std::fs::File::create(directory.join("log"))?;
    Command::new(executable)
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
        .arg(directory)
        .args(["--port", &address.port().to_string()])
        .args(options)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

async fn ask(address: SocketAddr, line: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("{line}\r\n").as_bytes()).await?;
    let mut answer = vec![0; 65_536];
    let read = stream.read(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
}

/// It may want a password first: that is an answer as well.
async fn answers(address: SocketAddr) -> bool {
    let said = timeout(Duration::from_millis(500), ask(address, "PING")).await;
    matches!(said, Ok(Ok(said)) if said.starts_with("+PONG") || said.starts_with("-NOAUTH"))
}
