//! The programs of a local AWS: how each is started, when it is ready, its pages, and one process group for all, so
//! that nothing of them outlives the run; and the processor time and memory of the functions' processes.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tidegate_core::in_full;
use tidegate_core::number::real;
use tidegate_delivery::ports::QueueUrl;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::error::LocalError;
use crate::figures::MailArrival;

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
pub(super) fn isolated(program: impl AsRef<OsStr>, scratch: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", scratch).env("TMPDIR", scratch);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

pub(super) fn ministack(python: &Path, port: u16, scratch: &Path) -> Command {
    let mut command = isolated(python, scratch);
    command.args(["-u", "-c", LAUNCHER]).current_dir(scratch);
    command.env("BIND_HOST", "127.0.0.1").env("MINISTACK_HOST", "127.0.0.1");
    command.env("SFTP_ENABLED", "0").env("IOT_MTLS_ENABLED", "0");
    command.env("GATEWAY_PORT", port.to_string());
    command
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

/// A folder for temporary files, removed with all that is in it.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn create(folder: &Path) -> Result<Self, LocalError> {
        let path = folder.join("tmp");
        let path = std::path::absolute(&path).unwrap_or(path);
        fs::create_dir_all(&path).map_err(LocalError::write(&path))?;
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

/// How long programs may take to end after SIGTERM, before they are killed.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often the group is looked at while it ends.
const END_LOOK: Duration = Duration::from_millis(20);
/// Number of lines from the end of a program's log that an error shows.
const TAIL_LINES: usize = 6;

/// The region of everything in the local AWS.
pub(super) const REGION: &str = "us-east-1";

/// The stack that was deployed into the local AWS.
#[derive(Clone, Debug, Deserialize)]
pub struct DeployedStack {
    #[serde(rename = "stack")]
    pub name: String,
    /// The stack's outputs, each under its name.
    pub outputs: BTreeMap<String, String>,
    /// The deployment packages' bytes, by the functions' logical ids.
    pub package_bytes: BTreeMap<String, u64>,
}

impl DeployedStack {
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

    /// The URLs of the two campaigns' queues.
    pub(super) fn campaigns(&self) -> Result<[QueueUrl; 2], LocalError> {
        Ok([self.queue("FirstCampaignQueueUrl")?, self.queue("SecondCampaignQueueUrl")?])
    }
}

/// Programs in one process group of their own: the first is its leader. Dropping it kills them all.
#[derive(Debug, Default)]
pub(super) struct ProcessGroup {
    group: Option<Pid>,
    processes: Vec<GroupProcess>,
}

#[derive(Debug)]
struct GroupProcess {
    name: &'static str,
    child: Child,
    log: Option<PathBuf>,
}

/// The destination of a program's output.
#[derive(Clone, Copy)]
pub(super) enum ProgramOutput<'a> {
    Log(&'a Path),
    /// Standard error into a file; standard output is read here.
    Piped(&'a Path),
    Inherited,
}

impl ProcessGroup {
    /// The group's id, once there is one.
    pub(super) fn group(&self) -> Option<i32> {
        self.group.map(Pid::as_raw_pid)
    }

    /// Starts a program in the group. Its standard input is a pipe that is closed when we end.
    pub(super) fn start(
        &mut self,
        name: &'static str,
        mut command: Command,
        words: ProgramOutput<'_>,
    ) -> Result<&mut Child, LocalError> {
        let log = match words {
            ProgramOutput::Log(path) => {
                let file = create(path)?;
                let copy = file.try_clone();
                command.stdout(copy.map_err(LocalError::write(path))?).stderr(file);
                Some(path.to_owned())
            }
            ProgramOutput::Piped(path) => {
                command.stdout(Stdio::piped()).stderr(create(path)?);
                Some(path.to_owned())
            }
            ProgramOutput::Inherited => None,
        };
        command.stdin(Stdio::piped()).process_group(self.group().unwrap_or(0));
        let child = command.spawn().map_err(LocalError::start(name))?;
        if self.group.is_none() {
            let id = child.id().and_then(|id| i32::try_from(id).ok());
            self.group = id.and_then(Pid::from_raw);
        }
        self.processes.push(GroupProcess { name, child, log });
        // It was pushed just now.
        let last = self.processes.len() - 1;
        Ok(&mut self.processes[last].child)
    }

    /// Starts one of our own servers on `port` (0 takes a free one), and returns the URL that it prints as JSON.
    pub(super) async fn serve(
        &mut self,
        binary: &Path,
        port: u16,
        options: impl IntoIterator<Item = impl AsRef<OsStr>>,
        name: &'static str,
        folder: &Path,
    ) -> Result<String, LocalError> {
        #[derive(Deserialize)]
        struct Told {
            url: String,
        }
        let log = folder.join(format!("{name}.log"));
        let mut command = isolated(binary, folder);
        command.args(options).args(["--json", "--listen", &format!("127.0.0.1:{port}")]);
        command.env("RUST_LOG", "info");
        let output = self.start(name, command, ProgramOutput::Piped(&log))?.stdout.take();
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
            let _ = timeout(Duration::from_secs(1), self.wait_for_last()).await;
        }
        self.check()?;
        Err(LocalError::NotReady { program: name, seconds: READY_SECONDS, log })
    }

    /// An error where one of the programs has ended.
    pub(super) fn check(&mut self) -> Result<(), LocalError> {
        for process in &mut self.processes {
            if let Ok(Some(status)) = process.child.try_wait() {
                let program = process.name.to_owned();
                let said = process.log.as_deref().map(tail).unwrap_or_default();
                return Err(LocalError::Ended { program, status: status.to_string(), said });
            }
        }
        Ok(())
    }

    /// Runs a program of the group to its end.
    pub(super) async fn run(
        &self,
        name: &'static str,
        mut command: Command,
    ) -> Result<Output, LocalError> {
        command.stdin(Stdio::null()).process_group(self.group().unwrap_or(0)).kill_on_drop(true);
        command.output().await.map_err(LocalError::start(name))
    }

    /// Waits for the program that was started last to end.
    pub(super) async fn wait_for_last(&mut self) -> Option<ExitStatus> {
        self.processes.last_mut()?.child.wait().await.ok()
    }

    /// Asks all programs to end, and kills what has not after 3 s.
    pub(super) async fn stop(&mut self) {
        let Some(group) = self.group else { return };
        let _ = kill_process_group(group, Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        while self.alive(group) && Instant::now() < deadline {
            sleep(END_LOOK).await;
        }
        self.kill();
    }

    /// Whether a process of the group is left. A child that has ended stays in the group until it
    /// is waited for, so all children are polled first.
    fn alive(&mut self, group: Pid) -> bool {
        for process in &mut self.processes {
            let _ = process.child.try_wait();
        }
        test_kill_process_group(group).is_ok()
    }

    fn kill(&mut self) {
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::KILL);
            for process in &mut self.processes {
                let _ = process.child.try_wait();
            }
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

fn create(path: &Path) -> Result<File, LocalError> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(LocalError::write(path))
}

/// The end of a log, and where the rest of it is.
fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return format!(", and said nothing in {}", log.display());
    }
    let last = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n  ");
    format!("; the end of {}:\n  {last}", log.display())
}

const TIMEOUT: Duration = Duration::from_secs(10);

/// One server's pages; clones share its connections.
#[derive(Clone, Debug)]
pub(super) struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
}

