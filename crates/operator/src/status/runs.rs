use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::counters::{Counter, at_least_0};
use tidegate_core::identity::EpochMillis;
use tidegate_core::number::real;
use tidegate_core::runs::{Baseline, RowRanges, RunStage, UploadedRows};

use super::{CampaignStatus, StackFacts};
use crate::page::{Page, Span, TextTable, Tone, View};
use tidegate_core::format::{count, percent, time};

/// A run that has ended is shown for a day.
const SHOWN_MS: u64 = 86_400_000;

/// A run, with what became of its mail by the campaign's sums since it began and by what waits. The sums do not say of
/// which run a mail was: mail that others put onto the campaign's queues meanwhile counts in.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize)]
// More than 12 fields: one for each column of its row.
pub struct RunStatus {
    pub campaign: String,
    pub name: String,
    pub stage: RunStage,
    pub host: String,
    pub began: EpochMillis,
    /// Rows that get a message.
    pub rows: u64,
    pub enqueued: u64,
    /// Enqueued, and on the campaign's queues.
    pub waiting: u64,
    pub sent: u64,
    /// Dead letters.
    pub failed: u64,
    pub cancelled: u64,
    /// Rows that somebody will enqueue: they are in no queue yet.
    pub to_come: u64,
    /// The runs that were begun for its rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rest: Vec<String>,
    /// Of rows that the stack enqueues: which got which version of the template, and which were refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uploaded: Option<UploadedRows>,
}

/// The runs that are under way or unfinished, and those of the last day, the newest first.
pub(super) fn runs(facts: &StackFacts, campaigns: &[CampaignStatus]) -> Vec<RunStatus> {
    let mut left: BTreeMap<&str, u64> =
        campaigns.iter().map(|own| (own.name.as_str(), own.backlog.all())).collect();
    let mut until: BTreeMap<&str, Baseline> = BTreeMap::new();
    let now = EpochMillis::from(facts.at);
    let mut shown = Vec::new();
    for run in &facts.runs {
        let sum = |counter: Counter| counter.sum_of(&run.campaign, &facts.standing.counters);
        let ended = until.get(run.campaign.as_str()).copied().unwrap_or(Baseline {
            dead: sum(Counter::Dead),
            cancelled: sum(Counter::Cancelled),
            ..Baseline::default()
        });
        let queued = left.entry(run.campaign.as_str()).or_default();
        // The newest run's mail came last: what waits is its own first.
        let waiting = run.enqueued.saturating_sub(run.returned.count()).min(*queued);
        *queued -= waiting;
        let gone = run.enqueued - waiting;
        let since = |ended, before| at_least_0(ended).saturating_sub(at_least_0(before));
        let cancelled = since(ended.cancelled, run.before.cancelled);
        let cancelled = cancelled.max(run.returned.count()).min(gone);
        let failed = since(ended.dead, run.before.dead).min(gone - cancelled);
        // What is on its way or in the store is neither on the campaign's queues nor sent.
        let sent = since(sum(Counter::Sent), run.before.sent).min(gone - cancelled - failed);
        if run.before.queued == 0 {
            // All that came before it was settled when it began: later sums are not theirs.
            until.insert(&run.campaign, run.before);
        }
        let stage = run.stage_at(now, &facts.standing.control);
        let is_live = run.is_live(now);
        let is_recent = now.as_millis().saturating_sub(run.seen.as_millis()) < SHOWN_MS;
        let unfinished = waiting > 0 || (run.left() > 0 && run.rest.is_empty());
        if is_live || unfinished || is_recent {
            shown.push(RunStatus {
                campaign: run.campaign.clone(),
                name: run.name.clone(),
                stage,
                host: run.sender.host.clone(),
                began: run.began,
                rows: run.input.rows,
                enqueued: run.enqueued,
                waiting,
                sent,
                failed,
                cancelled,
                to_come: if is_live { run.left() } else { 0 },
                rest: run.rest.clone(),
                uploaded: run.uploaded.clone(),
            });
        }
    }
    shown
}

impl RunStatus {
    /// The part of its rows whose mail has gone out, 0 to 1.
    fn done(&self) -> f64 {
        if self.rows == 0 { 1.0 } else { real(self.sent) / real(self.rows) }
    }

    /// The next step that it needs of somebody, if any.
    fn next(&self) -> Option<String> {
        let left = self.rows.saturating_sub(self.enqueued);
        match self.stage {
            RunStage::Sending | RunStage::Waiting | RunStage::Done => None,
            _ if !self.rest.is_empty() => Some(format!("its rest is run {}", self.rest.join(", "))),
            RunStage::Stopped if left == 0 => None,
            RunStage::Stopped if self.uploaded.is_some() => {
                Some("its upload has not ended: the same command with --continue".to_owned())
            }
            RunStage::Stopped => Some(format!(
                "{} rows not enqueued: the same command on {} goes on, or anywhere with --continue",
                count(left),
                self.host
            )),
            RunStage::Cancelled => {
                Some(format!("{} rows not enqueued: send … --rest-of {}", count(left), self.name))
            }
        }
    }
}

/// The columns of a run's counts: all are 0 unless the run has them.
pub(super) fn table(runs: &[RunStatus]) -> TextTable {
    let names =
        ["run", "campaign", "", "began", "rows", "enqueued", "sent", "", "failed", "cancelled", ""];
    let mut table = [4, 5, 6, 7, 8, 9].into_iter().fold(TextTable::new(names), TextTable::right);
    for run in runs {
        let tone = match run.stage {
            RunStage::Sending | RunStage::Done => Tone::Good,
            RunStage::Waiting => Tone::Plain,
            RunStage::Stopped | RunStage::Cancelled => Tone::Warning,
        };
        let failed = if run.failed > 0 { Tone::Bad } else { Tone::Plain };
        table.row([
            Span::new(Tone::Strong, &run.name),
            Span::from(&run.campaign),
            Span::new(tone, run.stage.as_str()),
            Span::from(time(run.began)),
            Span::from(count(run.rows)),
            Span::from(count(run.enqueued)),
            Span::from(count(run.sent)),
            Span::from(percent(run.done())),
            Span::new(failed, count(run.failed)),
            Span::from(count(run.cancelled)),
            Span::from(run.next().unwrap_or_default()),
        ]);
    }
    table
}

impl View for Vec<RunStatus> {
    fn view(&self, page: &mut Page) {
        page.table(table(self));
        let uploaded = self.iter().filter_map(|run| Some((run, run.uploaded.as_ref()?)));
        for (run, UploadedRows { versions, refused, .. }) in uploaded {
            for (version, rows) in versions.iter().filter(|_| versions.len() > 1) {
                let said = format!("{}: version {version} of the template: rows {rows}", run.name);
                page.line(Tone::Plain, said);
            }
            if !RowRanges::is_empty(refused) {
                let said = format!("{}: refused by the template: rows {refused}", run.name);
                page.line(Tone::Warning, said);
            }
        }
    }
}
