//! Runs `tidegate deferred`: lists deferred mail, or replays it.

use std::cell::RefCell;

use crate::deferral::{DeferralReplayReport, list};
use crate::page::{Page, Tone};
use clap::{Args, Subcommand};
use tidegate_adapters::aws::stack::Stack;
use tidegate_adapters::aws::{S3DeferralStore, SystemEntropy};
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::deferral::Location;
use tidegate_core::format::counted;
use tidegate_delivery::back_pressure::destinations;
use tidegate_delivery::ports::{Clock as _, Entropy as _};
use tidegate_delivery::replay::{Bounds, DeferralReplayPorts, bring_back};

use crate::shell::stop_unless_confirmed;
use crate::shell::{CommandEnd, CommandError, ConfirmArgs, OutputArgs, Shell};
use crate::stack::OnStack;

/// Show deferred mail, or bring it back
///
/// Without a command it is listed.
///
/// While the level is above clear, mail that is not urgent is taken out of its queue and written to S3,
/// an object a campaign and second. The scheduler brings it back, the oldest first, once the level has
/// been clear for ten minutes.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DeferredArgs {
    #[command(subcommand)]
    command: Option<DeferredCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Clone, Debug, Subcommand)]
enum DeferredCommand {
    /// Show what is deferred, by campaign
    List(ListArgs),
    /// Bring it back to its campaigns' queues, the oldest first
    Replay(ReplayArgs),
}

/// Show what is deferred, by campaign
///
/// Exit code: 0; 2 where deferral is off; 3 where the stack or S3 cannot be reached.
#[derive(Clone, Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    on: OnStack,
}

/// Bring it back to its campaigns' queues, the oldest first
///
/// Killed anywhere it loses nothing, and the same command goes on where it was. While the level is above
/// clear nothing is brought back: it would be deferred again.
///
/// Exit code: 0 all that was meant is back; 1 some was left, or the level is above clear; 2 an option is
/// wrong or deferral is off; 3 a service failed, run it again; 4 not confirmed; 130 interrupted.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate deferred replay                            all of it, after asking
  tidegate deferred replay --campaign big --limit 1000 --yes")]
struct ReplayArgs {
    /// Of this campaign alone
    #[arg(long, value_name = "NAME")]
    campaign: Option<String>,
    /// So many mails at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Bring it back whatever the level: what is deferred by then is deferred again
    #[arg(long)]
    even_if_deferred: bool,
    #[command(flatten)]
    ask: ConfirmArgs,
    #[command(flatten)]
    on: OnStack,
}

impl DeferredArgs {
    pub(super) const fn output(&self) -> OutputArgs {
        match &self.command {
            None => self.list.on.output,
            Some(DeferredCommand::List(args)) => args.on.output,
            Some(DeferredCommand::Replay(args)) => args.on.output,
        }
    }
}

pub(super) async fn run(args: &DeferredArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    match &args.command {
        None => listed(&args.list, shell).await,
        Some(DeferredCommand::List(args)) => listed(args, shell).await,
        Some(DeferredCommand::Replay(args)) => Box::pin(replayed(args, shell)).await,
    }
}

/// The store, and where it is.
fn deferral(stack: &Stack) -> Result<(S3DeferralStore, Location), CommandError> {
    let location = stack.deferral().ok_or_else(|| {
        let said = "deferral is off in this stack: its functions have no TIDEGATE_DEFERRAL";
        CommandError::Input(said.to_owned())
    })?;
    Ok((stack.clients().deferral(location.clone()), location))
}

async fn listed(args: &ListArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let (deferral, location) = deferral(&stack)?;
    let (_, campaigns) = stack.standing().await?;
    let names: Vec<String> = campaigns.into_iter().map(|campaign| campaign.name).collect();
    let now = stack.clock().wall().into();
    let listed = list(&deferral, &location.to_string(), &names, now).await?;
    shell.output.show(&listed).map_err(CommandError::Terminal)?;
    Ok(CommandEnd::Done)
}

async fn replayed(args: &ReplayArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let (deferral, location) = deferral(&stack)?;
    let (standing, campaigns) = stack.standing().await?;
    let names: Vec<String> = campaigns.iter().map(|campaign| campaign.name.clone()).collect();
    if let Some(unknown) = args.campaign.as_ref().filter(|name| !names.contains(name)) {
        let known = names.join(", ");
        return Err(CommandError::Input(format!(
            "there is no campaign {unknown}; there is {known}"
        )));
    }
    let clock = stack.clock();
    let level = standing.control.level(clock.wall().into());
    if level > BackPressureLevel::Clear && !args.even_if_deferred {
        let said =
            format!("The level is {level}: what is brought back now would be deferred again.");
        let mut page = Page::default();
        page.line(Tone::Warning, said);
        shell.output.say(&page);
        return Ok(CommandEnd::ProblemsFound);
    }
    let listed = list(&deferral, &location.to_string(), &names, clock.wall().into()).await?;
    let of = match &args.campaign {
        Some(name) => listed.campaigns.get(name).copied().unwrap_or_default(),
        None => listed.all,
    };
    let mails = args.limit.map_or(of.mails, |limit| limit.min(of.mails));
    let question = format!("Bring {} back to their queues?", counted(mails, "message"));
    if mails > 0
        && let Some(ended) = stop_unless_confirmed(args.ask, shell, &question).await?
    {
        return Ok(ended);
    }
    let destinations = destinations(&campaigns, &standing, clock.wall());
    let (queues, me) = (stack.queues(), SystemEntropy.token());
    let site = DeferralReplayPorts {
        deferral: &deferral,
        queues: &queues,
        clock: &clock,
        destinations: &destinations,
        me: &me,
    };
    let bounds = Bounds {
        mails: args.limit.unwrap_or(u64::MAX),
        until: None,
        campaign: args.campaign.clone(),
    };
    let done = RefCell::default();
    let (ended, interrupted) = tokio::select! {
        ended = bring_back(site, &bounds, &done) => (ended, false),
        () = shell.interrupted() => (Ok(()), true),
    };
    let report = DeferralReplayReport { done: done.take(), interrupted };
    shell.output.show(&report).map_err(CommandError::Terminal)?;
    ended?;
    Ok(match report {
        DeferralReplayReport { interrupted: true, .. } => CommandEnd::Interrupted,
        DeferralReplayReport { done, .. } if done.left.is_empty() => CommandEnd::Done,
        DeferralReplayReport { .. } => CommandEnd::ProblemsFound,
    })
}