impl Http {
    pub(super) fn new(base: impl Into<String>) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, base: base.into() }
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, LocalError> {
        let text = self.call(Method::GET, path, &[], String::new()).await?;
        serde_json::from_slice(&text).map_err(|error| LocalError::Http {
            url: format!("{}{path}", self.base),
            reason: error.to_string(),
        })
    }

    /// Any call that succeeds: its answer's body.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<Vec<u8>, LocalError> {
        let url = format!("{}{path}", self.base);
        let mut request = Request::builder().method(method).uri(&url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = async {
            let answer = self.client.request(request.body(Full::from(body))?).await?;
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            Ok::<_, Box<dyn Error + Send + Sync>>((status, body))
        };
        let reason = match timeout(TIMEOUT, answer).await {
            Ok(Ok((status, body))) if status.is_success() => return Ok(body.to_vec()),
            Ok(Ok((status, body))) => format!("{status}: {}", String::from_utf8_lossy(&body)),
            Ok(Err(error)) => in_full(&*error),
            Err(late) => late.to_string(),
        };
        Err(LocalError::Http { url, reason })
    }
}

/// The tag that names a mail's campaign.
const CAMPAIGN_TAG: &str = "tidegate_campaign";
/// Mails of one page: the most that the sandbox gives.
const PAGE: usize = 10_000;

