use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::exclude::{
    ExcludeAction, ExcludeError, ExcludeReport, ExclusionsReport, exclude, read, state,
};
use crate::send::recipient;
use clap::{Args, Subcommand};
use tidegate_core::exclusions::AddressKey;
use tidegate_core::format::counted;

use super::steer::AuthorArgs;
use crate::send::{MailProgressBar, addresses};
use crate::shell::stop_unless_confirmed;
use crate::shell::{CommandEnd, CommandError, ConfirmArgs, OutputArgs, Shell};
use crate::stack::OnStack;

/// Show the exclusion list, or change it: campaigns send nothing to its addresses and phone numbers
///
/// A mail to one of them is deleted instead of sent, also where it was enqueued before, and counted (`excluded`). In
/// force within two seconds. Express mail is sent all the same. The ledger keeps a hash of each address.
///
/// Lines of a file that are no address are named; all others count.
///
/// Exit codes: 0; 1 lines without an address; 2 wrong options or a wrong file; 3 the stack is out of reach; 4 not confirmed; 130 interrupted.
#[derive(Clone, Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  tidegate exclude
  tidegate exclude --address ada@example.org
  tidegate exclude add unsubscribed.csv --reason 'left the list' --yes
  tidegate exclude remove --address ada@example.org --reason 'subscribed again'"
)]
pub struct ExcludeArgs {
    #[command(subcommand)]
    command: Option<ExcludeCommand>,
    /// Say whether this address or phone number is on the list
    #[arg(long, value_name = "ADDRESS", value_parser = recipient)]
    address: Option<String>,
    #[command(flatten)]
    on: OnStack,
}

#[derive(Clone, Debug, Subcommand)]
enum ExcludeCommand {
    /// Put addresses on the list
    Add(ChangeArgs),
    /// Take addresses off the list
    Remove(ChangeArgs),
}

/// The addresses, and who changes the list.
#[derive(Clone, Debug, Args)]
struct ChangeArgs {
    /// Files of addresses and phone numbers: one a line, or a CSV's first field
    #[arg(value_name = "FILE", required_unless_present = "address")]
    files: Vec<PathBuf>,
    /// An address or phone number; may be given several times
    #[arg(long, value_name = "ADDRESS", value_parser = recipient)]
    address: Vec<String>,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    ask: ConfirmArgs,
    #[command(flatten)]
    on: OnStack,
}

impl ExcludeArgs {
    pub fn output(&self) -> OutputArgs {
        match &self.command {
            None => self.on.output,
            Some(ExcludeCommand::Add(args) | ExcludeCommand::Remove(args)) => args.on.output,
        }
    }
}

pub(super) async fn run(args: &ExcludeArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    match &args.command {
        None => show(args, shell).await,
        Some(ExcludeCommand::Add(args)) => Box::pin(change(ExcludeAction::Add, args, shell)).await,
        Some(ExcludeCommand::Remove(args)) => {
            Box::pin(change(ExcludeAction::Remove, args, shell)).await
        }
    }
}

async fn show(args: &ExcludeArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let ledger = stack.ledger();
    let standing = state(&ledger).await?;
    let contains = match &args.address {
        Some(address) => Some(read(&ledger).await?.contains(address)),
        None => None,
    };
    let (addresses, version) = (standing.addresses, standing.version);
    let report = ExclusionsReport { addresses, version, contains };
    shell.output.show(&report).map_err(CommandError::Terminal)?;
    Ok(CommandEnd::Done)
}

async fn change(
    action: ExcludeAction,
    args: &ChangeArgs,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let list = addresses(&args.files)?;
    let faults = list.faults().to_vec();
    let mut keys: BTreeSet<AddressKey> = list.keys().clone();
    keys.extend(args.address.iter().map(|address| AddressKey::of_text(address)));
    if keys.is_empty() {
        let first = faults.first().map_or_else(String::new, |fault| format!("; {fault}"));
        return Err(CommandError::Input(format!(
            "no address is given: the files have none{first}"
        )));
    }
    let stack = args.on.stack.open().await?;
    let all = counted(keys.len() as u64, "recipient");
    let question = match action {
        ExcludeAction::Add => format!("Send {all} no mail of any campaign from now on?"),
        ExcludeAction::Remove => format!("Send {all} campaigns' mail again?"),
    };
    if let Some(ended) = stop_unless_confirmed(args.ask, shell, &question).await? {
        return Ok(ended);
    }
    let author = args.author.author(&stack).await;
    let (ledger, clock) = (stack.ledger(), stack.clock());
    let bar = MailProgressBar::new(shell.output, keys.len() as u64, 0);
    let report = exclude(action, &keys, &author, &ledger, &clock, |more| bar.add(more)).await;
    drop(bar);
    let report = report.map_err(|error| match error {
        ExcludeError::Port(error) => CommandError::Service(error),
        error @ ExcludeError::Conflict => CommandError::Unfinished(error.into()),
        error => CommandError::Refused(error.into()),
    })?;
    let report = ExcludeReport { not_addresses: faults, ..report };
    shell.output.show(&report).map_err(CommandError::Terminal)?;
    Ok(if report.not_addresses.is_empty() { CommandEnd::Done } else { CommandEnd::ProblemsFound })
}
