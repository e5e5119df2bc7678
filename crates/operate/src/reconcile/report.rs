//! The report of a reconciliation.

use serde::Serialize;
use tidegate_core::identity::EpochMillis;

use crate::format::{count, counted};
use crate::page::{Page, Span, TextTable, Tone, View};

/// The accounts of all campaigns that were asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reconciliation {
    pub at: EpochMillis,
    pub accounts: Vec<CampaignAccount>,
}

impl Reconciliation {
    /// Whether every campaign's mails are accounted for, within the tolerances.
    pub fn balances(&self) -> bool {
        self.accounts.iter().all(CampaignAccount::balances)
    }
}

/// How a campaign was accounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Mail by mail, by deduplication's marks.
    Marks,
    /// By the growth of the ledger's counters since the first run began.
    Counts {
        /// Mails that stood on the campaign's queue then.
        queued_before: u64,
    },
}

/// The outcomes of a campaign's mails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
// More than 12 fields: one for each line of the report.
pub struct CampaignAccount {
    pub campaign: String,
    pub method: Method,
    /// Mails that SQS acknowledged, by the journals.
    pub enqueued: u64,
    /// Mails that SES accepted; by counts, all of the campaign, including those of other producers.
    pub sent: u64,
    /// Mails that will not be sent because a mail with the same id was sent before their run;
    /// deduplication deletes them. 0 by counts.
    pub sent_before: u64,
    /// Mails on the campaign's or the merge queue, and mails that are being sent.
    pub waiting: u64,
    /// Mails that wait for another attempt.
    pub retrying: u64,
    pub dead: u64,
    /// Mails whose outcome is unknown; 0 by counts.
    pub unknown: u64,
    /// Mails without a mark that are not dead-lettered. They are assumed to be on the queues, which
    /// cannot be searched. 0 by counts.
    pub unmarked: u64,
    /// Messages on the campaign's queue, and those on the merge queue that no campaign before it on the list
    /// accounts for; of all producers.
    pub queued: u64,
    /// The difference: positive if mails are missing, negative if there are too many.
    pub difference: i64,
    pub allowances: Vec<Tolerance>,
    pub runs: Vec<SendRun>,
    #[serde(skip)]
    pub(super) on_merge: u64,
}

/// A possible error of the counts, and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tolerance {
    pub mails: u64,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SendRun {
    pub run: String,
    pub journal: String,
    pub rows: u64,
    pub enqueued: u64,
    /// The end of the run; `None` if it is not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<EpochMillis>,
}

impl CampaignAccount {
    pub fn tolerance(&self) -> u64 {
        self.allowances.iter().fold(0, |sum, allowance| sum.saturating_add(allowance.mails))
    }

    /// Whether the difference is within that.
    pub fn balances(&self) -> bool {
        self.difference.unsigned_abs() <= self.tolerance()
    }

    pub(super) fn allowing(mut self, mails: u64, why: &str) -> Self {
        if mails > 0 {
            self.allowances.push(Tolerance { mails, why: why.to_owned() });
        }
        self
    }

    fn verdict(&self) -> (Tone, String) {
        let (balanced, condition) = if self.unmarked == 0 {
            (if self.sent_before > 0 { Tone::Plain } else { Tone::Good }, String::new())
        } else {
            let (unmarked, queued) = (count(self.unmarked), counted(self.queued, "message"));
            let are = if self.unmarked == 1 { "is" } else { "are" };
            let said = format!(
                ", if the {unmarked} without a mark {are} among the {queued} on the queues"
            );
            (Tone::Plain, said)
        };
        let off = self.difference.unsigned_abs();
        let kind = if self.difference < 0 { "too many" } else { "missing" };
        if off == 0 {
            return (balanced, format!("every mail is accounted for{condition}"));
        }
        let tolerance = count(self.tolerance());
        if self.balances() {
            let off = counted(off, "mail");
            return (balanced, format!("{off} {kind}, within the tolerance of {tolerance}"));
        }
        (Tone::Bad, format!("{} {kind}, beyond the tolerance of {tolerance}", counted(off, "mail")))
    }

    fn equation(&self) -> TextTable {
        let mut table = TextTable::bare().right(1);
        let mut row = |name: &str, number: u64, tone: Tone, said: &str| {
            let tone = if number > 0 { tone } else { Tone::Plain };
            table.row([
                Span::new(Tone::Faint, name),
                Span::new(tone, count(number)),
                Span::new(Tone::Faint, said),
            ]);
        };
        row("enqueued", self.enqueued, Tone::Strong, "acknowledged by SQS");
        if let Method::Counts { queued_before } = self.method {
            row("before", queued_before, Tone::Plain, "on the queue as the first run began");
        }
        let by_counts = matches!(self.method, Method::Counts { .. });
        let since = if by_counts { "since then, whoever enqueued them" } else { "" };
        row("sent", self.sent, Tone::Good, since);
        if self.sent_before > 0 {
            row(
                "sent before",
                self.sent_before,
                Tone::Warning,
                "their ids, before their run began: deduplication deletes them",
            );
        }
        row("waiting", self.waiting, Tone::Plain, "on a queue, or being sent");
        row("retrying", self.retrying, Tone::Warning, "put back for another attempt");
        row("dead", self.dead, Tone::Bad, "on the dead-letter queue");
        if !by_counts {
            row("unknown", self.unknown, Tone::Bad, "may have been sent");
        }
        table
    }
}

impl View for CampaignAccount {
    fn view(&self, page: &mut Page) {
        let (tone, verdict) = self.verdict();
        page.heading(format!("Campaign {}", self.campaign));
        page.table(self.equation());
        page.line(tone, format!("  {verdict}"));
        let allowances = self.allowances.iter().filter(|_| self.difference != 0);
        for Tolerance { mails, why } in allowances {
            page.line(Tone::Faint, format!("  tolerance: {} {why}", count(*mails)));
        }
        if matches!(self.method, Method::Counts { .. }) {
            let said = "  by counts: deduplication was off, or its marks have expired";
            page.line(Tone::Faint, said);
        }
        for run in self.runs.iter().filter(|run| run.ended.is_none()) {
            let left = counted(run.rows.saturating_sub(run.enqueued), "row");
            let said = format!("  run {} is not over: {left} left ({})", run.run, run.journal);
            page.line(Tone::Warning, said);
        }
        if self.unknown + self.dead > 0 {
            page.line(Tone::Faint, "  tidegate dead shows what is dead or unknown, and why.");
        }
    }
}

impl View for Reconciliation {
    fn view(&self, page: &mut Page) {
        if self.accounts.is_empty() {
            page.line(Tone::Plain, "The journals hold nothing: nothing was enqueued.");
        }
        for account in &self.accounts {
            account.view(page);
        }
    }
}