/// Reads mails and counters from a running `ses-sandbox`.
#[derive(Clone, Debug)]
pub struct SesSandboxClient {
    http: Http,
}

/// The sandbox's counters that a report shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SandboxStats {
    /// Refusals by error code, injected ones too.
    pub refused: BTreeMap<String, u64>,
    pub faults: BTreeMap<String, u64>,
    /// The most recipients accepted in any half-open second.
    pub worst_sliding_second: u64,
    /// The most recipients that arrived in any half-open second, refused or not.
    pub worst_sliding_second_offered: u64,
}

#[derive(Debug, Deserialize)]
struct MailboxEntry {
    seq: u64,
    arrived_ns: u64,
    to: Vec<String>,
    recipients: u32,
    tags: BTreeMap<String, String>,
}

impl SesSandboxClient {
    /// The sandbox at `url`, such as `http://127.0.0.1:4579`.
    pub fn at(url: &str) -> Self {
        Self { http: Http::new(url) }
    }

    /// The sandbox's address; a browser shows the mailbox there.
    pub fn url(&self) -> &str {
        self.http.base()
    }

    /// The mails after number `seq` (0: all that are kept), and the number of the last one.
    ///
    /// # Errors
    /// [`LocalError::Http`] where it does not answer.
    pub async fn mails_after(&self, mut seq: u64) -> Result<(Vec<MailArrival>, u64), LocalError> {
        let mut arrivals = Vec::new();
        loop {
            let path = format!("/_sandbox/mails?after={seq}&limit={PAGE}");
            let mails: Vec<MailboxEntry> = self.http.get(&path).await?;
            let full = mails.len() == PAGE;
            for mut mail in mails {
                seq = mail.seq;
                arrivals.push(MailArrival {
                    at_ns: mail.arrived_ns,
                    campaign: mail.tags.remove(CAMPAIGN_TAG).unwrap_or_default(),
                    key: mail.to.into_iter().next().unwrap_or_default(),
                    recipients: mail.recipients,
                });
            }
            if !full {
                return Ok((arrivals, seq));
            }
        }
    }

    /// Refusals, faults, and the fullest seconds.
    ///
    /// # Errors
    /// [`LocalError::Http`] where it does not answer.
    pub async fn stats(&self) -> Result<SandboxStats, LocalError> {
        self.http.get("/_sandbox/stats").await
    }

    /// Changes settings while it runs; `change` is the JSON of `PATCH /_sandbox/config`, such as
    /// `{"quota": 200}`.
    ///
    /// # Errors
    /// [`LocalError::Http`] where it refuses the change, with the reason, or does not answer.
    pub async fn change(&self, change: &serde_json::Value) -> Result<(), LocalError> {
        let body = change.to_string();
        self.http.call(Method::PATCH, "/_sandbox/config", &[], body).await.map(drop)
    }
}

/// Resources that all processes of one function used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ProcessUsage {
    pub processes: u64,
    /// Processor time of all of them, user and system, in seconds.
    pub cpu_seconds: f64,
    /// The most memory that one of them held, in bytes.
    pub peak_rss_bytes: u64,
}

