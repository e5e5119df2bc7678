use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::format::{count, counted};
use tidegate_core::identity::EpochMillis;
use tidegate_core::in_full;
use tidegate_core::number::real;
use tidegate_delivery::ports::{Clock as _, PortError, VISIBILITY_TIMEOUT};
use tidegate_operator::dead::{
    DiscardReview, Grouping, LetterDetails, LetterError, LetterFilter, LetterGroup, LetterProgress,
    LetterReport, LetterSnapshot, LetterWork, ReplayPace, ReviewOptions, carry_out, groups, list,
    read, review, show,
};
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::steer::Author;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{AnswerSender, Engine, PortTypes, answer};
use super::{JobError, ReplayRequest, ReviewRequest, ReviewSummary};
use crate::event::Telemetry;

/// Number of dead letters that are read for the page at most.
const LETTERS: usize = 1_000;
/// Number of the newest letters that a page shows.
const SHOWN: usize = 20;
/// Interval of reads for a letter that somebody else hides.
const AGAIN: Duration = Duration::from_secs(1);
/// Life time of a review: the letters on the queue change.
const VALID_FOR: Duration = Duration::from_mins(10);
/// Number of reviews that are kept; the oldest is dropped first.
const MAX_PENDING: usize = 20;
/// A replay pauses while a campaign's queue is deeper than at its start by this many messages.
const BACKLOG: u64 = 1_000;
/// If this many letters were read, the limit was reached, and reading again would not show more.
const MANY: u64 = LETTERS as u64;
/// Shortest interval between reads, since reading hides the letters from everybody for a moment.
const EVERY: Duration = Duration::from_secs(15);

/// The dead letters, as a page shows them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeadLetterView {
    pub read_at: EpochMillis,
    /// Whether every letter on the queue was read.
    pub whole: bool,
    pub read: u64,
    /// Approximate number of letters that were not read, by SQS's count.
    pub unread: u64,
    /// Counts by error code, the largest first.
    pub groups: Vec<LetterGroup>,
    /// The same of each campaign that has letters.
    pub campaigns: BTreeMap<String, Vec<LetterGroup>>,
    pub letters: Vec<LetterDetails>,
}

impl DeadLetterView {
    pub(super) fn of(reading: &LetterSnapshot, now: EpochMillis, shown: AddressVisibility) -> Self {
        let all = LetterFilter::default();
        let by_code =
            |filter: &LetterFilter| groups(reading, filter, Grouping::Reason, shown).groups;
        let of_campaign = |group: LetterGroup| {
            let campaigns = vec![group.key.clone()];
            (group.key, by_code(&LetterFilter { campaigns, ..LetterFilter::default() }))
        };
        let campaigns = groups(reading, &all, Grouping::Campaign, shown).groups;
        let mut letters = list(reading, &all, now, shown).letters;
        letters.reverse();
        letters.truncate(SHOWN);
        Self {
            read_at: now,
            whole: reading.coverage.is_whole(),
            read: reading.coverage.read,
            unread: reading.coverage.unread(),
            groups: by_code(&all),
            campaigns: campaigns.into_iter().map(of_campaign).collect(),
            letters,
        }
    }
}

#[derive(Debug)]
struct PendingReview {
    work: LetterWork,
    per_second: f64,
    at: Instant,
}

/// The reviews that wait to be replayed, and the replay that is under way.
#[derive(Debug, Default)]
pub(super) struct Reviews {
    pending: BTreeMap<u64, PendingReview>,
    made: u64,
    /// Stops the replay that is under way.
    stop: Option<Arc<Notify>>,
}

impl Reviews {
    fn add(&mut self, pending: PendingReview) -> String {
        self.made += 1;
        self.pending.insert(self.made, pending);
        while self.pending.len() > MAX_PENDING {
            self.pending.pop_first();
        }
        format!("r{}", self.made)
    }

    /// A review can be replayed once, and is removed here.
    fn take(&mut self, name: &str) -> Option<PendingReview> {
        let number = name.strip_prefix('r')?.parse().ok()?;
        self.pending.remove(&number).filter(|pending| pending.at.elapsed() < VALID_FOR)
    }

    pub(super) fn stop(&self) {
        if let Some(stop) = &self.stop {
            stop.notify_one();
        }
    }
}

