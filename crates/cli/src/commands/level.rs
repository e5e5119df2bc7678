use clap::Args;
use tidegate_aws::stack::Stack;
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::deferral::Location;
use tidegate_delivery::ports::Clock as _;
use tidegate_operate::deferral::left;
use tidegate_operate::level::LevelReport;

use super::OnStack;
use crate::shell::{CommandEnd, CommandError, Shell};

/// Ask how high the back-pressure is, and what it defers
///
/// The scheduler judges once a minute how long the backlog takes, how long mail had waited on average
/// when it was sent, and how much SES refuses. At `busy` mail of low priority is deferred, at
/// `overloaded` of normal priority as well.
///
/// Exit code: 0 clear; 1 above it; 3 where the stack cannot be reached.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate level                                       what it is, and by what it was judged
  tidegate level --json | jq -r .level                 for machines
  tidegate level >/dev/null && ./enqueue-newsletter    only while it is clear")]
pub struct LevelArgs {
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(super) async fn run(args: &LevelArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let (standing, _) = stack.standing().await?;
    let policy = stack.scheduler.back_pressure.as_ref().map(|back_pressure| &back_pressure.policy);
    let now = stack.clock().wall().into();
    let location = stack.deferral();
    let deferral = location.as_ref().map(ToString::to_string);
    let report = LevelReport::of(standing.control.back_pressure.as_ref(), policy, deferral, now);
    let report = LevelReport { deferred_mails: deferred(&stack, location).await, ..report };
    shell.output.show(&report).map_err(CommandError::Terminal)?;
    Ok(if report.level == BackPressureLevel::Clear {
        CommandEnd::Done
    } else {
        CommandEnd::ProblemsFound
    })
}

/// How many mails are deferred; none if deferral is off, or S3 does not tell.
async fn deferred(stack: &Stack, location: Option<Location>) -> Option<u64> {
    let left = left(&stack.clients().deferral(location?)).await.ok()?;
    Some(left.values().sum())
}
