//! `--upload`: the list and the templates go to the stack's store.

use std::io::BufReader;

use tidegate_adapters::aws::stack::Stack;
use tidegate_adapters::aws::{S3Store, SystemEntropy};
use tidegate_core::in_full;
use tidegate_core::runs::{RUNS_KEPT, Run};
use tidegate_delivery::ports::{Entropy as _, QueueUrl, Runs as _};

use super::args::SendArgs;
use super::{Destination, PreparedRun, not_admitted, prepare};
use crate::page::Tone;
use crate::send::{Upload, UploadError, UploadReport, admitted, baseline};
use crate::shell::{CommandError, CommandResult, Shell};

/// The store that takes the rows; `None` without the option.
pub(super) fn store(args: &SendArgs, stack: &Stack) -> CommandResult<Option<S3Store>> {
    if !args.run.upload {
        return Ok(None);
    }
    let location =
        stack.scheduler.store.clone().filter(|_| stack.scheduler.back_pressure.is_some());
    let location = location.ok_or_else(|| {
        let said = "--upload: this stack has no store; allowed is a stack whose scheduler has TIDEGATE_STORE and knows \
                    the campaigns' queues";
        CommandError::Input(said.to_owned())
    })?;
    Ok(Some(stack.clients().store(location)))
}

pub(super) async fn run(
    args: &SendArgs,
    Destination { stack, campaign, .. }: &Destination,
    prepared: PreparedRun,
    store: &S3Store,
    shell: &Shell,
) -> CommandResult<UploadReport> {
    let (queues, ledger, clock) = (stack.queues(), stack.ledger(), stack.clock());
    let own: Vec<QueueUrl> = campaign.queues().map(|(_, url)| QueueUrl::new(url)).collect();
    let shared = stack.shared_queues();
    let before = baseline(&queues, &ledger, &campaign.name, &own, &shared).await?;
    let wanted = Run { before, ..prepared.wanted };
    let known = ledger.runs(RUNS_KEPT).await?;
    let stored = admitted(&known, wanted, None, args.run.wish()).map_err(not_admitted)?;
    let (file, format) = (prepared.file.as_str(), prepare::format(args));
    let input = BufReader::new(prepare::open(&args.file)?);
    let upload = Upload { file, format, checked: &prepared.checked, token: &SystemEntropy.token() };
    let run = upload.run(prepared.draft, input, stored, store, &ledger, &clock);
    let report = Box::pin(run).await.map_err(|error| match error {
        UploadError::Run(error) => not_admitted(error),
        error => CommandError::Unfinished(error.into()),
    })?;
    let scheduler = stack.clients().invoke(stack.scheduler_function.name.as_str());
    if let Err(error) = scheduler.wake().await {
        let said =
            format!("The stack begins within a minute: it is not woken: {}", in_full(&error));
        shell.output.remark(Tone::Warning, said);
    }
    Ok(report)
}
