//! `tidegate exclude`: changes and reads the exclusion list. Campaigns' mail to its addresses is not sent, also mail
//! that is already enqueued.
//!
//! The shards are written first, each on the condition that nobody else wrote it meanwhile; then the control record
//! gets a new version, which makes the pollers read them. A change that breaks off in between is completed by the
//! same command again.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use thiserror::Error;
use tidegate_core::control::ChangeRecord;
use tidegate_core::exclusions::{AddressKey, ExclusionList, ExclusionState, MOST_EXCLUSIONS};
use tidegate_core::format::{count, counted};
use tidegate_delivery::control::change;
use tidegate_delivery::ports::{Clock, Exclusions, History, Ledger, PortError};

use crate::page::{Page, Tone, View};
use crate::send::{InputFault, MailProgressBar, addresses, recipient};
use crate::shell::{
    CommandEnd, CommandError, CommandResult, ConfirmArgs, Shell, stop_unless_confirmed,
};
use crate::stack::OnStack;
use crate::steer::command::AuthorArgs;
use crate::steer::{Author, IN_FORCE_WITHIN_S, InvalidReason};

/// Tries of a shard that others write at the same time.
const TRIES: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExcludeAction {
    Add,
    Remove,
}

#[derive(Debug, Error)]
pub enum ExcludeError {
    #[error(transparent)]
    Reason(#[from] InvalidReason),
    #[error("the list would have {0} addresses; allowed are at most {MOST_EXCLUSIONS}")]
    TooMany(u64),
    /// Others kept changing the list.
    #[error(
        "others are changing the exclusion list: part of the change is made; run the command again"
    )]
    Conflict,
    #[error(transparent)]
    Port(#[from] PortError),
}

/// A change of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExcludeReport {
    /// Addresses that were put on the list or taken off it.
    pub changed: u64,
    /// Addresses on the list now.
    pub addresses: u64,
    /// The change, as the history keeps it.
    #[serde(flatten)]
    pub record: ChangeRecord,
    /// The change is in force after at most this many seconds.
    pub in_force_within_s: u64,
    pub recorded: bool,
    /// The lines of files that are no address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_addresses: Vec<InputFault>,
}

/// The list as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExclusionsReport {
    #[serde(flatten)]
    pub state: ExclusionState,
    /// Whether the address that was asked for is on the list; `None` if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<bool>,
}

/// Adds or removes addresses. `done` is called with the number of addresses of each shard.
///
/// # Errors
/// [`ExcludeError`]. After one of the ledger part of the change may be made, and pollers may not know of it yet:
/// the same call completes it.
pub async fn exclude(
    action: ExcludeAction,
    keys: &BTreeSet<AddressKey>,
    author: &Author,
    ledger: &(impl Ledger + Exclusions + History),
    clock: &impl Clock,
    done: impl Fn(u64),
) -> Result<ExcludeReport, ExcludeError> {
    author.check()?;
    let stands = state(ledger).await?.addresses;
    let most = stands + keys.len() as u64;
    if action == ExcludeAction::Add && most > MOST_EXCLUSIONS {
        return Err(ExcludeError::TooMany(most));
    }
    let mut shards: BTreeMap<u8, Vec<AddressKey>> = BTreeMap::new();
    for key in keys {
        shards.entry(key.shard()).or_default().push(*key);
    }
    let mut changed = 0;
    for (number, keys) in shards {
        changed += set_shard(ledger, number, action, &keys).await?;
        done(keys.len() as u64);
    }
    let addresses = read(ledger).await?.len() as u64;
    let is_new = Cell::new(false);
    let standing = ledger.read().await?;
    let told = change(ledger, standing.control_version, standing.control, |control| {
        let before = control.exclusions.unwrap_or_default();
        is_new.set(changed > 0 || before.addresses != addresses);
        if is_new.get() {
            control.exclusions = Some(ExclusionState { version: before.version + 1, addresses });
        }
    });
    if told.await?.made().is_none() && is_new.get() {
        return Err(ExcludeError::Conflict);
    }
    let (name, how) = match action {
        ExcludeAction::Add => ("exclude", "more"),
        ExcludeAction::Remove => ("include", "fewer"),
    };
    let detail = format!("{} {how}, {} in all", counted(changed, "recipient"), count(addresses));
    let record = author.record(clock.wall().into(), name, detail);
    // The change has been made. If it cannot be recorded, the report says so, but it is no failure.
    let recorded = is_new.get() && ledger.add(&record).await.is_ok();
    let in_force_within_s = IN_FORCE_WITHIN_S;
    let not_addresses = Vec::new();
    Ok(ExcludeReport { changed, addresses, record, in_force_within_s, recorded, not_addresses })
}

