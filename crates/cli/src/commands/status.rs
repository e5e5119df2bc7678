use std::collections::BTreeMap;

use clap::Args;
use tidegate_operate::redact::AddressVisibility;
use tidegate_operate::status::{OtherQueues, StackFacts, Status, StatusSettings, gather};

use super::OnStack;
use crate::shell::{CommandEnd, CommandError, Shell};
use crate::stack::Stack;

/// Show what stands: quota and use, campaigns, holds, breaker, queues
///
/// Exit code: 0; 3 where the stack or a service cannot be reached.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate status --local                      the stack that `make run KEEP=1` left running
  tidegate status --stack mail --profile ops   a stack on AWS
  tidegate status --json | jq .holds           for machines")]
pub struct StatusArgs {
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(super) async fn run(args: &StatusArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let facts = facts(&stack, shell.output.addresses(), 5).await?;
    shell.output.show(&Status::of(&facts)).map_err(CommandError::Terminal)?;
    Ok(CommandEnd::Done)
}

/// Reads the state of a stack, with the newest `changes` changes that operators made.
pub(crate) async fn facts(
    stack: &Stack,
    addresses: AddressVisibility,
    changes: usize,
) -> Result<StackFacts, CommandError> {
    let read = stack.standing().await?;
    let settings = settings(stack, addresses, changes);
    let (queues, account) = (stack.queues(), stack.account());
    let ledger = stack.ledger();
    let places = places(stack);
    Ok(gather(settings, read, &places, &queues, &account, &ledger, &stack.clock()).await?)
}

pub(crate) fn settings(
    stack: &Stack,
    addresses: AddressVisibility,
    changes: usize,
) -> StatusSettings {
    StatusSettings {
        stack: stack.name.clone(),
        cap: stack.poller.cap,
        rate_margin: stack.poller.rate_margin,
        domains: stack.poller.domains.limits.clone(),
        idle_wake: stack.scheduler.idle_wake,
        addresses,
        changes,
    }
}

pub(crate) fn places(stack: &Stack) -> OtherQueues {
    let mut places = BTreeMap::from([("dead_letters", stack.dead_letter())]);
    places.extend(stack.merge().map(|url| ("merge", url)));
    places.extend(stack.express().map(|url| ("express", url)));
    places
}
