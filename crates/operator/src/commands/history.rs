use crate::history::newest;
use clap::Args;
use tidegate_delivery::ports::History as _;

use crate::shell::{CommandEnd, CommandError, Shell};
use crate::stack::OnStack;

/// Show who changed what, and why
///
/// The newest 200 changes that operators made are kept in the ledger: pauses, lifted holds, weights,
/// caps, replays.
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// Number of changes to show, the newest first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
    limit: usize,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "allowed is a whole number from 1".to_owned())
}

pub(super) async fn run(args: &HistoryArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let changes = stack.ledger().changes().await?;
    let newest = newest(&changes, args.limit, shell.output.addresses());
    shell.output.show(&newest).map_err(CommandError::Terminal)?;
    Ok(CommandEnd::Done)
}
