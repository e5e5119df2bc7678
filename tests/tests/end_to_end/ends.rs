//! The end of a local run, by whatever signal: none of its processes is left.

use std::fs;
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tidegate_fakes::unused_port;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::site::{bin_dir, checkout, python};

const SIGNALS: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL];

/// The parents of all processes, by their ids, but for those that have ended and are not waited for.
fn processes() -> Vec<(i32, i32)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let stat = |path: &Path| fs::read_to_string(path.join("stat")).ok();
    let read = entries.filter_map(|entry| {
        let (id, stat) = (entry.file_name().to_str()?.parse().ok()?, stat(&entry.path())?);
        // A program's name may contain blanks.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        (fields.next()? != "Z").then_some((id, fields.next()?.parse().ok()?))
    });
    read.collect()
}

fn command_line(id: i32) -> String {
    let line = fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
    line.replace('\0', " ")
}

/// A local run; variables with its folder tell its processes from those of others.
struct Started {
    program: Child,
    folder: TempDir,
}

impl Started {
    /// Starts `devstack` with `options`, as a child of `shell`, which may be none.
    fn start(options: &[String], shell: &[&str]) -> Self {
        let folder = TempDir::with_prefix("tidegate-ends-").unwrap();
        let devstack = bin_dir().join("devstack");
        let slow = checkout("tests/tests/end_to_end/slow_build");
        let (tools, path) = (checkout(".tools/lambda/bin"), std::env::var("PATH").unwrap());
        let path = format!("{}:{}:{path}", slow.display(), tools.display());
        let given = shell.iter().copied().map(Into::into).chain([devstack.into_os_string()]);
        let words: Vec<std::ffi::OsString> = given.collect();
        let log = fs::File::create(folder.path().join("said")).unwrap();
        let program = Command::new(&words[0])
            .args(&words[1..])
            .args(["--root".as_ref(), checkout("").as_os_str()])
            .args(["--bin-dir".as_ref(), bin_dir().as_os_str()])
            .args(["--python".as_ref(), python().as_os_str()])
            .args(["--out".as_ref(), folder.path().as_os_str()])
            .args(options)
            .env_remove("MAKELEVEL")
            .envs((!shell.is_empty()).then_some(("MAKELEVEL", "1")))
            .env("PATH", path)
            .env("XDG_STATE_HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { program, folder }
    }

    fn id(&self) -> i32 {
        i32::try_from(self.program.id().unwrap()).unwrap()
    }

    /// All processes below the program, and those that have its variable.
    fn all(&self, known: &[i32]) -> Vec<i32> {
        let mark = self.folder.path().as_os_str().as_encoded_bytes();
        let is_marked = |id: i32| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.windows(mark.len()).any(|part| part == mark)
        };
        let processes = processes();
        let mut all = known.to_owned();
        all.extend(processes.iter().map(|(id, _)| *id).filter(|id| is_marked(*id)));
        loop {
            let is_new = |(id, parent): &&(i32, i32)| !all.contains(id) && all.contains(parent);
            let Some(&(id, _)) = processes.iter().find(is_new) else { break };
            all.push(id);
        }
        all.retain(|id| processes.iter().any(|(other, _)| other == id));
        all
    }

    /// Waits until the run has programs whose command lines contain these words: all of its processes.
    async fn running(&self, words: &[&str]) -> Vec<i32> {
        let until = Instant::now() + Duration::from_secs(90);
        loop {
            let all = self.all(&[self.id()]);
            let lines: Vec<String> = all.iter().map(|id| command_line(*id)).collect();
            if words.iter().all(|word| lines.iter().any(|line| line.contains(word))) {
                return all;
            }
            let said = || fs::read_to_string(self.folder.path().join("said")).unwrap();
            assert!(Instant::now() < until, "not all of {words:?} run: {lines:?}\n{}", said());
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn ended_by(&mut self, signal: Signal, known: &[i32]) {
        kill_process(Pid::from_raw(self.id()).unwrap(), signal).unwrap();
        self.program.wait().await.unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let left = self.all(known);
            if left.is_empty() {
                return;
            }
            let left: Vec<String> = left.into_iter().map(command_line).collect();
            assert!(Instant::now() < until, "{signal:?} left:\n{}", left.join("\n"));
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Invokes the poller as soon as cargo-lambda listens.
async fn invoke(port: u16) -> TcpStream {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Ok(mut stream) = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await {
            let path = "/2015-03-31/functions/poller/invocations";
            let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2");
            stream.write_all(format!("{head}\r\n\r\n{{}}").as_bytes()).await.unwrap();
            return stream;
        }
        assert!(Instant::now() < until, "cargo-lambda does not listen");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn whatever_ends_a_local_run_ends_its_local_aws_and_its_functions() {
    let run = async |signal| {
        let options = ["--no-browser".to_owned(), "--messages=2000".to_owned()];
        let mut started = Started::start(&options, &[]);
        let known = started.running(&["ministack", "ses-sandbox", "bootstrap"]).await;
        started.ended_by(signal, &known).await;
    };
    join_all(SIGNALS.map(run)).await;
}

#[tokio::test]
async fn whatever_ends_a_run_under_cargo_lambda_ends_what_builds_the_functions() {
    let run = async |(signal, shell): (Signal, &'static [&'static str])| {
        let port = unused_port().unwrap();
        let options = ["--no-browser".to_owned(), format!("--watch={port}")];
        let mut started = Started::start(&options, shell);
        started.running(&["ministack", "ses-sandbox", "cargo-lambda lambda watch"]).await;
        // Held until the end, without a look at the answer.
        let _invocation = invoke(port).await;
        let known = started.running(&["watched_cargo.py run", "sleep 1000"]).await;
        started.ended_by(signal, &known).await;
    };
    let shell: &[&str] = &["sh", "-c", "\"$@\" & wait", "sh"];
    let of_make = std::iter::once((Signal::KILL, shell));
    join_all(SIGNALS.map(|signal| (signal, &[][..])).into_iter().chain(of_make).map(run)).await;
}
