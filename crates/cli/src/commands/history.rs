use clap::Args;
use serde::Serialize;
use tidegate_core::control::ChangeRecord;
use tidegate_delivery::ports::History as _;
use tidegate_operate::page::{Page, Tone, View};
use tidegate_operate::status::{changes, masked};

use super::OnStack;
use crate::shell::{CommandEnd, CommandError, Shell};

/// Show who changed what, and why
///
/// The newest 200 changes that operators made are kept in the ledger: pauses, lifted holds, weights,
/// caps, replays.
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// Number of changes to show, the newest first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
    limit: usize,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "allowed is a whole number from 1".to_owned())
}

pub(super) async fn run(args: &HistoryArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let changes_made = stack.ledger().changes().await?;
    let shown = masked(&changes_made, shell.output.addresses()).take(args.limit).collect();
    shell.output.show(&ChangeHistory(shown)).map_err(CommandError::Terminal)?;
    Ok(CommandEnd::Done)
}

#[derive(Serialize)]
struct ChangeHistory(Vec<ChangeRecord>);

impl View for ChangeHistory {
    fn view(&self, page: &mut Page) {
        if self.0.is_empty() {
            page.line(Tone::Faint, "nobody has changed anything");
        } else {
            page.table(changes(&self.0));
        }
    }
}
