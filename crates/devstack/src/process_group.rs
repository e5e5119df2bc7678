//! The programs of a run: one process group, so that nothing of it outlives the run.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::error::LocalError;

/// How long programs may take to end after SIGTERM, before they are killed.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);
/// Number of lines from the end of a program's log that an error shows.
const TAIL_LINES: usize = 6;

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
                command.stdout(copy.map_err(|source| write_error(path, source))?).stderr(file);
                Some(path.to_owned())
            }
            ProgramOutput::Piped(path) => {
                command.stdout(Stdio::piped()).stderr(create(path)?);
                Some(path.to_owned())
            }
            ProgramOutput::Inherited => None,
        };
        command.stdin(Stdio::piped()).process_group(self.group().unwrap_or(0));
        let failed = |source| LocalError::Start { program: name.to_owned(), source };
        let child = command.spawn().map_err(failed)?;
        if self.group.is_none() {
            let id = child.id().and_then(|id| i32::try_from(id).ok());
            self.group = id.and_then(Pid::from_raw);
        }
        self.processes.push(GroupProcess { name, child, log });
        // It was pushed just now.
        let last = self.processes.len() - 1;
        Ok(&mut self.processes[last].child)
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
        let failed = |source| LocalError::Start { program: name.to_owned(), source };
        command.output().await.map_err(failed)
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
            sleep(LOOK).await;
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
    file.map_err(|source| write_error(path, source))
}

fn write_error(path: &Path, source: std::io::Error) -> LocalError {
    LocalError::Write { path: path.to_owned(), source }
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

#[cfg(test)]
mod tests {
    use super::*;

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