/// Measures those processes of a group that are Lambda functions, from `/proc`. On other systems than
/// Linux it sees nothing.
#[derive(Debug)]
pub struct FunctionWatch {
    group: i32,
    seen: BTreeMap<(i32, u64), ProcessSample>,
}

/// A process of a function; of others the name is none.
#[derive(Debug, Default)]
struct ProcessSample {
    function: Option<String>,
    usage: ProcessUsage,
}

impl FunctionWatch {
    pub fn new(group: i32) -> Self {
        Self { group, seen: BTreeMap::new() }
    }

    /// The resources of the processes whose function's name ends with `name`, including those that
    /// have ended; none if no such process was seen.
    pub fn usage(&self, name: &str) -> Option<ProcessUsage> {
        let is_it = |seen: &&ProcessSample| {
            seen.function.as_ref().is_some_and(|function| function.ends_with(name))
        };
        let usage = self.seen.values().filter(is_it).fold(ProcessUsage::default(), |sum, seen| {
            ProcessUsage {
                processes: sum.processes + 1,
                cpu_seconds: sum.cpu_seconds + seen.usage.cpu_seconds,
                peak_rss_bytes: sum.peak_rss_bytes.max(seen.usage.peak_rss_bytes),
            }
        });
        (usage.processes > 0).then_some(usage)
    }

    /// Reads all processes of the group once. Time that a process used between the last look and its end
    /// is missed, so look often.
    #[cfg(target_os = "linux")]
    pub fn look(&mut self) {
        let Ok(processes) = procfs::process::all_processes() else { return };
        for process in processes.flatten() {
            // The process ended meanwhile: its last sample counts.
            let Ok(stat) = process.stat() else { continue };
            if stat.pgrp != self.group {
                continue;
            }
            let seen = self.seen.entry((stat.pid, stat.starttime)).or_default();
            if seen.function.is_none() {
                seen.function = function_of(&process);
            }
            if seen.function.is_none() {
                // Between fork and exec a process still has its parent's environment and memory: do not
                // count it yet.
                continue;
            }
            seen.usage.cpu_seconds = seconds(stat.utime + stat.stime);
            if let Ok(status) = process.status() {
                let peak = status.vmhwm.unwrap_or_default() * 1024;
                seen.usage.peak_rss_bytes = seen.usage.peak_rss_bytes.max(peak);
            }
        }
    }

    /// Does nothing: only Linux tells which process runs which function.
    #[cfg(not(target_os = "linux"))]
    pub fn look(&mut self) {}
}

/// The name of the function that a process runs, from the environment variable that Lambda sets.
#[cfg(target_os = "linux")]
fn function_of(process: &procfs::process::Process) -> Option<String> {
    let environment = process.environ().ok()?;
    let name = environment.get(std::ffi::OsStr::new("AWS_LAMBDA_FUNCTION_NAME"))?;
    Some(name.to_string_lossy().into_owned())
}

