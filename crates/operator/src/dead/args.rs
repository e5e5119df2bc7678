use std::path::PathBuf;

use clap::{Args, Subcommand};
use tidegate_core::rate::Rate;

use super::letter::LetterFilter;
use super::list::Grouping;
use crate::shell::{CommandError, CommandResult, ConfirmArgs};
use crate::stack::OnStack;

/// Look through the dead letters, and replay them after review
///
/// Without a command they are counted by reason. SQS has no way to look into a queue: what is read is
/// received, which hides it for up to 30 s, and made visible again at the end. Two readers at the same
/// time each see a part; their reports say so.
///
/// Exit codes: 0; 1 where `show` finds nothing or a replay did not come through; 2 wrong options;
/// 3 the stack is out of reach, or a replay broke off (run it again); 4 not confirmed; 130 interrupted.
#[derive(Clone, Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  tidegate dead
  tidegate dead list --campaign news --code MessageRejected
  tidegate dead groups --by domain
  tidegate dead show order-4711 --show-addresses
  tidegate dead replay --code MailFromDomainNotVerifiedException
  tidegate dead replay --code MailFromDomainNotVerifiedException --go --reason 'domain verified'
  tidegate dead edit corrected.jsonl --go --reason 'the address of the sender'
  tidegate dead discard --campaign november --until 30d --go --reason 'too old to be sent'"
)]
pub struct DeadArgs {
    #[command(subcommand)]
    pub(super) command: Option<DeadCommand>,
    /// Dead letters to read at most
    #[arg(long, global = true, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) limit: u32,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

#[derive(Clone, Debug, Subcommand)]
pub(super) enum DeadCommand {
    /// List dead letters, one on each line
    List(LetterFilter),
    /// Show one dead letter with all its fields
    Show {
        /// The mail's `id`, its identity, or an SQS message id
        id: String,
        /// Show the body of the mail, too
        #[arg(long)]
        body: bool,
    },
    /// Count them by what they have in common
    Groups {
        /// Property to group dead letters by
        #[arg(long, value_name = "WHAT", default_value = "reason")]
        by: Grouping,
        #[command(flatten)]
        filter: LetterFilter,
    },
    /// Write them to a file, as JSON Lines
    Export(ExportArgs),
    /// Send them to their campaigns' queues again; without --go only show what would be sent
    Replay(DeadReplayArgs),
    /// Send them again with corrected bodies; without --go only show what would be sent
    Edit(DeadEditArgs),
    /// Delete them for good; without --go only show which
    ///
    /// The history records who deleted how many, by which conditions, and why. `tidegate dead export` keeps a copy.
    Discard(ActionArgs),
}

/// Write them to a file, as JSON Lines
///
/// The file holds recipients' addresses and whole mails, and only its owner may read it; --masked
/// leaves both out.
#[derive(Clone, Debug, Args)]
pub(super) struct ExportArgs {
    /// The file; one that is there is not overwritten
    pub(super) file: PathBuf,
    /// Mask recipients, and leave out the mails' bodies
    #[arg(long)]
    pub(super) masked: bool,
    #[command(flatten)]
    filter: LetterFilter,
}

/// Send them to their campaigns' queues again; without --go only show what would be sent
///
/// A mail keeps its identity, starts again with all its attempts, and gets the next pass, so that neither
/// the merge queue nor deduplication takes it for a copy of the dead-lettered one. The dead letter is
/// deleted once SQS has acknowledged the mail. A crash in between leaves both; a second replay then has the
/// same pass, so the merge queue drops it for 5 minutes, and deduplication as long as it keeps marks.
///
/// Mail that deduplication knows as sent is never replayed. Mail that may have been sent (parked as
/// `unknown`, or without an answer to its last send) is replayed only with --include-unknown.
#[derive(Clone, Debug, Args)]
pub(super) struct DeadReplayArgs {
    /// Also mails of which it is not known whether they were sent: they may arrive twice
    #[arg(long)]
    pub(super) include_unknown: bool,
    /// Delete the dead letters of mails that deduplication knows as sent
    #[arg(long)]
    pub(super) drop_sent: bool,
    /// Mails a second [default: half the rate in force]
    #[arg(long, value_name = "RATE")]
    pub(super) rate: Option<Rate>,
    /// Wait while a campaign's queue is this many messages deeper than at the beginning
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(super) backlog: u64,
    #[command(flatten)]
    pub(super) action: ActionArgs,
}

/// Send them again with corrected bodies; without --go only show what would be sent
///
/// FILE is what `tidegate dead export FILE` wrote; a person has corrected `body` in it, which is the whole message
/// as a JSON text, and has removed the lines that are not meant. Each mail is sent as the same mail: its identity
/// stays, and all that `tidegate dead replay` says holds here, too. A body that the poller would refuse is named.
#[derive(Clone, Debug, Args)]
pub(super) struct DeadEditArgs {
    /// The corrected letters, as JSON Lines
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) replay: DeadReplayArgs,
}

/// Which dead letters a command changes, and who says so.
#[derive(Clone, Debug, Args)]
pub(super) struct ActionArgs {
    /// Do it, after asking for confirmation
    #[arg(long, requires = "reason")]
    pub(super) go: bool,
    /// Reason, for the history: 1 to 200 characters; needed with --go
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
    /// Who does it [default: the caller as AWS knows it; on a local stack the user]
    #[arg(long, value_name = "NAME")]
    pub(super) by: Option<String>,
    #[command(flatten)]
    pub(super) ask: ConfirmArgs,
    #[command(flatten)]
    pub(super) filter: LetterFilter,
}

impl DeadArgs {
    /// Which letters the command is about: all of them, unless it has conditions. Letters are changed only where a
    /// condition or `--all` says which.
    pub(super) fn filter(&self) -> CommandResult<LetterFilter> {
        let which = match &self.command {
            None | Some(DeadCommand::Show { .. }) => return Ok(LetterFilter::default()),
            Some(DeadCommand::List(which)) => which,
            Some(DeadCommand::Groups { filter, .. }) => filter,
            Some(DeadCommand::Export(args)) => &args.filter,
            Some(DeadCommand::Edit(args)) => &args.replay.action.filter,
            Some(
                DeadCommand::Replay(DeadReplayArgs { action, .. }) | DeadCommand::Discard(action),
            ) => {
                if action.filter.is_empty() {
                    let said = "which dead letters? name a condition (--code, --campaign, --id, …), or --all";
                    return Err(CommandError::Input(said.to_owned()));
                }
                &action.filter
            }
        };
        Ok(which.clone())
    }
}
