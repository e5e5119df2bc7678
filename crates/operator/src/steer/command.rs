use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::identity::EpochMillis;
use tidegate_core::rate::Rate;
use tidegate_delivery::ports::Clock as _;

use super::{Author, SteerAction, SteerError, SteerReport, steer};
use crate::shell::{CommandError, CommandResult, ConfirmArgs, Shell, stop_unless_confirmed};
use crate::stack::OnStack;
use crate::status::{self, Status};

/// The reason for a change, and who makes it.
#[derive(Clone, Debug, Args)]
pub(crate) struct AuthorArgs {
    /// Reason, for the history: 1 to 200 characters
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Who changes it [default: the caller as AWS knows it; on a local stack the user]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

/// Why, where something is changed and not only shown.
#[derive(Clone, Debug, Args)]
pub(crate) struct OptionalAuthorArgs {
    /// Reason, for the history: 1 to 200 characters; needed to change anything
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Who changes it [default: the caller as AWS knows it; on a local stack the user]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

/// Stop a campaign, or all sending
///
/// In force within two seconds. Mail of it that waits in the merge queue goes back to its campaign's
/// queue; nothing is lost, and nothing is sent until the pause ends.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate pause big --reason 'typo in the subject'
  tidegate pause --reason 'incident 4711' --for 2h      all sending, for two hours
  tidegate pause express --reason 'wrong template'      express mail alone")]
pub struct PauseArgs {
    /// The campaign, or `express`; without it all sending stops
    campaign: Option<String>,
    /// How long, such as `90s`, `30min`, `2h` or `1day`; without it until `tidegate resume`
    #[arg(long = "for", value_name = "LENGTH", value_parser = span)]
    length: Option<Duration>,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

/// End a pause
///
/// A campaign that is also held for another reason stays held, and the command says so.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  tidegate resume big --reason 'subject corrected'")]
pub struct ResumeArgs {
    /// The campaign, or `express`; without it all sending goes on
    campaign: Option<String>,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

/// Lift a hold, regardless of who set it
///
/// `tidegate status` shows the holds, since when they exist and why. If a hold is lifted before its cause is
/// gone, mail is refused again for the same reason; so the command asks first.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate lift refusals big --reason 'sender verified'
  tidegate lift account --reason 'sending resumed'      a hold on all sending")]
pub struct LiftArgs {
    /// The hold's reason, as `tidegate status` shows it: paused, refusals, account, reputation, …
    hold: String,
    /// The campaign that it holds, or `express`; without it a hold on all sending
    campaign: Option<String>,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    ask: ConfirmArgs,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

/// Show the weights, or override them
///
/// Without arguments they are shown. Overrides stand in the ledger until they are reset, whatever is
/// deployed meanwhile.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate weights
  tidegate weights big=80 small=20 --reason 'small is late'
  tidegate weights --reset --reason 'small has caught up'")]
pub struct WeightsArgs {
    /// New weights, 0 to 10000: shares are proportional; 0 takes a campaign's share away
    #[arg(value_name = "NAME=WEIGHT", value_parser = weight, requires = "reason")]
    weights: Vec<GivenWeight>,
    /// Go back to the configured weights
    #[arg(long, conflicts_with = "weights", requires = "reason")]
    reset: bool,
    #[command(flatten)]
    author: OptionalAuthorArgs,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

/// Show the rate, or cap it
///
/// A cap lowers the account's quota and never raises it. Refusals by SES lower the rate further.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate rate
  tidegate rate --cap 5 --reason 'the other system sends tonight'
  tidegate rate --uncap --reason 'it is done'")]
pub struct RateArgs {
    /// Recipients a second at most, 0.001 to 10000
    #[arg(long, value_name = "RATE", requires = "reason")]
    cap: Option<Rate>,
    /// Take the cap away
    #[arg(long, conflicts_with = "cap", requires = "reason")]
    uncap: bool,
    #[command(flatten)]
    author: OptionalAuthorArgs,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(crate) async fn pause(args: &PauseArgs, shell: &Shell) -> CommandResult {
    let stack = args.on.stack.open().await?;
    let until = args.length.map(|length| EpochMillis::from(stack.clock().wall() + length));
    let action = SteerAction::Pause { campaign: args.campaign.clone(), until };
    change(&stack, &action, args.author.author(&stack).await, shell).await
}

pub(crate) async fn resume(args: &ResumeArgs, shell: &Shell) -> CommandResult {
    let stack = args.on.stack.open().await?;
    let action = SteerAction::Resume { campaign: args.campaign.clone() };
    change(&stack, &action, args.author.author(&stack).await, shell).await
}

pub(crate) async fn lift(args: &LiftArgs, shell: &Shell) -> CommandResult {
    let stack = args.on.stack.open().await?;
    let of = args.campaign.as_deref().unwrap_or("all sending");
    let question = format!("Lift the hold {} of {of}?", args.hold);
    if let Some(ended) = stop_unless_confirmed(args.ask, shell, &question).await? {
        return Ok(ended);
    }
    let action = SteerAction::Lift { campaign: args.campaign.clone(), reason: args.hold.clone() };
    change(&stack, &action, args.author.author(&stack).await, shell).await
}

pub(crate) async fn weights(args: &WeightsArgs, shell: &Shell) -> CommandResult {
    let stack = args.on.stack.open().await?;
    let action = if args.reset {
        SteerAction::ResetWeights
    } else if args.weights.is_empty() {
        let facts = status::facts(&stack, shell.output.addresses(), 0).await?;
        return shell.done(&Status::of(&facts).campaigns);
    } else {
        given_weights(&args.weights)?
    };
    change(&stack, &action, args.author.author(&stack).await, shell).await
}

pub(crate) async fn rate(args: &RateArgs, shell: &Shell) -> CommandResult {
    let stack = args.on.stack.open().await?;
    if args.cap.is_none() && !args.uncap {
        let facts = status::facts(&stack, shell.output.addresses(), 0).await?;
        return shell.done(&Status::of(&facts).quota);
    }
    let action = SteerAction::Cap(args.cap);
    change(&stack, &action, args.author.author(&stack).await, shell).await
}

impl AuthorArgs {
    pub(crate) async fn author(&self, stack: &Stack) -> Author {
        author_by(stack, &self.reason, self.by.as_ref()).await
    }
}

impl OptionalAuthorArgs {
    /// The options that change something need the reason.
    async fn author(&self, stack: &Stack) -> Author {
        author_by(stack, self.reason.as_deref().unwrap_or_default(), self.by.as_ref()).await
    }
}

pub(crate) async fn author_by(stack: &Stack, reason: &str, by: Option<&String>) -> Author {
    let by = match by {
        Some(by) => by.clone(),
        None => stack.operator().await,
    };
    Author { by, reason: reason.to_owned() }
}

pub(crate) async fn change(
    stack: &Stack,
    action: &SteerAction,
    author: Author,
    shell: &Shell,
) -> CommandResult {
    let steered = steered(stack, action, &author).await?;
    shell.done(&steered)
}

/// Makes a change.
pub(crate) async fn steered(
    stack: &Stack,
    action: &SteerAction,
    author: &Author,
) -> CommandResult<SteerReport> {
    let (_, campaigns) = stack.standing().await?;
    let deployed = (&*campaigns, &stack.poller.limits);
    let steered = steer(action, author, deployed, &stack.ledger(), &stack.clock()).await;
    if steered.is_ok() && action.is_for_pollers() {
        stack.wake().await;
    }
    steered.map_err(|error| match error {
        SteerError::Ledger(error) => CommandError::Service(error),
        error if error.is_input() => CommandError::refused(error),
        error => CommandError::Unfinished(error.into()),
    })
}

pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let allowed = "allowed is a time such as 90s, 30min, 2h or 1day, up to 30 days";
    let span = humantime::parse_duration(text).ok().filter(|span| !span.is_zero());
    span.filter(|span| *span <= Duration::from_hours(24 * 30)).ok_or_else(|| allowed.to_owned())
}

/// A weight on the command line.
#[derive(Clone, Debug)]
struct GivenWeight {
    campaign: String,
    weight: u32,
}

fn weight(text: &str) -> Result<GivenWeight, String> {
    let allowed = "allowed is NAME=WEIGHT with a weight from 0 to 10000, such as big=80";
    let (name, weight) = text.split_once('=').ok_or(allowed)?;
    let weight = weight.parse().ok().filter(|weight| *weight <= 10_000 && !name.is_empty());
    Ok(GivenWeight { campaign: name.to_owned(), weight: weight.ok_or(allowed)? })
}

fn given_weights(given: &[GivenWeight]) -> CommandResult<SteerAction> {
    let weights: BTreeMap<String, u32> =
        given.iter().map(|given| (given.campaign.clone(), given.weight)).collect();
    if weights.len() < given.len() {
        return Err(CommandError::Input("a campaign's weight is given twice".to_owned()));
    }
    Ok(SteerAction::Weights(weights))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_a_whole_number_up_to_ten_thousand() {
        for (text, expected) in [("big=80", 80), ("a=0", 0), ("a=10000", 10_000)] {
            assert_eq!(weight(text).unwrap().weight, expected, "{text}");
        }
        for text in ["big", "=5", "big=10001", "big=-1", "news=5..60", "news=x"] {
            let error = weight(text).unwrap_err();
            assert!(
                error.starts_with("allowed is NAME=WEIGHT with a weight from 0"),
                "{text}: {error}"
            );
        }
    }
}
