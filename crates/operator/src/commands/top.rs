use std::io::{self, IsTerminal as _};
use std::time::Duration;

use crate::status::Status;
use crate::{status, top};
use clap::Args;

use crate::shell::{CommandEnd, CommandError, Shell};
use crate::stack::OnStack;

/// Watch a running stack, live, and steer it
///
/// Shows quota and use, the last minutes as a curve, each campaign's share, rate, backlog and end,
/// holds, breaker, refusals and dead letters. Reads the ledger once a second, the queues' depths every
/// five. Rates are of the last ten seconds.
///
/// Keys: arrows select a campaign; p pauses it, r resumes it; P and R pause and resume all sending; q ends.
/// Each change asks for its reason; Esc leaves it.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate top --local                 beside `make run` in another terminal
  tidegate top --stack mail            a stack on AWS
  tidegate top --once                  one look, as text; with --json for machines")]
pub struct TopArgs {
    /// Seconds between two looks, 1 to 60
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    every: u64,
    /// One look, as `tidegate status` shows it: where there is no terminal
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(super) async fn run(args: &TopArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let facts = status::facts(&stack, shell.output.addresses(), 5).await?;
    if args.once || shell.output.is_json() {
        shell.output.show(&Status::of(&facts)).map_err(CommandError::Terminal)?;
        return Ok(CommandEnd::Done);
    }
    if !io::stdout().is_terminal() {
        return Err(CommandError::Input(
            "standard output is no terminal: `tidegate top` draws on one; --once shows one look"
                .to_owned(),
        ));
    }
    let ended = tokio::select! {
        ended = top::watch(&stack, facts, Duration::from_secs(args.every), String::new) => ended,
        () = shell.interrupted() => return Ok(CommandEnd::Interrupted),
    };
    ended.map_err(CommandError::Terminal).map(|()| CommandEnd::Done)
}
