use clap::Args;
use tidegate_aws::stack::Stack;
use tidegate_operate::redact::AddressVisibility;
use tidegate_operate::status::{StackFacts, Status, StatusSettings, gather, other_queues};

use super::OnStack;
use crate::shell::{CommandEnd, CommandError, Shell};

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
    let settings =
        StatusSettings::of(&stack.name, &stack.poller, &stack.scheduler, addresses, changes);
    let (queues, account) = (stack.queues(), stack.account());
    let ledger = stack.ledger();
    let places = other_queues(&stack.poller);
    Ok(gather(settings, read, &places, &queues, &account, &ledger, &stack.clock()).await?)
}
