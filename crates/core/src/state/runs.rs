//! Runs: the sendings of lists, as the ledger knows them.
//!
//! Whoever enqueues a list writes its run every few seconds, with the rows that are settled. So another host can go on
//! without the first one's journal, a second sending of the same list is recognised, and operators see rows that are in
//! no queue yet.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::control::{Cancel, Control};
use crate::counters::{Counter, at_least_0};
use crate::identity::EpochMillis;

/// Most runs that the ledger keeps; an older one is forgotten.
pub const RUNS_KEPT: usize = 100;
/// A run that is being enqueued is written at least this often; one that was not has been killed.
pub const SILENT: Duration = Duration::from_mins(1);

/// One sending of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
// More than 12 fields: one for each member that the ledger has.
pub struct Run {
    /// The campaign that it is of.
    pub campaign: String,
    /// The name; a campaign has one run of it.
    pub name: String,
    /// The list and the message.
    pub input: RunInput,
    /// Who enqueues it, or did last.
    pub sender: RunSender,
    /// When it began.
    pub began: EpochMillis,
    /// When it was last written by who enqueues it.
    pub seen: EpochMillis,
    /// How far it has come, as it was last written.
    pub stage: RunStage,
    /// Rows that were enqueued.
    pub enqueued: u64,
    /// Rows that were enqueued or are excluded: there is nothing left to do for them.
    pub settled: RowRanges,
    /// Rows whose mail was taken back: cancelled, and off every queue.
    #[serde(default, skip_serializing_if = "RowRanges::is_empty")]
    pub returned: RowRanges,
    /// The runs that were begun for the rest of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rest: Vec<String>,
    /// Depths and sums when it began.
    pub before: Baseline,
    /// The rows in the store, if the stack enqueues them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploaded: Option<UploadedRows>,
    /// When programs were told that it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<EpochMillis>,
}

/// Who enqueues the rows that are in the store, in place of a host's name.
pub const THE_STACK: &str = "the stack";

/// The rows of a run that were uploaded to the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct UploadedRows {
    /// The run's token in the names of its objects.
    pub token: String,
    /// Enqueued rows by the version of the template that they got, from 1.
    #[serde(default)]
    pub versions: BTreeMap<u32, RowRanges>,
    /// Rows that a later version of the template refused.
    #[serde(default, skip_serializing_if = "RowRanges::is_empty")]
    pub refused: RowRanges,
}

impl UploadedRows {
    fn enqueued(&self) -> u64 {
        self.versions.values().map(RowRanges::count).sum()
    }
}

/// The list and the message of a run, by which another sending of the same is recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInput {
    /// The SHA-256 of the list's file, in hex.
    pub list: String,
    /// A SHA-256 of the templates, in hex.
    pub message: String,
    /// Rows that get a message.
    pub rows: u64,
}

/// Who enqueues a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSender {
    /// The host's name.
    pub host: String,
    /// The operator.
    pub by: String,
    /// A random text of the process alone: another one takes a run over by its own.
    pub token: String,
}

/// How far a run has come.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RunStage {
    /// Rows are being enqueued.
    #[default]
    Sending,
    /// The rows that are left wait: for room in the queue, for the level, or for the end of a pause.
    Waiting,
    /// Nobody enqueues the rows that are left.
    Stopped,
    /// Every row was enqueued.
    Done,
    /// A cancel ended it.
    Cancelled,
}

impl RunStage {
    /// The name in the ledger and in reports.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Run {
    /// A run that begins at `at`.
    pub fn new(
        campaign: &str,
        name: &str,
        input: RunInput,
        sender: RunSender,
        at: EpochMillis,
    ) -> Self {
        Self {
            campaign: campaign.to_owned(),
            name: name.to_owned(),
            input,
            sender,
            began: at,
            seen: at,
            ..Self::default()
        }
    }

    /// The stage at `now`, with the control record's cancels. A run that was not written for [`SILENT`] is stopped: who
    /// enqueued it was killed, or is cut off.
    pub fn stage_at(&self, now: EpochMillis, control: &Control) -> RunStage {
        match self.stage {
            RunStage::Done => RunStage::Done,
            // Nobody has to be alive for these.
            RunStage::Sending if self.uploaded.is_some() => match self.cancel_of(control) {
                Some(_) => RunStage::Cancelled,
                None => RunStage::Sending,
            },
            RunStage::Sending | RunStage::Waiting if now.saturating_since(self.seen) < SILENT => {
                self.stage
            }
            _ if self.cancel_of(control).is_some() => RunStage::Cancelled,
            RunStage::Sending | RunStage::Waiting => RunStage::Stopped,
            ended => ended,
        }
    }