/// Progress and result of a replay, as JSON for the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct ReplayView {
    running: bool,
    sent: u64,
    of: u64,
    waits: bool,
    said: Option<String>,
    error: Option<String>,
}

impl<P: PortTypes> Engine<P> {
    /// Reads the dead-letter queue. A lock allows one reader at a time, since two would hide
    /// letters from each other.
    pub(super) async fn read(&self) -> Result<LetterSnapshot, PortError> {
        let _reader = self.reader.lock().await;
        let queue = self.site.dead_letters();
        read(&self.site.queues, &self.site.clock, &queue, LETTERS, self.ended(), |_| {}).await
    }

    /// Reads the dead letters whenever their number changes while a page is open.
    pub(super) async fn keep_reading_dead_letters(&self) {
        loop {
            // The first read does not wait for a change.
            self.hub.watched().await;
            if self.stack_view.borrow().dead_letters() != (0, 0) {
                let read = self.read_dead_letters().await;
                sleep(EVERY).await;
                match read {
                    // Another reader had received some of them: read again.
                    Ok(dead) if !dead.whole && dead.read < MANY => continue,
                    Ok(_) => {}
                    Err(error) => {
                        let error = in_full(&error);
                        tracing::warn!(error, "the dead letters cannot be read");
                    }
                }
            }
            self.dead_now.notified().await;
        }
    }

    /// Reads the dead letters, and shows them.
    pub(super) async fn read_dead_letters(&self) -> Result<DeadLetterView, PortError> {
        let reading = self.read().await?;
        let now = EpochMillis::from(self.site.clock.wall());
        let dead = DeadLetterView::of(&reading, now, self.site.settings.addresses);
        self.publish(Telemetry::Dead, &dead);
        Ok(dead)
    }

    /// All that is known of the letters with this id, with masked addresses unless the console shows them.
    pub(super) async fn show_letter(&self, id: &str) -> Result<Vec<LetterDetails>, JobError> {
        let reading = self.read_letter(id).await?;
        let now = EpochMillis::from(self.site.clock.wall());
        Ok(show(&reading, id, now, self.site.settings.addresses, true))
    }

    /// Reads until the letter with this id is seen, or all were. Another reader hides letters for as long as it
    /// reads, or for the visibility timeout if it was killed.
    pub(super) async fn read_letter(&self, id: &str) -> Result<LetterSnapshot, JobError> {
        let begun = Instant::now();
        loop {
            let reading = self.read().await?;
            if reading.letters.iter().any(|letter| letter.is(id)) {
                return Ok(reading);
            }
            if reading.coverage.hidden_before == 0 || begun.elapsed() >= VISIBILITY_TIMEOUT {
                return Err(JobError::NoLetter(id.to_owned()));
            }
            sleep(AGAIN).await;
        }
    }

    /// Deletes the letter with this id for good. The history says who did it, and why.
    pub(super) async fn discard(&self, id: String, by: Author) -> Result<LetterReport, JobError> {
        let reading = self.read_letter(&id).await?;
        let filter = LetterFilter { ids: vec![id], ..LetterFilter::default() };
        let review = DiscardReview::of(&reading, &filter, self.site.settings.addresses);
        let report = {
            let _reader = self.reader.lock().await;
            let queue = self.site.dead_letters();
            let ports = self.site.letter_ports(&queue);
            let (author, pace) = (self.author(by), ReplayPace::UNBOUNDED);
            carry_out(&ports, &review.work, &author, pace, self.ended(), |_| {}).await?
        };
        tracing::info!(letters = report.dropped, by = report.by, "discarded a dead letter");
        self.look_now.notify_one();
        self.dead_now.notify_one();
        Ok(report)
    }

