//! The report of an input that was checked without a stack.

use serde::Serialize;
use tidegate_core::channel::Channel;

use super::check::InputSummary;
use super::notes::MailNotes;
use super::text::TextTally;
use crate::page::{Page, Span, Tone, View};
use tidegate_core::format::{bytes, counted};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InputReport {
    pub channel: Channel,
    pub file: String,
    /// Rows that would get a message.
    pub rows: u64,
    /// Rows whose recipient is excluded.
    pub excluded: u64,
    pub bytes: u64,
    pub largest_bytes: u64,
    /// Parts and prices, if they are text messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texts: Option<TextTally>,
    pub notes: MailNotes,
}

impl InputReport {
    pub fn new(file: String, checked: InputSummary) -> Self {
        let InputSummary { channel, rows, excluded, bytes, largest, texts, notes, .. } = checked;
        Self { channel, file, rows, excluded, bytes, largest_bytes: largest, texts, notes }
    }
}

impl View for InputReport {
    fn view(&self, page: &mut Page) {
        let message = self.channel.words().message;
        page.heading(format!("{} in {}", counted(self.rows, message), self.file));
        let size = format!("{}, the largest {}", bytes(self.bytes), bytes(self.largest_bytes));
        let excluded = counted(self.excluded, "row");
        page.fields([("excluded", Span::from(excluded)), ("size", Span::from(size))]);
        self.texts.iter().for_each(|texts| texts.view(page));
        self.notes.view(page);
        let said =
            "Checked without a stack: its quota, its queues, and what it allows are not known.";
        page.line(Tone::Faint, said);
    }
}