    /// The cancel of its campaign that came since it began: another one than stood then, so that no two clocks are
    /// compared.
    pub fn cancel_of(&self, control: &Control) -> Option<Cancel> {
        let last = control.cancels.get(&self.campaign).copied()?;
        (Some(last.at) != self.before.cancelled_at).then_some(last)
    }

    /// Adds rows that the stack enqueued or that their template refused; the same may be added several times. Once all
    /// rows are, the run is done.
    pub fn add_uploaded(&mut self, rows: &UploadedRows, now: EpochMillis) {
        let Some(uploaded) = &mut self.uploaded else { return };
        let before = uploaded.enqueued();
        uploaded.refused.extend(&rows.refused);
        self.settled.extend(&rows.refused);
        for (version, rows) in &rows.versions {
            uploaded.versions.entry(*version).or_default().extend(rows);
            self.settled.extend(rows);
        }
        self.enqueued += uploaded.enqueued() - before;
        self.seen = now;
        let is_done = self.enqueued + uploaded.refused.count() >= self.input.rows;
        self.stage = match self.stage {
            RunStage::Cancelled => RunStage::Cancelled,
            _ if is_done => RunStage::Done,
            _ => RunStage::Sending,
        };
    }

    /// Whether so much of the campaign's mail was sent, given up, cancelled or excluded since it began as it enqueued, by
    /// the ledger's sums, and it enqueues no more. Recipients count, and mail of others on the campaign's queues; so its mail
    /// is gone once these queues are empty, too.
    pub fn is_settled(
        &self,
        sums: &BTreeMap<String, i64>,
        control: &Control,
        now: EpochMillis,
    ) -> bool {
        let Baseline { sent, dead, cancelled, excluded, .. } = self.before;
        let since = |counter: Counter, before| counter.sum_of(&self.campaign, sums) - before;
        let gone = since(Counter::Sent, sent)
            + since(Counter::Dead, dead)
            + since(Counter::Cancelled, cancelled)
            + since(Counter::Excluded, excluded);
        matches!(self.stage_at(now, control), RunStage::Done | RunStage::Cancelled)
            && at_least_0(gone) >= self.enqueued
    }

    /// Whether somebody enqueues it at `now`.
    pub fn is_live(&self, now: EpochMillis) -> bool {
        let stage = self.stage_at(now, &Control::default());
        matches!(stage, RunStage::Sending | RunStage::Waiting)
    }

    /// Rows that get a message and were not enqueued.
    pub const fn left(&self) -> u64 {
        self.input.rows.saturating_sub(self.enqueued)
    }

    /// Whether the mail of this row went out, or will.
    pub fn has_sent(&self, row: u64) -> bool {
        self.settled.contains(row) && !self.returned.contains(row)
    }
}

/// Depths and sums at the begin of a run, with which later ones are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Baseline {
    /// The campaign's counter of recipients sent to.
    pub sent: i64,
    /// The counter of possibly sent mails, of all campaigns.
    pub possibly_sent: i64,
    /// Messages on the campaign's queue: visible, in flight and delayed.
    pub queued: u64,
    /// Messages on the queues that campaigns share.
    pub merging: u64,
    /// The campaign's counter of mails given up.
    pub dead: i64,
    /// The campaign's counter of cancelled mails.
    pub cancelled: i64,
    /// The campaign's counter of mails to excluded recipients.
    pub excluded: i64,
    /// The campaign's last cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_at: Option<EpochMillis>,
}

/// A set of row numbers as ranges, so that its size depends on the gaps and not on the rows. It is written as a list of
/// numbers, in turn the rows that are left out and those that are in it: `[0, 200, 3, 40]` is 1 to 200 and 204 to 243.
///
/// ```
/// use tidegate_core::runs::RowRanges;
/// let mut rows = RowRanges::default();
/// rows.insert(1, 10);
/// rows.insert(21, 30);
/// rows.insert(11, 20);
/// assert_eq!((rows.count(), rows.contains(30), rows.contains(31)), (30, true, false));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub struct RowRanges {
    /// First to last row of each range. Ranges neither overlap nor touch.
    stretches: BTreeMap<u64, u64>,
}

