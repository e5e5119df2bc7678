//! Changes by operators: who changed what, and why.

use tidegate_core::control::ChangeRecord;

use crate::page::{Page, Span, TextTable, Tone, View};
use crate::redact::AddressVisibility;
use tidegate_core::format::time;

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
