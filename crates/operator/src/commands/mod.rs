//! The commands: options, and how each is put onto a stack.

pub(crate) mod cancel;
mod completions;
mod deferred;
mod exclude;
mod history;
mod limit;
mod local;
mod status;
pub(crate) mod steer;
mod why;

use std::time::Duration;

use crate::dead;
use clap::Subcommand;

use crate::plan::PlanArgs;
use crate::results::ResultsArgs;
use crate::runs::RunsArgs;
use crate::send::SendArgs;
use crate::shell::{CommandEnd, CommandError, OutputArgs, Shell, say_warnings};

pub use crate::dead::DeadArgs;
pub use crate::doctor::DoctorArgs;
pub use crate::top::TopArgs;
pub use cancel::CancelArgs;
pub use completions::{CompletionsArgs, ManArgs};
pub use deferred::DeferredArgs;
pub use exclude::ExcludeArgs;
pub use history::HistoryArgs;
pub use limit::LimitArgs;
pub use local::LocalArgs;
pub use status::StatusArgs;
pub use steer::{LiftArgs, PauseArgs, RateArgs, ResumeArgs, WeightsArgs};
pub use why::WhyArgs;

/// How long a command that handles interrupts itself may take before it is ended from outside.
const PATIENCE: Duration = Duration::from_secs(2);

/// The commands on a stack.
#[derive(Debug, Subcommand)]
pub enum Command {
    Local(LocalArgs),
    Send(Box<SendArgs>),
    Plan(Box<PlanArgs>),
    Top(TopArgs),
    Status(StatusArgs),
    Deferred(Box<DeferredArgs>),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Cancel(CancelArgs),
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
    /// Write the completions of a shell
    Completions(CompletionsArgs),
    /// Write the manual's pages
    Man(ManArgs),
}

impl Command {
    pub fn output(&self) -> Option<OutputArgs> {
        match self {
            Self::Send(args) => Some(args.on.output),
            Self::Top(args) => Some(args.on.output),
            Self::Status(args) => Some(args.on.output),
            Self::Deferred(args) => Some(args.output()),
            Self::Pause(args) => Some(args.on.output),
            Self::Resume(args) => Some(args.on.output),
            Self::Cancel(args) => Some(args.on.output),
            Self::Exclude(args) => Some(args.output()),
            Self::Lift(args) => Some(args.on.output),
            Self::Weights(args) => Some(args.on.output),
            Self::Rate(args) => Some(args.on.output),
            Self::Limit(args) => Some(args.output()),
            Self::Results(args) => Some(args.on.output),
            Self::History(args) => Some(args.on.output),
            Self::Doctor(args) => Some(args.on.output),
            Self::Why(args) => Some(args.on.output),
            Self::Dead(args) => Some(args.output()),
            Self::Plan(args) => Some(args.on.output),
            Self::Runs(args) => Some(args.output),
            Self::Local(_) | Self::Completions(_) | Self::Man(_) => None,
        }
    }

    /// Whether the command handles an interrupt itself: it stops in good order and reports what it
    /// has done.
    const fn handles_interrupts(&self) -> bool {
        matches!(
            self,
            Self::Send(_)
                | Self::Plan(_)
                | Self::Top(_)
                | Self::Cancel(_)
                | Self::Dead(_)
                | Self::Results(_)
                | Self::Deferred(_)
        )
    }

    /// Runs it, until it ends or is interrupted.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn run(
        self,
        shell: &Shell,
        program: clap::Command,
    ) -> Result<CommandEnd, CommandError> {
        // It has the terminal to itself.
        if !matches!(self, Self::Top(_)) {
            say_warnings();
        }
        let patience = if self.handles_interrupts() { PATIENCE } else { Duration::ZERO };
        tokio::select! {
            ended = self.dispatch(shell, program) => ended,
            () = shell.interrupt_ignored(patience) => Ok(CommandEnd::Interrupted),
        }
    }

    async fn dispatch(
        self,
        shell: &Shell,
        program: clap::Command,
    ) -> Result<CommandEnd, CommandError> {
        match self {
            Self::Local(args) => local::run(&args),
            Self::Send(args) => Box::pin(crate::send::run(&args, shell)).await,
            Self::Top(args) => Box::pin(crate::top::run(&args, shell)).await,
            Self::Status(args) => Box::pin(status::run(&args, shell)).await,
            Self::Deferred(args) => Box::pin(deferred::run(&args, shell)).await,
            Self::Pause(args) => Box::pin(steer::pause(&args, shell)).await,
            Self::Resume(args) => Box::pin(steer::resume(&args, shell)).await,
            Self::Cancel(args) => Box::pin(cancel::run(&args, shell)).await,
            Self::Exclude(args) => Box::pin(exclude::run(&args, shell)).await,
            Self::Lift(args) => Box::pin(steer::lift(&args, shell)).await,
            Self::Weights(args) => Box::pin(steer::weights(&args, shell)).await,
            Self::Rate(args) => Box::pin(steer::rate(&args, shell)).await,
            Self::Limit(args) => Box::pin(limit::limit(&args, shell)).await,
            Self::Results(args) => Box::pin(crate::results::run(&args, shell)).await,
            Self::Runs(_) => Box::pin(crate::runs::run(shell)).await,
            Self::History(args) => Box::pin(history::run(&args, shell)).await,
            Self::Doctor(args) => Box::pin(crate::doctor::run(&args, shell)).await,
            Self::Why(args) => Box::pin(why::run(&args, shell)).await,
            Self::Dead(args) => Box::pin(dead::command::run(&args, shell)).await,
            Self::Plan(args) => Box::pin(crate::plan::run(&args, shell)).await,
            Self::Completions(args) => completions::run(&args, program),
            Self::Man(args) => completions::man(&args, program),
        }
    }
}
