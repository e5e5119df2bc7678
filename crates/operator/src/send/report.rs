//! The reports of `tidegate send`: dry run, faults and result, and of an input that was checked without a stack.

use std::time::Duration;

use serde::Serialize;
use tidegate_core::channel::Channel;
use tidegate_core::format::{bytes, count, counted, rate, span};
use tidegate_core::number::real;

use super::check::{InputSummary, RestOfRows};
use super::journal::JournalHeader;
use super::preview::Preview;
use super::progress::RunEnd;
use super::runs::days;
use crate::page::{Page, Span, Tone, View};
use crate::suggest::SuggestedCommand;
use tidegate_core::draft::{InputFault, column_name};

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
// More than 12 fields: one for each line of the report.
pub struct SendReport {
    pub channel: Channel,
    pub campaign: String,
    pub run: String,
    pub journal: String,
    /// Rows that get a message.
    pub rows: u64,
    /// Rows whose recipient is excluded.
    pub excluded: u64,
    /// Rows that earlier runs had enqueued.
    pub enqueued_before: u64,
    pub enqueued: u64,
    pub bytes: u64,
    pub retries: u64,
    pub seconds: f64,
    pub ended: RunEnd,
}

impl SendReport {
    /// Of a run that has not enqueued anything itself yet.
    pub(super) fn new(header: &JournalHeader, journal: String, enqueued_before: u64) -> Self {
        let (campaign, run) = (header.campaign.clone(), header.run.clone());
        Self { campaign, run, journal, rows: header.rows, enqueued_before, ..Self::default() }
    }

    /// Records how the run ends; only the first reason is kept.
    pub(super) fn ends(&mut self, ended: RunEnd) {
        if self.ended == RunEnd::Done {
            self.ended = ended;
        }
    }

    /// Corrects the result if all rows were enqueued before an interruption.
    pub(super) fn conclude(&mut self) {
        if self.left() == 0 {
            self.ended = RunEnd::Done;
        }
    }

    /// Rows that are not known to be enqueued.
    pub const fn left(&self) -> u64 {
        self.rows.saturating_sub(self.enqueued_before + self.enqueued)
    }

    /// The rows that are left, and how it goes on, in words.
    pub fn unfinished(&self) -> String {
        let left = counted(self.left(), self.channel.words().message);
        format!("{left} not enqueued: run the same command again")
    }
}

/// A duration, with tenths of a second below ten seconds.
fn duration_text(seconds: f64) -> String {
    if seconds < 10.0 {
        return format!("{seconds:.1} s");
    }
    span(Duration::from_secs_f64(seconds.min(1e12)))
}

impl View for SendReport {
    fn view(&self, page: &mut Page) {
        let what = counted(self.enqueued, self.channel.words().message);
        let (tone, said) = match &self.ended {
            RunEnd::Done => (Tone::Good, format!("{what} enqueued for campaign {}", self.campaign)),
            RunEnd::Interrupted => (Tone::Warning, format!("Interrupted: {what} enqueued")),
            RunEnd::GaveUp(why) => (Tone::Bad, format!("Given up after {what}: {why}")),
            RunEnd::Cancelled => (
                Tone::Warning,
                format!(
                    "Cancelled: {what} enqueued before that, {} never",
                    counted(self.left(), "row")
                ),
            ),
        };
        page.line(tone, said);
        let some = |number: u64, text: Span| (number > 0).then_some(text);
        let fields = [
            ("run", Some(Span::from(&self.run))),
            ("enqueued before", some(self.enqueued_before, count(self.enqueued_before).into())),
            ("left", some(self.left(), Span::new(Tone::Warning, count(self.left())))),
            ("excluded", some(self.excluded, counted(self.excluded, "row").into())),
            ("size", Some(bytes(self.bytes).into())),
            ("took", Some(duration_text(self.seconds).into())),
            ("calls made again", some(self.retries, count(self.retries).into())),
            ("journal", Some(Span::from(&self.journal))),
        ];
        page.fields(fields.into_iter().filter_map(|(name, text)| Some((name, text?))));
        let (tone, next) = match self.ended {
            RunEnd::Done => {
                let results = SuggestedCommand::Results(self.journal.clone());
                (Tone::Faint, format!("{results} says what became of them."))
            }
            RunEnd::Cancelled => {
                let (campaign, run) = (self.campaign.clone(), self.run.clone());
                let rest = SuggestedCommand::RestOf { campaign, run };
                (Tone::Plain, format!("To send to all who have not got it, corrected: {rest}."))
            }
            _ => {
                let again = "Run the same command again: it goes on with the rows that are left.";
                (Tone::Plain, again.to_owned())
            }
        };
        page.line(tone, next);
    }
}

