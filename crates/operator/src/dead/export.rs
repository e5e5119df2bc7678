use std::io::{self, Write};

use serde::Serialize;
use tidegate_core::identity::EpochMillis;

use super::filter::LetterFilter;
use super::letter::Doubt;
use super::read::{Coverage, LetterSnapshot};
use super::report::show;
use crate::page::{Page, Tone, View};
use crate::redact::AddressVisibility;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    pub letters: u64,
    /// Of these, mails that may have been sent although they are dead-lettered.
    pub perhaps_sent: u64,
    /// Of these, messages that Tidegate did not write.
    pub foreign: u64,
    /// Whether recipients' addresses and original bodies were exported.
    pub whole: bool,
    /// The part of the queue that was read.
    pub coverage: Coverage,
}

/// Writes the letters that match `filter` as JSON Lines. With `whole` they include recipients and
/// original bodies; without it recipients are masked and bodies are left out.
///
/// # Errors
/// The writer's.
pub fn export(
    reading: &LetterSnapshot,
    filter: &LetterFilter,
    now: EpochMillis,
    whole: bool,
    to: &mut impl Write,
) -> io::Result<ExportReport> {
    let addresses = if whole { AddressVisibility::Shown } else { AddressVisibility::Masked };
    let mut exported =
        ExportReport { letters: 0, perhaps_sent: 0, foreign: 0, whole, coverage: reading.coverage };
    for letter in reading.letters.iter().filter(|letter| filter.admits(letter)) {
        let one = LetterSnapshot { letters: vec![letter.clone()], coverage: reading.coverage };
        for line in show(&one, &letter.message_id, now, addresses, whole) {
            serde_json::to_writer(&mut *to, &line)?;
            to.write_all(b"\n")?;
            exported.letters += 1;
            exported.perhaps_sent += u64::from(line.row.doubt != Doubt::None);
            exported.foreign += u64::from(line.row.foreign.is_some());
        }
    }
    to.flush()?;
    Ok(exported)
}

impl View for ExportReport {
    fn view(&self, page: &mut Page) {
        page.line(Tone::Good, format!("{} letters exported", self.letters));
        if self.whole {
            page.line(Tone::Warning, "the file holds recipients' addresses and whole mails");
        } else {
            page.line(Tone::Faint, "recipients are masked, and the mails' bodies are left out");
        }
        self.coverage.view(page);
    }
}
