//! Measures the processor time and the memory of the functions' processes, as the kernel counts
//! them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Resources that all processes of one function used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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

#[derive(Debug, Default)]
struct ProcessSample {
    function: Option<String>,
    cpu_seconds: f64,
    peak_rss_bytes: u64,
}

impl FunctionWatch {
    pub fn new(group: i32) -> Self {
        Self { group, seen: BTreeMap::new() }
    }

    /// The resources of the processes whose function's name ends with `name`, including those that
    /// have ended; none if no such process was seen.
    pub fn usage(&self, name: &str) -> Option<ProcessUsage> {
        let of_it = self
            .seen
            .values()
            .filter(|seen| seen.function.as_ref().is_some_and(|function| function.ends_with(name)));
        let usage = of_it.fold(ProcessUsage::default(), |sum, seen| ProcessUsage {
            processes: sum.processes + 1,
            cpu_seconds: sum.cpu_seconds + seen.cpu_seconds,
            peak_rss_bytes: sum.peak_rss_bytes.max(seen.peak_rss_bytes),
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
            seen.cpu_seconds = seconds(stat.utime + stat.stime);
            if let Ok(status) = process.status() {
                let peak = status.vmhwm.unwrap_or_default() * 1024;
                seen.peak_rss_bytes = seen.peak_rss_bytes.max(peak);
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
#[expect(clippy::cast_precision_loss, reason = "hundredths of seconds of a run")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / procfs::ticks_per_second() as f64
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
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
