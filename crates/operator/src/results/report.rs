use std::collections::BTreeMap;

use serde::Serialize;

use super::{RowResult, RowStatus, RunFacts, RunJournal};
use crate::page::{Page, Span, TextTable, Tone, View};
use tidegate_core::format::{count, counted, span};

/// The number of rows of each status, and the limits of these figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResultsReport {
    pub campaign: String,
    pub run: String,
    pub journal: String,
    pub rows: u64,
    pub by_status: BTreeMap<RowStatus, u64>,
    pub notes: Vec<String>,
}

impl ResultsReport {
    pub(super) fn new(journal: &RunJournal, facts: &RunFacts) -> Self {
        let mut notes = Vec::new();
        match facts.marks_kept {
            None => notes.push(
                "Deduplication is off, so nothing records that a message was sent. TIDEGATE_DEDUPLICATION=resend (or park) records it, for about $1.29 per million messages.".to_owned(),
            ),
            Some(kept) if !facts.has_marks => notes.push(format!(
                "The run began more than {} ago, and marks are kept no longer: no record is left of what was sent.",
                span(kept)
            )),
            Some(_) => {}
        }
        if facts.cancelled > 0 && !facts.has_marks {
            let cancelled = counted(facts.cancelled, "message");
            notes.push(format!(
                "Since it began, {cancelled} of the campaign were cancelled; no record says which."
            ));
        }
        if facts.unread > 0 {
            let unread = counted(facts.unread, "dead letter");
            notes.push(format!("{unread} could not be read: another reader has them (try again later), or they are too many."));
        }
        Self {
            campaign: journal.header.campaign.clone(),
            run: journal.header.run.clone(),
            journal: journal.path.clone(),
            rows: 0,
            by_status: BTreeMap::new(),
            notes,
        }
    }

    pub(super) fn count(&mut self, result: &RowResult) {
        self.rows += 1;
        *self.by_status.entry(result.status).or_default() += 1;
    }

    pub(super) fn concluded(mut self, facts: &RunFacts) -> Self {
        let waiting = self.by_status.get(&RowStatus::Waiting).copied().unwrap_or(0);
        if waiting > facts.queued {
            self.notes.push(format!(
                "{} wait by their marks, and the queues have about {}: SQS counts approximately and up to a minute late.",
                count(waiting),
                count(facts.queued)
            ));
        }
        self
    }
}

impl View for ResultsReport {
    fn view(&self, page: &mut Page) {
        let head = format!("{}, run {}: {}", self.campaign, self.run, counted(self.rows, "row"));
        page.line(Tone::Strong, head);
        let mut table = TextTable::bare().right(1);
        for (status, rows) in &self.by_status {
            let tone = match status {
                RowStatus::Sent => Tone::Good,
                RowStatus::Dead | RowStatus::Dropped | RowStatus::Unknown => Tone::Bad,
                RowStatus::Bounced | RowStatus::Complained | RowStatus::Suppressed => Tone::Warning,
                _ => Tone::Plain,
            };
            let name = status.into_str().replace('_', " ");
            table.row([Span::new(tone, name), Span::from(count(*rows))]);
        }
        page.table(table);
        for note in &self.notes {
            page.line(Tone::Warning, note);
        }
    }
}
