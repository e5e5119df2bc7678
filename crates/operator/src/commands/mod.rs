//! The list of the commands, and which part of this crate runs each.

mod completions;
mod local;

use std::time::Duration;

use clap::Subcommand;

use crate::audit::command::AuditArgs;
use crate::campaign::CampaignArgs;
use crate::cancel::CancelArgs;
use crate::dead::DeadArgs;
use crate::doctor::DoctorArgs;
use crate::exclude::ExcludeArgs;
use crate::history::HistoryArgs;
use crate::limit::LimitArgs;
use crate::mcp::McpArgs;
use crate::plan::PlanArgs;
use crate::relay::RelayArgs;
use crate::results::ResultsArgs;
use crate::runs::RunsArgs;
use crate::send::SendArgs;
use crate::shell::{CommandEnd, CommandResult, Shell, say_warnings};
use crate::status::StatusArgs;
use crate::steer::command::{LiftArgs, PauseArgs, RateArgs, ResumeArgs, WeightsArgs};
use crate::store::StoreArgs;
use crate::top::TopArgs;
use crate::why::command::WhyArgs;
use crate::{
    audit, campaign, cancel, dead, doctor, exclude, history, limit, mcp, plan, relay, results,
    runs, send, status, steer, store, top, why,
};
use completions::{CompletionsArgs, ManArgs};
use local::LocalArgs;

/// How long a command that handles interrupts itself may take before it is ended from outside.
const PATIENCE: Duration = Duration::from_secs(2);

/// The commands on a stack.
#[derive(Debug, Subcommand)]
pub enum Command {
    Local(LocalArgs),
    Send(Box<SendArgs>),
    Plan(Box<PlanArgs>),
    Relay(Box<RelayArgs>),
    Top(TopArgs),
    Status(StatusArgs),
    Store(Box<StoreArgs>),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Cancel(CancelArgs),
    Campaign(CampaignArgs),
    Exclude(Box<ExcludeArgs>),
    Lift(LiftArgs),
    Weights(WeightsArgs),
    Rate(RateArgs),
    Limit(Box<LimitArgs>),
    Why(WhyArgs),
    Dead(Box<DeadArgs>),
    Results(ResultsArgs),
    History(HistoryArgs),
    Runs(RunsArgs),
    Doctor(DoctorArgs),
    Audit(AuditArgs),
    Mcp(McpArgs),
    /// Write the completions of a shell
    Completions(CompletionsArgs),
    /// Write the manual's pages
    Man(ManArgs),
}

impl Command {
    /// Whether the command handles an interrupt itself: it stops in good order and reports what it
    /// has done.
    const fn handles_interrupts(&self) -> bool {
        matches!(
            self,
            Self::Send(_)
                | Self::Plan(_)
                | Self::Relay(_)
                | Self::Top(_)
                | Self::Cancel(_)
                | Self::Dead(_)
                | Self::Results(_)
                | Self::Store(_)
        )
    }

    /// Runs it, until it ends or is interrupted.
    ///
    /// # Errors
    /// [`crate::shell::CommandError`].
    pub async fn run(self, shell: &Shell, program: clap::Command) -> CommandResult {
        // One has the terminal to itself, the other logs more than warnings.
        if !matches!(self, Self::Top(_) | Self::Relay(_)) {
            say_warnings();
        }
        let patience = if self.handles_interrupts() { PATIENCE } else { Duration::ZERO };
        tokio::select! {
            ended = self.dispatch(shell, program) => ended,
            () = shell.interrupt_ignored(patience) => Ok(CommandEnd::Interrupted),
        }
    }

    async fn dispatch(self, shell: &Shell, program: clap::Command) -> CommandResult {
        match self {
            Self::Local(args) => local::run(&args),
            Self::Send(args) => Box::pin(send::run(&args, shell)).await,
            Self::Relay(args) => Box::pin(relay::run(&args, shell)).await,
            Self::Top(args) => Box::pin(top::run(&args, shell)).await,
            Self::Status(args) => Box::pin(status::run(&args, shell)).await,
            Self::Store(args) => Box::pin(store::run(&args, shell)).await,
            Self::Pause(args) => Box::pin(steer::command::pause(&args, shell)).await,
            Self::Resume(args) => Box::pin(steer::command::resume(&args, shell)).await,
            Self::Campaign(args) => Box::pin(campaign::run(&args, shell)).await,
            Self::Cancel(args) => Box::pin(cancel::run(&args, shell)).await,
            Self::Exclude(args) => Box::pin(exclude::run(&args, shell)).await,
            Self::Lift(args) => Box::pin(steer::command::lift(&args, shell)).await,
            Self::Weights(args) => Box::pin(steer::command::weights(&args, shell)).await,
            Self::Rate(args) => Box::pin(steer::command::rate(&args, shell)).await,
            Self::Limit(args) => Box::pin(limit::run(&args, shell)).await,
            Self::Results(args) => Box::pin(results::run(&args, shell)).await,
            Self::Runs(_) => Box::pin(runs::run(shell)).await,
            Self::History(args) => Box::pin(history::run(&args, shell)).await,
            Self::Mcp(args) => Box::pin(mcp::run(&args, program)).await,
            Self::Audit(args) => Box::pin(audit::command::run(&args, shell)).await,
            Self::Doctor(args) => Box::pin(doctor::run(&args, shell)).await,
            Self::Why(args) => Box::pin(why::command::run(&args, shell)).await,
            Self::Dead(args) => Box::pin(dead::command::run(&args, shell)).await,
            Self::Plan(args) => Box::pin(plan::run(&args, shell)).await,
            Self::Completions(args) => completions::run(&args, program),
            Self::Man(args) => completions::man(&args, program),
        }
    }
}
