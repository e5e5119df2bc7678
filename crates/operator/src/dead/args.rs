use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tidegate_core::identity::EpochMillis;
use tidegate_core::rate::Rate;

use super::letter::LetterFilter;
use super::list::Grouping;
use crate::shell::{CommandError, ConfirmArgs};
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
    List(FilterArgs),
    /// Show one dead letter with all its fields
    Show(DeadShowArgs),
    /// Count them by what they have in common
    Groups(GroupsArgs),
    /// Write them to a file, as JSON Lines
    Export(ExportArgs),
    /// Send them to their campaigns' queues again; without --go only show what would be sent
    Replay(Box<DeadReplayArgs>),
    /// Send them again with corrected bodies; without --go only show what would be sent
    Edit(Box<DeadEditArgs>),
    /// Delete them for good; without --go only show which
    Discard(Box<DeadDiscardArgs>),
}

/// Which letters: those that meet every condition; a condition given twice is met by either.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which")]
pub(super) struct FilterArgs {
    /// All of them: needed where no condition is given and they are changed
    #[arg(long)]
    all: bool,
    /// A mail's `id`, its identity, or an SQS message id
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// Only mail of this campaign
    #[arg(long, value_name = "NAME")]
    campaign: Vec<String>,
    /// Why they are dead letters, such as `MessageRejected`, or `cancelled`
    #[arg(long, value_name = "CODE")]
    code: Vec<String>,
    /// Only mail to this recipient domain
    #[arg(long, value_name = "DOMAIN")]
    domain: Vec<String>,
    /// Dead-lettered since: a time such as 2026-11-20T20:00:00Z, or a span such as 2h ago
    #[arg(long, value_name = "TIME", value_parser = time_or_age)]
    since: Option<TimeOrAge>,
    /// Dead-lettered before: a time, or a span
    #[arg(long, value_name = "TIME", value_parser = time_or_age)]
    until: Option<TimeOrAge>,
    /// Only those of which it is not known whether they were sent
    #[arg(long)]
    unknown: bool,
}

#[derive(Clone, Debug, Args)]
pub(super) struct DeadShowArgs {
    /// The mail's `id`, its identity, or an SQS message id
    pub(super) id: String,
    /// Show the body of the mail, too
    #[arg(long)]
    pub(super) body: bool,
}

#[derive(Clone, Debug, Args)]
pub(super) struct GroupsArgs {
    /// Property to group dead letters by
    #[arg(long, value_name = "WHAT", default_value = "reason")]
    pub(super) by: Grouping,
    #[command(flatten)]
    filter: FilterArgs,
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
    filter: FilterArgs,
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
    #[command(flatten)]
    pub(super) pace: PaceArgs,
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

/// Delete them for good; without --go only show which
///
/// The history records who deleted how many, by which conditions, and why. `tidegate dead export` keeps a copy.
#[derive(Clone, Debug, Args)]
pub(super) struct DeadDiscardArgs {
    #[command(flatten)]
    pub(super) action: ActionArgs,
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
    pub(super) filter: FilterArgs,
}

/// Speed of a replay, and when it pauses.
#[derive(Clone, Debug, Args)]
pub(super) struct PaceArgs {
    /// Delete the dead letters of mails that deduplication knows as sent
    #[arg(long)]
    pub(super) drop_sent: bool,
    /// Mails a second [default: half the rate in force]
    #[arg(long, value_name = "RATE")]
    pub(super) rate: Option<Rate>,
    /// Wait while a campaign's queue is this many messages deeper than at the beginning
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(super) backlog: u64,
}

impl DeadArgs {
    /// Which letters the command is about: all of them, unless it has conditions.
    pub(super) fn filter(&self, now: EpochMillis) -> LetterFilter {
        let conditions = match &self.command {
            None | Some(DeadCommand::Show(_)) => None,
            Some(DeadCommand::List(filter)) => Some(filter),
            Some(DeadCommand::Groups(args)) => Some(&args.filter),
            Some(DeadCommand::Export(args)) => Some(&args.filter),
            Some(DeadCommand::Replay(args)) => Some(&args.action.filter),
            Some(DeadCommand::Edit(args)) => Some(&args.replay.action.filter),
            Some(DeadCommand::Discard(args)) => Some(&args.action.filter),
        };
        conditions.map(|conditions| conditions.filter(now)).unwrap_or_default()
    }
}

impl FilterArgs {
    /// Letters are changed only where a condition or `--all` says which.
    pub(super) fn check(&self) -> Result<(), CommandError> {
        if self.all || !self.filter(EpochMillis::MAX).is_empty() {
            return Ok(());
        }
        let said = "which dead letters? name a condition (--code, --campaign, --id, …), or --all";
        Err(CommandError::Input(said.to_owned()))
    }

    fn filter(&self, now: EpochMillis) -> LetterFilter {
        LetterFilter {
            ids: self.id.clone(),
            campaigns: self.campaign.clone(),
            codes: self.code.clone(),
            domains: self.domain.clone(),
            since: self.since.map(|since| since.before(now)),
            until: self.until.map(|until| until.before(now)),
            unknown: self.unknown,
        }
    }
}

/// A time, or a span before now.
#[derive(Clone, Copy, Debug)]
enum TimeOrAge {
    At(EpochMillis),
    Ago(Duration),
}

impl TimeOrAge {
    fn before(self, now: EpochMillis) -> EpochMillis {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => {
                let span = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
                EpochMillis::new(now.as_millis().saturating_sub(span))
            }
        }
    }
}

fn time_or_age(text: &str) -> Result<TimeOrAge, String> {
    if let Ok(at) = text.parse() {
        return Ok(TimeOrAge::At(at));
    }
    let span = humantime::parse_duration(text).map_err(|_| {
        "allowed is a time such as 2026-11-20T20:00:00Z, or a span such as 90s, 30min, 2h or 1day"
    })?;
    Ok(TimeOrAge::Ago(span))
}
