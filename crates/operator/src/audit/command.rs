use std::fs::read_dir;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use flate2::read::MultiGzDecoder;
use tidegate_adapters::aws::CloudWatchLogs;
use tidegate_adapters::aws::stack::Stack;
use tidegate_delivery::ports::{Clock as _, History as _, PortError};

use super::{AuditReport, Judge};
use crate::shell::{CommandEnd, CommandError, Shell, open_file};
use crate::stack::OnStack;
use crate::steer::command::span;

/// Judge a real run by the poller's log: windows, starts, rate, shares, and mails that were sent twice
///
/// The poller logs a record of each window with its sends, unless the parameter Audit is off. Exit code 1 means that a
/// promise was broken, and 5 that there is no record.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate audit --since 24h
  tidegate audit --logs exported/ poller.log.gz
  tidegate audit --local --json")]
pub struct AuditArgs {
    /// Begin of what is judged, as a time before now
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = span)]
    since: Duration,
    /// Files of logs, or folders with them, also in gzip, instead of the stack's log and history
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["since", "local"])]
    logs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(crate) async fn run(args: &AuditArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let report = if args.logs.is_empty() {
        judge_stack(&args.on.stack.open().await?, args.since).await?
    } else {
        let mut judge = Judge::default();
        args.logs.iter().try_for_each(|path| read(path, &mut judge))?;
        judge.report(Vec::new())
    };
    shell.show(&report)?;
    Ok(match report.windows {
        None => CommandEnd::Unproven,
        Some(_) if report.is_kept() => CommandEnd::Done,
        Some(_) => CommandEnd::ProblemsFound,
    })
}

/// Judges what the log and the history of a stack have since so long ago.
///
/// # Errors
/// [`PortError`] of `CloudWatch` Logs or the ledger.
pub async fn judge_stack(stack: &Stack, since: Duration) -> Result<AuditReport, PortError> {
    let mut judge = Judge::default();
    let from = stack.clock().wall().saturating_sub(since);
    let group = format!("/aws/lambda/{}", stack.poller_function.name);
    let logs = CloudWatchLogs::new(stack.clients().config());
    logs.events(&group, from, |line, at| judge.line(line, Some(at))).await?;
    let mut changes = stack.ledger().changes().await?;
    changes.retain(|change| from <= change.at.into());
    Ok(judge.report(changes))
}

/// Reads a file, or all files below a folder.
fn read(path: &Path, judge: &mut Judge) -> Result<(), CommandError> {
    let fault = CommandError::of_file(path, "cannot be read");
    if path.is_dir() {
        for entry in read_dir(path).map_err(&fault)? {
            read(&entry.map_err(&fault)?.path(), judge)?;
        }
        return Ok(());
    }
    let file = open_file(path)?;
    let is_packed = path.extension().is_some_and(|extension| extension == "gz");
    let text: Box<dyn Read> =
        if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    for line in BufReader::new(text).split(b'\n') {
        judge.line(&String::from_utf8_lossy(&line.map_err(&fault)?), None);
    }
    Ok(())
}