impl RowRanges {
    /// Adds the rows from `first` to `last`.
    pub fn insert(&mut self, first: u64, last: u64) {
        let (mut first, mut last) = (first, last.max(first));
        // Those that begin at most one after this one's end; from behind, until one ends before it.
        while let Some((&from, &to)) = self.stretches.range(..=last.saturating_add(1)).next_back() {
            if to.saturating_add(1) < first {
                break;
            }
            self.stretches.remove(&from);
            first = first.min(from);
            last = last.max(to);
        }
        self.stretches.insert(first, last);
    }

    /// Adds the rows of `other`.
    pub fn extend(&mut self, other: &Self) {
        other.stretches.iter().for_each(|(first, last)| self.insert(*first, *last));
    }

    /// Whether a row is in it.
    pub fn contains(&self, row: u64) -> bool {
        self.stretches.range(..=row).next_back().is_some_and(|(_, last)| *last >= row)
    }

    /// How many rows are in it.
    pub fn count(&self) -> u64 {
        self.stretches.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether no row is in it.
    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }
}

/// At most ten stretches: `1-200, 204, and 39 more`.
impl fmt::Display for RowRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.stretches.iter().take(10).map(|(first, last)| match last - first {
            0 => first.to_string(),
            _ => format!("{first}-{last}"),
        });
        f.write_str(&shown.collect::<Vec<_>>().join(", "))?;
        match self.stretches.len().saturating_sub(10) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

impl From<RowRanges> for Vec<u64> {
    fn from(rows: RowRanges) -> Self {
        let mut next = 1;
        let gap_and_length = |(first, last): (u64, u64)| {
            let gap = first - next;
            next = last + 1;
            [gap, last + 1 - first]
        };
        rows.stretches.into_iter().flat_map(gap_and_length).collect()
    }
}