/// A preview, a dry run, or both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PreviewReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<Preview>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<DryRun>,
    /// An input that was checked without a stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<InputReport>,
    /// The rest of the list, which a dry run has itself.
    #[serde(flatten)]
    pub rest: Option<RestOfRows>,
}

impl View for PreviewReport {
    fn view(&self, page: &mut Page) {
        self.preview.iter().for_each(|preview| preview.view(page));
        self.dry_run.iter().for_each(|dry_run| dry_run.view(page));
        self.input.iter().for_each(|input| input.view(page));
        self.rest.iter().for_each(|rest| rest.view(page));
    }
}

impl View for RestOfRows {
    fn view(&self, page: &mut Page) {
        for (number, of, said) in [
            (self.refused, "row", "left out because of a fault"),
            (self.duplicates, "row", "left out: an earlier one has the address"),
            (self.empty_rows, "row", "of empty cells skipped"),
            (self.unnamed_columns, "column", "without a name skipped"),
        ] {
            if number > 0 {
                page.line(Tone::Warning, format!("{} {said}", counted(number, of)));
            }
        }
        for (column, rows) in &self.empty_cells {
            let said = format!("{} is empty in {}", column_name(column), counted(*rows, "row"));
            page.line(Tone::Faint, said);
        }
    }
}

/// The faults of the input, because of which nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaultReport {
    pub file: String,
    /// The faults, in the order of the input.
    pub faults: Vec<InputFault>,
    /// Whether the check stopped early, so that there may be more.
    pub more: bool,
}

impl View for FaultReport {
    fn view(&self, page: &mut Page) {
        for fault in &self.faults {
            page.line(Tone::Bad, fault);
        }
        let count = counted(self.faults.len() as u64, "fault");
        let more = if self.more { ", perhaps more (--max-errors)" } else { "" };
        page.line(Tone::Strong, format!("{count} in {}{more}: nothing was sent.", self.file));
    }
}

/// When the mails will be sent, by a forecast of the whole stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The quota in force in recipients per second; `None` if unknown.
    pub quota_per_second: Option<f64>,
    /// The campaign's share of it while every campaign has mail, 0.0 to 1.0.
    pub share: f64,
    /// Mails that are on the campaign's queue already.
    pub ahead: u64,
    /// Seconds until the campaign's last mail is sent; `None` if some are never sent, or that is not
    /// known.
    pub ends_after_seconds: Option<f64>,
    /// The forecast's remarks, such as a hold without an end.
    pub warnings: Vec<String>,
    /// The forecast is right only if these hold.
    pub assumptions: Vec<String>,
}

