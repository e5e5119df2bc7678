use clap::Args;
use serde::Serialize;
use tidegate_core::control::ChangeRecord;
use tidegate_delivery::ports::History as _;
use tidegate_operate::page::{Page, Tone, View};
use tidegate_operate::status::{changes, masked};

use super::OnStack;
use crate::shell::{CommandError, Ended, Shell};

/// Show who changed what, and why
///
/// The newest 200 changes that operators made are kept in the ledger: pauses, lifted holds, weights,
/// caps, replays.
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// So many, the newest
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
    limit: usize,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "allowed is a whole number from 1".to_owned())
}

pub(super) async fn run(args: &HistoryArgs, shell: &Shell) -> Result<Ended, CommandError> {
    let stack = args.on.stack.open().await?;
    let kept = stack.ledger().changes().await?;
    let shown = masked(&kept, shell.output.addresses()).take(args.limit).collect();
    shell.output.show(&Kept(shown)).map_err(CommandError::Terminal)?;
    Ok(Ended::Done)
}

#[derive(Serialize)]
struct Kept(Vec<ChangeRecord>);

impl View for Kept {
    fn view(&self, page: &mut Page) {
        if self.0.is_empty() {
            page.line(Tone::Faint, "nobody has changed anything");
        } else {
            page.table(changes(&self.0));
        }
    }
}
