//! Changes by operators: who changed what, and why.

use clap::Args;
use tidegate_core::control::ChangeRecord;
use tidegate_core::format::time;
use tidegate_delivery::ports::History as _;

use crate::page::{Page, Span, TextTable, Tone, View};
use crate::redact::AddressVisibility;
use crate::shell::{CommandResult, Shell};
use crate::stack::OnStack;

/// The first `most` of `changes` for display, with addresses in reasons and details masked.
pub fn newest(
    changes: &[ChangeRecord],
    most: usize,
    addresses: AddressVisibility,
) -> Vec<ChangeRecord> {
    let masked = changes.iter().take(most).map(|change| ChangeRecord {
        detail: addresses.within(&change.detail),
        reason: addresses.within(&change.reason),
        ..change.clone()
    });
    masked.collect()
}

impl View for Vec<ChangeRecord> {
    fn view(&self, page: &mut Page) {
        if self.is_empty() {
            return page.line(Tone::Faint, "nobody has changed anything");
        }
        let mut table = TextTable::new(["when", "who", "what", "of", "", "why"]);
        for change in self {
            table.row([
                Span::from(time(change.at)),
                Span::from(&change.by),
                Span::new(Tone::Strong, &change.action),
                Span::from(change.campaign.as_deref().unwrap_or("all")),
                Span::from(&change.detail),
                Span::from(&change.reason),
            ]);
        }
        page.table(table);
    }
}

/// Show who changed what, and why
///
/// The newest 200 changes that operators made are kept in the ledger: pauses, lifted holds, weights,
/// caps, replays.
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// Number of changes to show, the newest first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(crate) async fn run(args: &HistoryArgs, shell: &Shell) -> CommandResult {
    let stack = args.on.stack.open().await?;
    let changes = stack.ledger().changes().await?;
    let newest = newest(&changes, args.limit as usize, shell.output.addresses());
    shell.done(&newest)
}
