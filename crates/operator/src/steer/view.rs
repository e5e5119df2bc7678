use super::SteerReport;
use crate::page::{Page, Span, Tone, View};
use crate::suggest::SuggestedCommand;

impl View for SteerReport {
    fn view(&self, page: &mut Page) {
        let of = self.record.campaign.as_deref().unwrap_or("all");
        let what = format!("{} {of}: {}", self.record.action, self.record.detail);
        if self.changed {
            page.spans([
                Span::new(Tone::Good, "done "),
                Span::from(what),
                Span::new(Tone::Faint, format!(", in force within {} s", self.in_force_within_s)),
            ]);
            page.line(Tone::Faint, format!("by {}: {}", self.record.by, self.record.reason));
        } else {
            page.line(Tone::Plain, format!("{what} (nothing to change)"));
        }
        if self.changed && !self.recorded {
            page.line(
                Tone::Warning,
                "the change stands, but the history does not have it: the ledger did not answer",
            );
        }
        if !self.still_held.is_empty() {
            let held = self.still_held.join(", ");
            page.line(
                Tone::Warning,
                format!("still held for {held}: see `{}`", SuggestedCommand::Status),
            );
        }
    }
}