    pub(super) async fn review(&self, asked: ReviewRequest) -> Result<ReviewSummary, JobError> {
        let reading = match (&asked.id, &asked.body) {
            (Some(id), Some(body)) => self.read_letter(id).await?.corrected(id, body)?,
            _ => self.read().await?,
        };
        let campaigns = self.stack_view.borrow().facts.campaigns.clone();
        let filter = LetterFilter {
            ids: asked.id.into_iter().collect(),
            campaigns: asked.campaign.into_iter().collect(),
            codes: asked.code.into_iter().collect(),
            ..LetterFilter::default()
        };
        let options = ReviewOptions {
            include_unknown: asked.include_unknown,
            drop_sent: asked.drop_sent,
            ..ReviewOptions::of(filter, &campaigns, &self.site.settings.poller)
        };
        let now = self.site.clock.wall();
        let mut found = review(&reading, &options, &self.site.ledger, now).await?;
        // The mails stay here; the page is told how many there are.
        let work = std::mem::take(&mut found.work);
        (found.work.filter, found.work.guarded) = (work.filter.clone(), work.guarded);
        let per_second = ReplayPace::usual(self.stack_view.borrow().facts.quota().in_force);
        let to_send = work.letters();
        let takes = Duration::try_from_secs_f64(real(to_send) / per_second);
        let pending = PendingReview { work, per_second, at: Instant::now() };
        Ok(ReviewSummary {
            review: self.reviews.borrow_mut().add(pending),
            expires_s: VALID_FOR.as_secs(),
            whole: found.coverage.is_whole(),
            found,
            to_send,
            per_second,
            takes_s: takes.map_or(u64::MAX, |takes| takes.as_secs()),
        })
    }

    pub(super) async fn replay(&self, asked: ReplayRequest, to: AnswerSender<u64>) {
        let (pending, stop) = match self.begin(&asked) {
            Ok(begun) => begun,
            Err(error) => return answer(to, Err(error)),
        };
        let of = pending.work.letters();
        answer(to, Ok(of));
        let show = |shown: &ReplayView| self.publish(Telemetry::Replay, shown);
        let running = ReplayView { running: true, of, ..ReplayView::default() };
        show(&running);
        let ended = {
            let _reader = self.reader.lock().await;
            let queue = self.site.dead_letters();
            let site = self.site.letter_ports(&queue);
            let per_second = asked.per_second.unwrap_or(pending.per_second);
            let rate_limit = ReplayPace { per_second, backlog: BACKLOG };
            let author = self.author(asked.author);
            let stopped = async {
                tokio::select! {
                    () = stop.notified() => {}
                    () = self.ended() => {}
                }
            };
            let progress = |LetterProgress { done: sent, of, waits }| {
                show(&ReplayView { sent, of, waits, ..running.clone() });
            };
            carry_out(&site, &pending.work, &author, rate_limit, stopped, progress).await
        };
        self.reviews.borrow_mut().stop = None;
        let shown = shown(&ended, of);
        tracing::info!(sent = shown.sent, of, error = shown.error, "replayed dead letters");
        show(&shown);
        self.look_now.notify_one();
        self.dead_now.notify_one();
    }

    fn begin(&self, asked: &ReplayRequest) -> Result<(PendingReview, Arc<Notify>), JobError> {
        let mut reviews = self.reviews.borrow_mut();
        if reviews.stop.is_some() {
            return Err(JobError::Replaying);
        }
        let no_review = || JobError::NoReview(asked.review.clone());
        let pending = reviews.take(&asked.review).ok_or_else(no_review)?;
        let stop = Arc::new(Notify::new());
        reviews.stop = Some(Arc::clone(&stop));
        Ok((pending, stop))
    }
}

fn shown(ended: &Result<LetterReport, LetterError>, of: u64) -> ReplayView {
    let none = LetterReport::default();
    let (replayed, error) = match ended {
        Ok(replayed) => (replayed, None),
        Err(LetterError::Broken { report: replayed, source }) => {
            (&**replayed, Some(format!("it broke off: {}", in_full(source))))
        }
        Err(error) => (&none, Some(error.to_string())),
    };
    let said = Some(summary(replayed, of));
    ReplayView { sent: replayed.sent, of, said, error, ..ReplayView::default() }
}

fn summary(replayed: &LetterReport, of: u64) -> String {
    let mut said = vec![format!("{} of {} sent", count(replayed.sent), counted(of, "mail"))];
    for (number, what) in [
        (replayed.dropped, "deleted, whose mails had been sent"),
        (replayed.sent_meanwhile, "found sent meanwhile"),
        (replayed.refused, "refused by SQS"),
        (replayed.uncertain, "perhaps sent: SQS did not answer"),
        (replayed.not_deleted, "sent, and not deleted"),
        (replayed.not_found, "not found any more"),
    ] {
        if number > 0 {
            said.push(format!("{} {what}", count(number)));
        }
    }
    if replayed.interrupted {
        said.push("it was stopped".to_owned());
    }
    said.join("; ")
}
