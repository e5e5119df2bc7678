use std::collections::BTreeMap;

use serde::Serialize;

use super::account::{AccountVerdict, RunAccount, Tolerance};
use super::{RowStatus, RunFacts, RunJournal};
use crate::page::{Page, Span, TextTable, Tone, View};
use crate::suggest::SuggestedCommand;
use tidegate_core::format::{count, counted, span};
use tidegate_core::identity::EpochMillis;

/// The number of rows of each status, and the limits of these figures.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize)]
pub struct ResultsReport {
    pub campaign: String,
    pub run: String,
    pub journal: String,
    pub rows: u64,
    pub by_status: BTreeMap<RowStatus, u64>,
    /// The end of the run; `None` if it is not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<EpochMillis>,
    pub account: RunAccount,
    pub notes: Vec<String>,
}

impl ResultsReport {
    pub(super) fn new(
        journal: &RunJournal,
        facts: &RunFacts,
        by_status: BTreeMap<RowStatus, u64>,
    ) -> Self {
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
        if facts.since.cancelled > 0 && !facts.has_marks {
            let cancelled = counted(facts.since.cancelled, "message");
            notes.push(format!(
                "Since it began, {cancelled} of the campaign were cancelled; no record says which."
            ));
        }
        let rows = |status| by_status.get(&status).copied().unwrap_or(0);
        Self {
            campaign: journal.header.campaign.clone(),
            run: journal.header.run.clone(),
            journal: journal.path.clone(),
            rows: by_status.values().sum(),
            ended: journal.ended,
            account: RunAccount::of(journal, facts, rows),
            by_status,
            notes,
        }
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
                RowStatus::Dead | RowStatus::Dropped | RowStatus::Missing | RowStatus::Unknown => {
                    Tone::Bad
                }
                RowStatus::Bounced | RowStatus::Complained | RowStatus::Suppressed => Tone::Warning,
                _ => Tone::Plain,
            };
            let name = status.into_str().replace('_', " ");
            table.row([Span::new(tone, name), Span::from(count(*rows))]);
        }
        page.table(table);
        let account = &self.account;
        if let Some(sent) = account.sent_by_counts {
            let (sent, queued) = (count(sent), counted(account.queued, "message"));
            page.line(Tone::Plain, format!("by the ledger's counters {sent} were sent since it began, whoever enqueued them; {queued} on the queues"));
        }
        let (tone, verdict) = account.in_words();
        page.line(tone, verdict);
        let is_plain = account.missing == 0 && account.verdict == AccountVerdict::Balanced;
        for Tolerance { mails, why } in account.tolerances.iter().filter(|_| !is_plain) {
            page.line(Tone::Faint, format!("tolerance: {} {why}", count(*mails)));
        }
        if self.by_status.contains_key(&RowStatus::Dead) {
            let dead = SuggestedCommand::Dead;
            page.line(Tone::Faint, format!("{dead} shows what is dead, and why."));
        }
        for note in &self.notes {
            page.line(Tone::Warning, note);
        }
    }
}
