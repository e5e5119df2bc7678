//! The report of a reconciliation.

use serde::Serialize;
use tidegate_core::identity::EpochMillis;

use crate::page::{Page, Span, TextTable, Tone, View};
use crate::suggest::SuggestedCommand;
use tidegate_core::format::{count, counted};

/// The accounts of all campaigns that were asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reconciliation {
    pub at: EpochMillis,
    pub accounts: Vec<CampaignAccount>,
}

impl Reconciliation {
    /// The worst verdict of all campaigns.
    pub fn verdict(&self) -> AccountVerdict {
        let verdicts = self.accounts.iter().map(|account| account.verdict);
        verdicts.max().unwrap_or(AccountVerdict::Balanced)
    }

    /// Whether every campaign's mails are accounted for, within the tolerances.
    pub fn balances(&self) -> bool {
        self.verdict() == AccountVerdict::Balanced
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountVerdict {
    /// Every mail is accounted for, within the tolerance.
    Balanced,
    /// The tolerance is not smaller than the number of mails, so nothing is proved: all of them could
    /// be missing.
    Unproven,
    /// Mails are missing, or there are too many.
    Difference,
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
    /// Mails in S3, which back-pressure deferred.
    pub deferred: u64,
    pub dead: u64,
    /// Mails that `tidegate cancel` took back, and that are no dead letters.
    pub cancelled: u64,
    /// Mails that pollers deleted because their recipients are excluded.
    pub excluded: u64,
    /// Mails whose outcome is unknown; 0 by counts.
    pub unknown: u64,
    /// Mails without a mark that are not dead-lettered. They are assumed to be on the queues, which
    /// cannot be searched. 0 by counts.
    pub unmarked: u64,
    /// Messages on the campaign's queue, deferred ones, and those on the merge queue and the limit
    /// queues that no campaign before it on the list accounts for; of all producers.
    pub queued: u64,
    /// The difference: positive if mails are missing, negative if there are too many.
    pub difference: i64,
    pub verdict: AccountVerdict,
    pub allowances: Vec<Tolerance>,
    pub runs: Vec<SendRun>,
    /// The campaign's mails on the queues that all campaigns share.
    #[serde(skip)]
    pub(super) on_shared: u64,
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

    /// The account with its verdict, once all allowances are known.
    pub(super) fn judged(mut self) -> Self {
        let (off, tolerance) = (self.difference.unsigned_abs(), self.tolerance());
        // Marks name every mail, so without a difference the tolerance was not needed.
        let needed = off > 0 || matches!(self.method, Method::Counts { .. });
        self.verdict = if off > tolerance {
            AccountVerdict::Difference
        } else if needed && tolerance > 0 && tolerance >= self.enqueued {
            AccountVerdict::Unproven
        } else {
            AccountVerdict::Balanced
        };
        self
    }

    pub(super) fn allowing(mut self, mails: u64, why: &str) -> Self {
        if mails > 0 {
            self.allowances.push(Tolerance { mails, why: why.to_owned() });
        }
        self
    }

    fn verdict_in_words(&self) -> (Tone, String) {
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
        let (mails, tolerance) = (counted(off, "message"), count(self.tolerance()));
        match self.verdict {
            AccountVerdict::Unproven => {
                let enqueued = counted(self.enqueued, "message");
                let said = format!(
                    "this proves nothing: the tolerance of {tolerance} covers all {enqueued} ({mails} {kind}); ask again once nothing moves"
                );
                (Tone::Warning, said)
            }
            AccountVerdict::Balanced if off == 0 => {
                (balanced, format!("every message is accounted for{condition}"))
            }
            AccountVerdict::Balanced => {
                (balanced, format!("{mails} {kind}, within the tolerance of {tolerance}"))
            }
            AccountVerdict::Difference => {
                (Tone::Bad, format!("{mails} {kind}, beyond the tolerance of {tolerance}"))
            }
        }
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
        if self.deferred > 0 {
            row("deferred", self.deferred, Tone::Plain, "in S3, until the level is clear");
        }
        row("dead", self.dead, Tone::Bad, "on the dead-letter queue");
        if self.cancelled > 0 {
            row("cancelled", self.cancelled, Tone::Plain, "taken back, not sent");
        }
        if self.excluded > 0 {
            row("excluded", self.excluded, Tone::Plain, "to excluded recipients, not sent");
        }
        if !by_counts {
            row("unknown", self.unknown, Tone::Bad, "may have been sent");
        }
        table
    }
}

impl View for CampaignAccount {
    fn view(&self, page: &mut Page) {
        let (tone, verdict) = self.verdict_in_words();
        page.heading(format!("Campaign {}", self.campaign));
        page.table(self.equation());
        page.line(tone, format!("  {verdict}"));
        let is_plain = self.difference == 0 && self.verdict == AccountVerdict::Balanced;
        let allowances = self.allowances.iter().filter(|_| !is_plain);
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
            let dead = SuggestedCommand::Dead;
            page.line(Tone::Faint, format!("  {dead} shows what is dead or unknown, and why."));
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