impl Estimate {
    /// Seconds until the last of `slots` is used with the whole quota and without holds; `None` if they
    /// are not all sent.
    fn seconds_alone(&self, slots: u64) -> Option<f64> {
        self.ends_after_seconds?;
        let quota = self.quota_per_second.filter(|quota| *quota > 0.0)?;
        Some(real(slots + self.ahead) / quota)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DryRun {
    pub campaign: String,
    pub queue: String,
    pub run: String,
    pub file: String,
    /// The journal that it would write.
    pub journal: String,
    /// Rows that an earlier run enqueued.
    pub enqueued_before: u64,
    #[serde(flatten)]
    pub checked: InputSummary,
    /// How long deduplication remembers an id; `None` if it is off in the stack.
    pub ids_known_seconds: Option<u64>,
    /// When they will have gone out.
    pub estimate: Estimate,
    /// Seconds until all are sent with the whole quota and without holds.
    pub seconds_alone: Option<f64>,
}

impl DryRun {
    /// Describes the run of `header` over `file`, of which that many rows were enqueued before. `kept` is how long deduplication remembers an id;
    /// `None` if it is off.
    pub fn new(
        file: &str,
        journal: &str,
        header: &JournalHeader,
        enqueued_before: u64,
        checked: &InputSummary,
        kept: Option<Duration>,
        estimate: Estimate,
    ) -> Self {
        Self {
            campaign: header.campaign.clone(),
            queue: header.queue.clone(),
            run: header.run.clone(),
            file: file.to_owned(),
            journal: journal.to_owned(),
            enqueued_before,
            ids_known_seconds: kept.map(|kept| kept.as_secs()),
            seconds_alone: estimate.seconds_alone(checked.slots_after(enqueued_before)),
            estimate,
            checked: checked.clone(),
        }
    }

    /// The question for confirmation before anything is sent.
    pub fn question(&self) -> String {
        let left = self.checked.rows.saturating_sub(self.enqueued_before);
        let more = if self.enqueued_before > 0 { " more" } else { "" };
        let deleted = self.deleted().map_or_else(String::new, |said| format!(" ({said})"));
        let left = counted(left, self.checked.channel.words().message);
        format!("Enqueue {left}{more} for campaign {}{deleted}?", self.campaign)
    }

    /// A warning about mails that deduplication would delete because their ids may have been sent
    /// before.
    fn deleted(&self) -> Option<String> {
        let kept = self.ids_known_seconds.filter(|_| self.checked.given_ids > 0)?;
        let kept = days(Duration::from_secs(kept));
        let ids = counted(self.checked.given_ids, "id");
        Some(format!(
            "{ids} of the input's own: a mail whose id was sent within {kept} is deleted, not sent"
        ))
    }

    fn input(&self) -> String {
        let rows = counted(self.checked.rows + self.checked.excluded, "row");
        match self.checked.excluded {
            0 => format!("{}, {rows}", self.file),
            excluded => format!("{}, {rows}, of which {} excluded", self.file, count(excluded)),
        }
    }

    fn when(&self) -> Vec<(&'static str, Span)> {
        let shown = |seconds: f64| span(Duration::from_secs_f64(seconds.clamp(0.0, 1e12)));
        let Some(seconds) = self.estimate.ends_after_seconds else {
            return vec![("takes", Span::new(Tone::Warning, "no end is known (see below)"))];
        };
        let share = self.estimate.quota_per_second.map(|quota| {
            format!(" at its share of {:.0} % of {}", self.estimate.share * 100.0, rate(quota))
        });
        let takes = format!("{}{}", shown(seconds), share.unwrap_or_default());
        let alone = self.seconds_alone.map(|alone| {
            let said = format!("{} with the whole quota and no hold", shown(alone));
            ("takes alone", Span::from(said))
        });
        std::iter::once(("takes", Span::from(takes))).chain(alone).collect()
    }
}

impl View for DryRun {
    fn view(&self, page: &mut Page) {
        let left = self.checked.rows.saturating_sub(self.enqueued_before);
        let message = self.checked.channel.words().message;
        page.heading(format!("{} for campaign {}", counted(left, message), self.campaign));
        let mut fields = vec![
            ("input", self.input().into()),
            ("run", Span::from(&self.run)),
            ("queue", Span::from(&self.queue)),
            ("journal", Span::from(&self.journal)),
        ];
        if self.enqueued_before > 0 {
            let before = format!("{}: this run goes on after them", count(self.enqueued_before));
            fields.push(("enqueued before", before.into()));
        }
        fields.push(("size", self.checked.size().into()));
        fields.push((
            "SQS calls",
            format!("at most {} to enqueue all", count(self.checked.sqs_calls)).into(),
        ));
        fields.push(("ahead of them", counted(self.estimate.ahead, message).into()));
        fields.extend(self.when());
        if self.checked.repeated_addresses > 0 {
            let said = format!(
                "{} have an earlier row's",
                counted(self.checked.repeated_addresses, "row")
            );
            fields.push(("addresses", Span::new(Tone::Warning, said)));
        }
        page.fields(fields);
        self.checked.view(page);
        for warning in &self.estimate.warnings {
            page.line(Tone::Warning, format!("Note: {warning}."));
        }
        for assumption in &self.estimate.assumptions {
            page.line(Tone::Faint, format!("Assumed: {assumption}."));
        }
        if let Some(deleted) = self.deleted() {
            page.line(Tone::Warning, format!("{deleted}."));
        }
        if self.ids_known_seconds.is_none() {
            let said = "Deduplication is off: after an interruption the batches under way may \
                        be sent twice.";
            page.line(Tone::Warning, said);
        }
        let plan = SuggestedCommand::PlanLive;
        page.line(Tone::Faint, format!("{plan} forecasts when every campaign ends."));
    }
}

/// The report of an input that was checked without a stack.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InputReport {
    pub file: String,
    #[serde(flatten)]
    pub checked: InputSummary,
}

impl View for InputReport {
    fn view(&self, page: &mut Page) {
        let checked = &self.checked;
        let message = checked.channel.words().message;
        page.heading(format!("{} in {}", counted(checked.rows, message), self.file));
        let excluded = counted(checked.excluded, "row");
        page.fields([("excluded", Span::from(excluded)), ("size", Span::from(checked.size()))]);
        checked.view(page);
        let said =
            "Checked without a stack: its quota, its queues, and what it allows are not known.";
        page.line(Tone::Faint, said);
    }
}

impl InputSummary {
    fn size(&self) -> String {
        format!("{}, the largest {}", bytes(self.bytes), bytes(self.largest_bytes))
    }
}

impl View for InputSummary {
    fn view(&self, page: &mut Page) {
        self.rest.view(page);
        self.texts.iter().for_each(|texts| texts.view(page));
        self.notes.view(page);
    }
}
