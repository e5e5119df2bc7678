use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::format::{count, counted};
use tidegate_core::in_full;
use tidegate_delivery::ports::Clock as _;
use tidegate_operator::dead::{
    self, LetterError, LetterFilter, LetterProgress, LetterReport, ReplayPace, Review,
    ReviewOptions, review,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::job::{JobError, ReplayRequest, ReviewRequest, ReviewSummary};
use super::{Engine, PortTypes, to_json};
use crate::event::Telemetry;
use crate::figures::precise;

/// Life time of a review: the letters on the queue change.
const VALID_FOR: Duration = Duration::from_mins(10);
/// Number of reviews that are kept; the oldest is dropped first.
const MAX_PENDING: usize = 20;
/// The part of the rate in force that a replay uses unless a rate is given; the same as in
/// `tidegate dead replay`.
const SHARE: f64 = 0.5;
/// Mails a second where no rate is known.
const SLOW: f64 = 1.0;
/// A replay pauses while a campaign's queue is deeper than at its start by this many messages.
const BACKLOG: u64 = 1_000;

#[derive(Debug)]
struct PendingReview {
    review: Review,
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
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ReplayView {
    running: bool,
    sent: u64,
    of: u64,
    waits: bool,
    said: Option<String>,
    error: Option<String>,
}

impl<P: PortTypes> Engine<P> {
    pub(super) async fn review(&self, asked: ReviewRequest) -> Result<ReviewSummary, JobError> {
        let reading = match (&asked.id, &asked.body) {
            (Some(id), Some(body)) => self.read_letter(id).await?.corrected(id, body)?,
            _ => self.read().await?,
        };
        let campaigns = self.stack_view.borrow().facts.campaigns.clone();
        let options = ReviewOptions {
            filter: LetterFilter {
                ids: asked.id.into_iter().collect(),
                campaigns: asked.campaign.into_iter().collect(),
                codes: asked.code.into_iter().collect(),
                ..LetterFilter::default()
            },
            include_unknown: asked.include_unknown,
            drop_sent: asked.drop_sent,
            campaign_queues: self.site.campaign_queues(&campaigns),
            rules: self.site.poller.rules.clone(),
            deduplication: self.site.poller.deduplication,
        };
        let now = self.site.clock.wall();
        let review = review(&reading, &options, &self.site.ledger, now).await?;
        let in_force = self.stack_view.borrow().facts.quota().in_force;
        let per_second = in_force.map_or(SLOW, |in_force| in_force * SHARE);
        let (to_send, to_drop) = (review.to_send(), review.to_drop);
        let takes = Duration::try_from_secs_f64(precise(to_send) / per_second);
        let (filter, guarded) = (review.filter.clone(), review.guarded);
        let (groups, refusals) = (review.groups.clone(), review.refusals.clone());
        let whole = review.coverage.is_whole();
        let pending = PendingReview { review, per_second, at: Instant::now() };
        Ok(ReviewSummary {
            review: self.reviews.borrow_mut().add(pending),
            expires_s: VALID_FOR.as_secs(),
            filter,
            guarded,
            whole,
            groups,
            refusals,
            to_send,
            to_drop,
            per_second,
            takes_s: takes.map_or(u64::MAX, |takes| takes.as_secs()),
        })
    }

    pub(super) async fn replay(
        &self,
        asked: ReplayRequest,
        answer: oneshot::Sender<Result<u64, JobError>>,
    ) {
        let (pending, stop) = match self.begin(&asked) {
            Ok(begun) => begun,
            Err(error) => {
                let _ = answer.send(Err(error));
                return;
            }
        };
        let of = pending.review.to_send();
        let _ = answer.send(Ok(of));
        let show = |shown: &ReplayView| {
            let json = to_json(shown);
            self.hub.change(|stack_view| stack_view.show(Telemetry::Replay, json.into()));
        };
        let running =
            ReplayView { running: true, sent: 0, of, waits: false, said: None, error: None };
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
            let progress = |done: LetterProgress| {
                show(&ReplayView {
                    sent: done.done,
                    of: done.of,
                    waits: done.waits,
                    ..running.clone()
                });
            };
            dead::replay(&site, &pending.review, &author, rate_limit, stopped, progress).await
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
    ReplayView {
        running: false,
        sent: replayed.sent,
        of,
        waits: false,
        said: Some(summary(replayed, of)),
        error,
    }
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
