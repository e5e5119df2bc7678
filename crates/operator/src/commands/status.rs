use crate::status::Status;
use crate::status::facts;
use clap::Args;

use crate::shell::{CommandEnd, CommandError, Shell};
use crate::stack::OnStack;

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