#[cfg(target_os = "linux")]
fn seconds(ticks: u64) -> f64 {
    real(ticks) / real(procfs::ticks_per_second())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_fakes::sandbox::ses::{SesSandbox, SesSandboxConfig};

    use super::*;

    async fn send(http: &Http, to: &[&str], id: &str) {
        let mail = json!({
            "FromEmailAddress": "news@example.org",
            "Destination": { "ToAddresses": to },
            "Content": { "Simple": { "Subject": { "Data": "x" }, "Body": { "Text": { "Data": "x" } } } },
            "EmailTags": [{ "Name": CAMPAIGN_TAG, "Value": "big" }, { "Name": "tidegate_id", "Value": id }],
        });
        let headers = [("content-type", "application/json")];
        let path = "/v2/email/outbound-emails";
        http.call(Method::POST, path, &headers, mail.to_string()).await.unwrap();
    }

    #[tokio::test]
    async fn what_arrived_is_read_once_with_campaign_and_recipients() {
        let config = SesSandboxConfig::default();
        let running = SesSandbox::start(config, "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let sandbox = SesSandboxClient::at(running.url());
        assert_eq!(sandbox.mails_after(0).await.unwrap(), (Vec::new(), 0));
        send(&sandbox.http, &["a@example.com", "b@example.com"], "1").await;
        let (first, seq) = sandbox.mails_after(0).await.unwrap();
        assert_eq!((first[0].campaign.as_str(), first[0].key.as_str()), ("big", "a@example.com"));
        assert_eq!(first[0].recipients, 2);
        send(&sandbox.http, &["c@example.com"], "2").await;
        let (second, _) = sandbox.mails_after(seq).await.unwrap();
        assert_eq!(
            second.iter().map(|mail| mail.key.as_str()).collect::<Vec<_>>(),
            ["c@example.com"]
        );
        assert_eq!(sandbox.stats().await.unwrap().worst_sliding_second, 3);
        let refused = sandbox.change(&json!({ "qouta": 1 })).await.unwrap_err().to_string();
        assert!(refused.contains("unknown field `qouta`"), "{refused}");
        running.shutdown().await;
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    async fn gone(group: Pid) -> bool {
        for _ in 0..200 {
            if test_kill_process_group(group).is_err() {
                return true;
            }
            sleep(Duration::from_millis(10)).await;
        }
        false
    }

    #[tokio::test]
    async fn a_stopped_crew_leaves_no_process_behind_not_even_a_grandchild() {
        let mut process_group = ProcessGroup::default();
        process_group
            .start("one", shell("sleep 100 & sleep 100"), ProgramOutput::Inherited)
            .unwrap();
        process_group.start("two", shell("sleep 100"), ProgramOutput::Inherited).unwrap();
        let group = process_group.group.unwrap();
        process_group.check().unwrap();
        process_group.stop().await;
        assert!(gone(group).await);
    }

    #[tokio::test]
    async fn a_dropped_crew_is_killed_even_where_it_will_not_end() {
        let mut process_group = ProcessGroup::default();
        process_group
            .start("deaf", shell("trap '' TERM; sleep 100 & wait"), ProgramOutput::Inherited)
            .unwrap();
        let group = process_group.group.unwrap();
        drop(process_group);
        assert!(gone(group).await);
    }

    #[tokio::test]
    async fn a_program_that_ended_is_told_with_its_last_words() {
        let log =
            std::env::temp_dir().join(format!("tidegate-process-group-{}.log", std::process::id()));
        let mut process_group = ProcessGroup::default();
        process_group
            .start(
                "talker",
                shell("echo out; echo no such option >&2; exit 3"),
                ProgramOutput::Log(&log),
            )
            .unwrap();
        process_group.wait_for_last().await;
        let error = process_group.check().unwrap_err().to_string();
        fs::remove_file(&log).unwrap();
        assert!(error.starts_with("talker ended (exit status: 3); the end of"), "{error}");
        assert!(error.ends_with("out\n  no such option"), "{error}");
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod cpu_tests {
    use std::process::{Child, Command};
    use std::time::Duration;

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    fn busy(function: &str) -> Child {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).process_group(0);
        command.env("AWS_LAMBDA_FUNCTION_NAME", function).spawn().unwrap()
    }

    #[tokio::test]
    async fn a_functions_time_and_memory_are_seen_and_kept_after_its_end() {
        let mut child = busy("tidegate-poller");
        let group = i32::try_from(child.id()).unwrap();
        let mut watch = FunctionWatch::new(group);
        for _ in 0..500 {
            watch.look();
            if watch.usage("poller").is_some_and(|usage| usage.cpu_seconds > 0.05) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        kill_process_group(Pid::from_raw(group).unwrap(), Signal::KILL).unwrap();
        child.wait().unwrap();
        watch.look();
        let usage = watch.usage("poller").unwrap();
        assert_eq!(usage.processes, 1);
        assert!((0.05..5.0).contains(&usage.cpu_seconds), "{usage:?}");
        assert!(usage.peak_rss_bytes > 100_000, "{usage:?}");
        assert_eq!(watch.usage("scheduler"), None);
    }
}