/// Reads the whole list.
///
/// # Errors
/// [`PortError`] if the ledger does not answer.
pub async fn read(ledger: &impl Exclusions) -> Result<ExclusionList, PortError> {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let shards = ledger.shards(&all).await?;
    Ok(ExclusionList::of(shards.into_iter().flat_map(|shard| shard.keys)))
}

/// The list's version and size.
///
/// # Errors
/// [`PortError`] if the ledger does not answer.
pub async fn state(ledger: &impl Ledger) -> Result<ExclusionState, PortError> {
    Ok(ledger.read().await?.control.exclusions.unwrap_or_default())
}

/// Changes one shard; returns how many of the keys were new, or were there.
async fn set_shard(
    ledger: &impl Exclusions,
    number: u8,
    action: ExcludeAction,
    keys: &[AddressKey],
) -> Result<u64, ExcludeError> {
    for _ in 0..TRIES {
        let mut shard = ledger.shards(&[number]).await?.pop().unwrap_or_default();
        let change = |key: &&AddressKey| match action {
            ExcludeAction::Add => shard.keys.insert(**key),
            ExcludeAction::Remove => shard.keys.remove(*key),
        };
        let changed = keys.iter().filter(change).count() as u64;
        if changed == 0 || ledger.set_shard(number, &shard).await? {
            return Ok(changed);
        }
    }
    Err(ExcludeError::Conflict)
}

impl View for ExcludeReport {
    fn view(&self, page: &mut Page) {
        page.line(Tone::Good, format!("Exclusion list: {}.", self.record.detail));
        if self.changed > 0 {
            let said = format!("In force within {} s.", self.in_force_within_s);
            page.line(Tone::Plain, said);
        }
        if self.changed > 0 && !self.recorded {
            page.line(Tone::Warning, "The history could not be written: the change is not there.");
        }
        if !self.not_addresses.is_empty() {
            let lines = counted(self.not_addresses.len() as u64, "line");
            page.line(Tone::Bad, format!("{lines} without an address left out:"));
            self.not_addresses.iter().for_each(|fault| page.line(Tone::Bad, fault));
        }
    }
}

impl View for ExclusionsReport {
    fn view(&self, page: &mut Page) {
        let said = format!("{} excluded", counted(self.state.addresses, "recipient"));
        page.line(Tone::Strong, format!("{said}, version {}.", count(self.state.version)));
        match self.contains {
            Some(true) => page.line(Tone::Warning, "The address is on the list."),
            Some(false) => page.line(Tone::Plain, "The address is not on the list."),
            None => {}
        }
    }
}

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
    pub(crate) on: OnStack,
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
}

pub(crate) async fn run(args: &ExcludeArgs, shell: &Shell) -> CommandResult {
    let (action, change) = match &args.command {
        None => return show(args, shell).await,
        Some(ExcludeCommand::Add(change)) => (ExcludeAction::Add, change),
        Some(ExcludeCommand::Remove(change)) => (ExcludeAction::Remove, change),
    };
    Box::pin(change_list(action, change, &args.on, shell)).await
}

async fn show(args: &ExcludeArgs, shell: &Shell) -> CommandResult {
    let stack = args.on.stack.open().await?;
    let ledger = stack.ledger();
    let state = state(&ledger).await?;
    let contains = match &args.address {
        Some(address) => Some(read(&ledger).await?.contains(address)),
        None => None,
    };
    shell.done(&ExclusionsReport { state, contains })
}

async fn change_list(
    action: ExcludeAction,
    args: &ChangeArgs,
    on: &OnStack,
    shell: &Shell,
) -> CommandResult {
    let list = addresses(&args.files)?;
    let faults = list.faults().to_vec();
    let mut keys: BTreeSet<AddressKey> = list.keys().clone();
    keys.extend(args.address.iter().map(|address| AddressKey::of_text(address)));
    if keys.is_empty() {
        let first = faults.first().map_or_else(String::new, |fault| format!("; {fault}"));
        let said = format!("no address is given: the files have none{first}");
        return Err(CommandError::Input(said));
    }
    let stack = on.stack.open().await?;
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
        error => CommandError::refused(error),
    })?;
    let report = ExcludeReport { not_addresses: faults, ..report };
    shell.show(&report)?;
    Ok(if report.not_addresses.is_empty() { CommandEnd::Done } else { CommandEnd::ProblemsFound })
}

#[cfg(test)]
mod tests;
