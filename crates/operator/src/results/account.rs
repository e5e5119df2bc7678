//! Whether every mail of a run is somewhere: sent, waiting, dead, cancelled, excluded, or of unknown outcome.

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_core::control::CANCELLED;
use tidegate_core::format::{count, counted};
use tidegate_core::number::whole;
use tidegate_core::runs::Baseline;

use super::RunJournal;
use super::facts::{LAG, RunFacts};
use super::row::RowStatus;
use crate::dead::Letter;
use crate::page::Tone;

#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountVerdict {
    /// Every mail is accounted for, within the tolerance.
    Balanced,
    /// All mails could be missing: the tolerance is not smaller than their number, or others sent to the campaign.
    Unproven,
    /// Mails are missing.
    Difference,
}

/// Mails that the figures may be wrong by, and why.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Tolerance {
    pub mails: u64,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RunAccount {
    pub enqueued: u64,
    /// Mails that no record names and for which there is no place on the queues; by counts negative if more was sent than
    /// this run enqueued.
    pub missing: i64,
    pub tolerances: Vec<Tolerance>,
    pub verdict: AccountVerdict,
    /// Recipients of the campaign that were sent to since the run began, by the ledger's counters; `None` if marks tell of
    /// each mail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_by_counts: Option<u64>,
    /// Mails that no record names, and that are assumed to wait; 0 by counts.
    pub unmarked: u64,
    /// Messages on the queues that the campaign's mail may be on, of all producers.
    pub queued: u64,
}

impl RunAccount {
    /// `rows` gives the number of rows of a status.
    pub(super) fn of(
        journal: &RunJournal,
        facts: &RunFacts,
        rows: impl Fn(RowStatus) -> u64,
    ) -> Self {
        let (enqueued, before) = (journal.identities().len() as u64, &journal.header.before);
        let unmarked = if facts.has_marks { rows(RowStatus::Waiting) } else { 0 };
        let missing = if facts.has_marks {
            signed(unmarked.saturating_sub(facts.waiting.all()) + rows(RowStatus::Missing))
        } else {
            missing_by_counts(enqueued + before.queued, dead(journal, facts), facts)
        };
        let tolerances = tolerances(journal, facts, rows(RowStatus::Sending) > 0);
        let tolerance =
            tolerances.iter().map(|tolerance| tolerance.mails).fold(0, u64::saturating_add);
        // Marks name every mail, so without a difference the tolerance was not needed.
        let is_needed = missing != 0 || !facts.has_marks;
        let verdict = if missing > signed(tolerance) {
            AccountVerdict::Difference
        } else if missing < -signed(tolerance)
            || is_needed && tolerance > 0 && tolerance >= enqueued
        {
            AccountVerdict::Unproven
        } else {
            AccountVerdict::Balanced
        };
        let sent_by_counts = (!facts.has_marks).then_some(facts.since.sent);
        let queued = facts.waiting.all();
        Self { enqueued, missing, tolerances, verdict, sent_by_counts, unmarked, queued }
    }

    pub fn tolerance(&self) -> u64 {
        self.tolerances.iter().fold(0, |sum, tolerance| sum.saturating_add(tolerance.mails))
    }

    pub(super) fn in_words(&self) -> (Tone, String) {
        let off = counted(self.missing.unsigned_abs(), "message");
        let (tolerance, enqueued) = (count(self.tolerance()), counted(self.enqueued, "message"));
        match self.verdict {
            AccountVerdict::Unproven if self.missing < 0 => {
                let said = format!(
                    "this proves nothing: {off} more than the {enqueued} of this run: other mail of the campaign counts, too"
                );
                (Tone::Warning, said)
            }
            AccountVerdict::Unproven => {
                let said = format!(
                    "this proves nothing: the tolerance of {tolerance} covers all {enqueued} ({off} missing); ask again once nothing moves"
                );
                (Tone::Warning, said)
            }
            AccountVerdict::Difference => {
                (Tone::Bad, format!("{off} missing, beyond the tolerance of {tolerance}"))
            }
            AccountVerdict::Balanced if self.missing != 0 => {
                let kind = if self.missing < 0 { "too many" } else { "missing" };
                (Tone::Plain, format!("{off} {kind}, within the tolerance of {tolerance}"))
            }
            AccountVerdict::Balanced if self.unmarked == 0 => {
                (Tone::Good, "every message is accounted for".to_owned())
            }
            AccountVerdict::Balanced => {
                let (unmarked, queued) = (count(self.unmarked), counted(self.queued, "message"));
                let are = if self.unmarked == 1 { "is" } else { "are" };
                let said = format!(
                    "every message is accounted for, if the {unmarked} without a record {are} among the {queued} on the queues"
                );
                (Tone::Plain, said)
            }
        }
    }
}

/// The run's mails on the dead-letter queue. A cancelled one is no dead mail: the ledger counts it, whether it is kept or not.
fn dead(journal: &RunJournal, facts: &RunFacts) -> u64 {
    let is_dead = |letter: &Letter| letter.code() != Some(CANCELLED);
    let dead = journal.identities().filter(|id| facts.dead.get(id).is_some_and(is_dead));
    dead.count() as u64
}

/// Counters tell how many recipients the campaign was sent to, not which mails. Mail that was on the queue as the run began
/// cannot be told from its own, so `came` includes it.
fn missing_by_counts(came: u64, dead: u64, facts: &RunFacts) -> i64 {
    let left = signed(came).saturating_sub(signed(facts.since.sent + dead + facts.waiting.own));
    // These may be of other campaigns or producers: they explain what is left, and make nothing "too many".
    let others = facts.since.cancelled + facts.since.excluded + facts.waiting.elsewhere;
    left - left.clamp(0, signed(others))
}

fn tolerances(journal: &RunJournal, facts: &RunFacts, is_sending: bool) -> Vec<Tolerance> {
    // A run that was abandoned ended when its journal was last written.
    let ended = journal.ended.unwrap_or(facts.written_at);
    let moves = facts.waiting.all() > 0 || is_sending || facts.now.saturating_since(ended) < LAG;
    let quota = facts.quota_per_second.filter(|_| moves).unwrap_or(0.0);
    let lag = whole((quota * LAG.as_secs_f64()).ceil());
    let Baseline { merging, .. } = journal.header.before;
    let by_counts = |mails: u64| if facts.has_marks { 0 } else { mails };
    let all = [
        (lag, "mail moves, and SQS's counts lag by up to a minute: so many go out meanwhile"),
        (
            by_counts(merging),
            "stood on the merge queue or a limit queue as the run began, of any campaign",
        ),
        (
            by_counts(facts.since.possibly_sent),
            "had no answer from SES, of any campaign: sent once, twice or not at all",
        ),
        (
            facts.unread,
            "on the dead-letter queue were not read: another reader has them (try again later), or they are too many",
        ),
    ];
    let needed = all.into_iter().filter(|(mails, _)| *mails > 0);
    needed.map(|(mails, why)| Tolerance { mails, why: why.to_owned() }).collect()
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