impl From<Vec<u64>> for RowRanges {
    fn from(numbers: Vec<u64>) -> Self {
        let (mut rows, mut next) = (Self::default(), 1_u64);
        for [gap, length] in numbers.as_chunks().0 {
            let first = next.saturating_add(*gap);
            next = first.saturating_add(*length);
            if *length > 0 {
                rows.insert(first, next - 1);
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_set_of_what_was_put_in_and_reads_back_what_it_writes(
            stretches in proptest::collection::vec((1_u64..60, 0_u64..8), 0..20)
        ) {
            let mut ranges = RowRanges::default();
            let mut set = BTreeSet::new();
            for (first, more) in stretches {
                ranges.insert(first, first + more);
                set.extend(first..=first + more);
            }
            prop_assert_eq!(ranges.count(), set.len() as u64);
            prop_assert!((0..80).all(|row| ranges.contains(row) == set.contains(&row)));
            let ends: Vec<_> = ranges.stretches.iter().collect();
            prop_assert!(ends.windows(2).all(|pair| *pair[0].1 + 1 < *pair[1].0));
            let written = serde_json::to_string(&ranges).unwrap();
            prop_assert_eq!(serde_json::from_str::<RowRanges>(&written).unwrap(), ranges);
        }

        #[test]
        fn any_list_of_numbers_reads_as_rows(numbers in proptest::collection::vec(any::<u64>(), 0..9)) {
            let _ = RowRanges::from(numbers).contains(1);
        }
    }

    fn run(stage: RunStage) -> Run {
        let input = RunInput { rows: 500, ..RunInput::default() };
        let began = EpochMillis::new(1_000);
        let new = Run::new("big", "news", input, RunSender::default(), began);
        let before = Baseline { cancelled_at: Some(EpochMillis::new(900)), ..Baseline::default() };
        Run { seen: EpochMillis::new(60_000), stage, enqueued: 412, before, ..new }
    }

    #[test]
    fn a_run_that_is_silent_has_stopped_and_a_cancel_ends_what_nobody_enqueues() {
        use RunStage::{Cancelled, Done, Sending, Stopped, Waiting};
        let at = EpochMillis::new;
        for (stage, now, cancelled, expected) in [
            (Sending, 119_999, None, Sending),
            (Sending, 120_000, None, Stopped),
            // Who enqueues it takes note of the cancel itself.
            (Waiting, 119_999, Some(2_000), Waiting),
            (Waiting, 120_000, Some(2_000), Cancelled),
            // It stood when the run began.
            (Waiting, 120_000, Some(900), Stopped),
            (Stopped, 60_000, Some(1_000), Cancelled),
            (Stopped, 60_000, None, Stopped),
            (Cancelled, 60_000, None, Cancelled),
            (Done, 999_999, Some(2_000), Done),
        ] {
            let mut control = Control::default();
            let cancel = cancelled.map(|cancelled| Cancel { at: at(cancelled), keep: true });
            control.cancels.extend(cancel.map(|cancel| ("big".to_owned(), cancel)));
            let found = run(stage).stage_at(at(now), &control);
            assert_eq!(found, expected, "{stage:?} at {now}, cancelled {cancelled:?}");
        }
        assert_eq!(run(Sending).left(), 88);
    }

    #[test]
    fn a_run_of_the_stack_is_silent_without_having_stopped_and_is_done_once_every_row_is_told_of() {
        let mut run =
            Run { uploaded: Some(UploadedRows::default()), enqueued: 0, ..run(RunStage::Stopped) };
        let rows = |version: u32, first, last| {
            let mut rows = UploadedRows::default();
            rows.versions.entry(version).or_default().insert(first, last);
            rows
        };
        let (at, mut control) = (EpochMillis::new(70_000), Control::default());
        run.add_uploaded(&rows(1, 1, 200), at);
        // The same again, as after a crash.
        run.add_uploaded(&rows(1, 101, 200), at);
        assert_eq!(
            (run.enqueued, run.stage_at(EpochMillis::MAX, &control)),
            (200, RunStage::Sending)
        );
        let cancel = Cancel { at, keep: true };
        control.cancels.insert("big".to_owned(), cancel);
        assert_eq!(run.stage_at(EpochMillis::MAX, &control), RunStage::Cancelled);
        run.add_uploaded(&rows(2, 201, 499), at);
        assert_eq!(run.stage, RunStage::Sending);
        let mut refused = UploadedRows::default();
        refused.refused.insert(500, 500);
        run.add_uploaded(&refused, at);
        assert_eq!((run.enqueued, run.stage), (499, RunStage::Done));
        let uploaded = run.uploaded.unwrap();
        let told = format!("{} / {}", uploaded.versions[&2], uploaded.refused);
        assert_eq!((told.as_str(), run.settled.count()), ("201-499 / 500", 500));
    }

    #[test]
    fn a_run_is_settled_once_as_much_is_gone_since_it_began_as_it_enqueued() {
        let mut of = run(RunStage::Done);
        of.before.sent = 1_000;
        let settled = |of: &Run, sent, others| {
            let sums = [("sent.big", sent), ("dead.big", others), ("cancelled.big", 1)];
            let sums = sums.into_iter().chain([("excluded.big", 1), ("sent.small", 9_999)]);
            let sums = sums.map(|(name, sum)| (name.to_owned(), sum)).collect();
            of.is_settled(&sums, &Control::default(), EpochMillis::new(60_000))
        };
        assert!(!settled(&of, 1_400, 9));
        assert!(settled(&of, 1_400, 10));
        assert!(settled(&of, 1_500, 0));
        of.stage = RunStage::Sending;
        assert!(!settled(&of, 1_500, 0));
    }

    #[test]
    fn a_row_has_got_its_mail_unless_it_was_taken_back() {
        let mut run = run(RunStage::Stopped);
        run.settled.insert(1, 10);
        run.returned.insert(4, 5);
        let sent: Vec<u64> = (1..=12).filter(|row| run.has_sent(*row)).collect();
        assert_eq!(sent, [1, 2, 3, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn a_run_of_a_million_rows_is_small_and_reads_back_what_it_writes() {
        let mut run = run(RunStage::Sending);
        run.settled.insert(1, 900_000);
        run.settled.insert(900_011, 900_020);
        let text = serde_json::to_string(&run).unwrap();
        assert!(text.len() < 1_024 && text.contains(r#""settled":[0,900000,10,10]"#), "{text}");
        assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
    }
}
