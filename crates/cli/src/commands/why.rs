use clap::Args;
use tidegate_operate::why::{MailQuery, explain, gather};
use tidegate_views::status::facts;

use super::OnStack;
use super::dead::read;
use crate::shell::{CommandEnd, CommandError, Shell};

/// Find out what is known of a mail, and what it waits for if it waits
///
/// SQS cannot be searched by id. What is known of a mail stands in deduplication's marks, where
/// it is on, and on the dead-letter queue, which is read without taking anything off it. If neither
/// names it, the answer says what can have become of it, and what mail of its campaign waits for.
///
/// Exit code: 0; 3 where the stack or a service cannot be reached.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate why order-4711 --campaign receipts
  tidegate why news/id/4711                     a whole identity, as the poller logs it
  tidegate why 5a1f0c52-77aa-4e0f-a1d2-1f4e52d1c7b1   an SQS message id")]
pub struct WhyArgs {
    /// The mail's `id`, an SQS message id, or a whole identity (campaign/id/…)
    id: String,
    /// The mail's campaign, or `express`; without it every campaign is looked at
    #[arg(long, value_name = "NAME")]
    campaign: Option<String>,
    /// Dead letters to read at most
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(super) async fn run(args: &WhyArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let status = facts(&stack, shell.output.addresses(), 0).await?;
    let reading = read(&stack, args.limit, shell).await?;
    if reading.coverage.interrupted {
        return Ok(CommandEnd::Interrupted);
    }
    let asked = MailQuery { id: args.id.clone(), campaign: args.campaign.clone() };
    let poller = stack.poller.clone();
    let facts = gather(asked, status, poller, &reading, &stack.ledger()).await?;
    shell.output.show(&explain(&facts)).map_err(CommandError::Terminal)?;
    Ok(CommandEnd::Done)
}
