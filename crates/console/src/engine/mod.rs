//! Reads the state of a stack periodically, and carries out what pages ask for.
//!
//! Pages never call AWS themselves: they read the engine's newest figures and hand it jobs. The engine
//! runs all its work concurrently in one task, so that a slow read of dead letters delays no look.

mod dead_letters;
mod forecasts;
mod refresh;
mod stack_ports;
mod stack_view;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;
use tidegate_delivery::ports::PortError;
use tidegate_operator::dead::{InvalidCorrection, LetterDetails, LetterReport, Review};
use tidegate_operator::steer::{self, Author, SteerAction, SteerError, SteerReport};
use tidegate_operator::why::{self, Explanation, MailQuery};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::event::{StateChange, Telemetry};
use crate::figures::{Curves, LongSpan};
use crate::stream::{ChangeLog, Hub, StreamLimits, StreamRegistry};

pub use dead_letters::DeadLetterView;
pub use stack_ports::{PortTypes, StackPorts};
pub use stack_view::LatestFigures;
use stack_view::StackView;

/// How long a console that ends waits until dead letters that it received are visible again.
const PATIENCE: Duration = Duration::from_secs(3);
/// The newest changes by operators that a stream has with every look; the history has more.
const CHANGES: usize = 20;
/// Number of jobs that run concurrently; further ones wait.
const AT_ONCE: usize = 8;
/// Number of jobs that may wait: if there are more, the stack does not answer.
const JOBS: usize = 32;

/// Everything that the HTTP side gets from the engine.
#[derive(Clone, Debug)]
pub struct EngineHandle {
    pub hub: Arc<Hub>,
    /// The figures of the newest look, for metrics.
    pub shown: watch::Receiver<Arc<LatestFigures>>,
    pub jobs: Jobs,
}

/// Reads the state of one stack periodically, and carries out jobs on it.
pub struct Engine<P: PortTypes> {
    site: StackPorts<P>,
    hub: Arc<Hub>,
    stack_view: RefCell<StackView>,
    shown: watch::Sender<Arc<LatestFigures>>,
    jobs: mpsc::Receiver<EngineJob>,
    /// Wakes the periodic look, because an operator changed something.
    look_now: Notify,
    /// Wakes the forecast: something changed that it depends on.
    forecast_now: Notify,
    /// Wakes the reader of dead letters, because their number changed.
    dead_now: Notify,
    /// True once the console ends. Readers that have received dead letters then make them visible again.
    ending: watch::Sender<bool>,
    /// Held while the dead-letter queue is read: two readers would hide letters from each other.
    reader: tokio::sync::Mutex<()>,
    reviews: RefCell<dead_letters::Reviews>,
}

impl<P: PortTypes> Engine<P> {
    /// Reads the stack for the first time.
    ///
    /// # Errors
    /// [`PortError`]: the stack is out of reach.
    pub async fn start(
        site: StackPorts<P>,
        limits: StreamLimits,
    ) -> Result<(Self, EngineHandle), PortError> {
        let facts = site.look().await?;
        // A random name, so that cursors of another log are recognised.
        let history = ChangeLog::new(format!("{:08x}", rand::random::<u32>()));
        let hub = Arc::new(Hub::new(StreamRegistry::new(limits, history)));
        let stack_view = StackView::new(facts);
        let first = LatestFigures { figures: stack_view.figures(), looks: 1, failed: 0 };
        let (shown, watched) = watch::channel(Arc::new(first));
        let (asks, jobs) = mpsc::channel(JOBS);
        let engine = Self {
            site,
            hub: Arc::clone(&hub),
            stack_view: RefCell::new(stack_view),
            shown,
            jobs,
            look_now: Notify::new(),
            forecast_now: Notify::new(),
            dead_now: Notify::new(),
            ending: watch::Sender::new(false),
            reader: tokio::sync::Mutex::new(()),
            reviews: RefCell::default(),
        };
        engine.show();
        Ok((engine, EngineHandle { hub, shown: watched, jobs: Jobs(asks) }))
    }

    /// Looks at the stack and carries out jobs until `stop` completes.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let (_, none) = mpsc::channel(1);
        let jobs = std::mem::replace(&mut self.jobs, none);
        let engine = &self;
        let going_on = async {
            tokio::select! {
                () = engine.keep_refreshing() => {}
                () = engine.keep_reading_dead_letters() => {}
                () = engine.keep_forecasting() => {}
                () = engine.keep_monitoring() => {}
                () = engine.run_jobs(jobs) => {}
            }
        };
        tokio::pin!(going_on);
        tokio::select! {
            () = &mut going_on => return,
            () = stop => {}
        }
        // Letters that were received would stay invisible to everybody until the visibility timeout.
        self.ending.send_replace(true);
        let let_go = async {
            tokio::select! {
                () = &mut going_on => {}
                _ = self.reader.lock() => {}
            }
        };
        let _ = tokio::time::timeout(PATIENCE, let_go).await;
    }

    async fn ended(&self) {
        // An error is impossible: the sender lives as long as the engine.
        let _ = self.ending.subscribe().wait_for(|ending| *ending).await;
    }

    /// Runs jobs concurrently, up to [`AT_ONCE`] of them.
    async fn run_jobs(&self, mut jobs: mpsc::Receiver<EngineJob>) {
        let mut under_way: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        loop {
            tokio::select! {
                job = jobs.recv(), if under_way.len() < AT_ONCE => match job {
                    Some(job) => under_way.push(Box::pin(self.do_job(job))),
                    None => return,
                },
                Some(()) = under_way.next(), if !under_way.is_empty() => {}
            }
        }
    }

    async fn do_job(&self, job: EngineJob) {
        match job {
            EngineJob::Steer(action, author, to) => {
                answer(to, self.steer(&action, &self.author(author)).await);
            }
            EngineJob::Why(asked, to) => answer(to, self.why(asked).await),
            EngineJob::Curves(span, to) => {
                self.recall_past(span).await;
                answer(to, Ok(self.stack_view.borrow().long.curves(span)));
            }
            EngineJob::ReadDead(to) => {
                answer(to, self.read_dead_letters().await.map_err(JobError::from));
            }
            EngineJob::ShowLetter(id, to) => answer(to, self.show_letter(&id).await),
            EngineJob::Discard(id, author, to) => answer(to, self.discard(id, author).await),
            EngineJob::Review(asked, to) => answer(to, self.review(asked).await),
            EngineJob::Replay(asked, to) => self.replay(asked, to).await,
            EngineJob::StopReplay(to) => {
                self.reviews.borrow().stop();
                answer(to, Ok(()));
            }
        }
    }

    async fn steer(&self, action: &SteerAction, author: &Author) -> Result<SteerReport, JobError> {
        let campaigns = self.stack_view.borrow().facts.campaigns.clone();
        let StackPorts { ledger, clock, wake, settings, .. } = &self.site;
        let deployed = (&*campaigns, &settings.poller.limits);
        let steered = steer::steer(action, author, deployed, ledger, clock).await?;
        if action.is_for_pollers() {
            // Without a receiver nobody can wake it, and the change takes effect at the next check.
            let _ = wake.send(());
        }
        tracing::info!(
            action = steered.record.action,
            campaign = steered.record.campaign,
            by = steered.record.by,
            changed = steered.changed,
            recorded = steered.recorded,
            "steered"
        );
        self.look_now.notify_one();
        self.forecast_now.notify_one();
        Ok(steered)
    }

    async fn why(&self, asked: MailQuery) -> Result<Explanation, JobError> {
        let status = self.site.look().await?;
        let reading = self.read().await?;
        let ledger = &self.site.ledger;
        let facts = why::gather(asked, status, &reading, ledger).await?;
        Ok(why::explain(&facts))
    }

    /// Adds the console to the author's name: several people may use one console, which acts with
    /// the rights of who runs it.
    fn author(&self, author: Author) -> Author {
        let operator = &self.site.operator;
        let by = match author.by.trim() {
            name if name.is_empty() || name == operator => format!("{operator}, by the console"),
            name => format!("{name}, by the console of {operator}"),
        };
        Author { by, ..author }
    }

    /// Publishes changes to all streams.
    fn tell(&self, changes: Vec<StateChange>) {
        if changes.is_empty() {
            return;
        }
        for change in &changes {
            tracing::info!(
                kind = change.kind.into_str(),
                campaign = change.campaign,
                "{}",
                change.title
            );
        }
        self.hub
            .change(|stack_view| changes.into_iter().for_each(|change| stack_view.publish(change)));
    }

    /// Publishes the newest of one kind of telemetry to all streams.
    fn publish(&self, telemetry: Telemetry, value: &impl Serialize) {
        let json = to_json(value).into();
        self.hub.change(|registry| registry.show(telemetry, json));
    }

    /// Publishes the figures of the newest look to streams and metrics.
    fn show(&self) {
        let (figures, series) = {
            let stack_view = self.stack_view.borrow();
            (stack_view.figures(), stack_view.series.curves())
        };
        let mut told = figures.clone();
        told.status.changes.truncate(CHANGES);
        let json = to_json(&told);
        self.hub.change(|stack_view| {
            stack_view.series = to_json(&series).into();
            stack_view.show(Telemetry::Figures, json.into());
        });
        self.shown.send_modify(|shown| {
            let failed = shown.failed + u64::from(figures.failed.is_some());
            *shown = Arc::new(LatestFigures { figures, looks: shown.looks + 1, failed });
        });
    }
}

/// Serialises a value whose JSON cannot fail: it holds only text, numbers and lists.
pub(crate) fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// The channel through which a job's answer returns to the request that asked.
pub type AnswerSender<T> = oneshot::Sender<Result<T, JobError>>;

/// Answers a request. A send that fails means that the page has gone.
fn answer<T>(to: AnswerSender<T>, answer: Result<T, JobError>) {
    let _ = to.send(answer);
}

/// The dead letters that a review is about, and what to do with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReviewRequest {
    #[serde(deserialize_with = "unless_blank")]
    pub code: Option<String>,
    #[serde(deserialize_with = "unless_blank")]
    pub campaign: Option<String>,
    #[serde(deserialize_with = "unless_blank")]
    pub id: Option<String>,
    /// Another body for the letter whose message id is `id`; addresses in it may be masked as they are shown.
    pub body: Option<String>,
    /// Include mails of which it is not known whether they were sent.
    pub include_unknown: bool,
    /// Letters of mails that were sent are deleted.
    pub drop_sent: bool,
}

/// An empty field of a form filters nothing.
fn unless_blank<'de, D: Deserializer<'de>>(text: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(text)?;
    Ok(text.filter(|text| !text.trim().is_empty()))
}

/// The result of a review, as JSON for the page.
#[derive(Clone, Debug, Serialize)]
pub struct ReviewSummary {
    /// The name by which it can be replayed.
    pub review: String,
    /// Seconds for which the review can be replayed.
    pub expires_s: u64,
    /// Whether every letter on the queue was read.
    pub whole: bool,
    #[serde(flatten)]
    pub found: Review,
    pub to_send: u64,
    /// Mails a second, unless the request for the replay names another rate.
    pub per_second: f64,
    /// Estimated duration in seconds.
    pub takes_s: u64,
}

/// A replay that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayRequest {
    /// The name of the review to replay.
    pub review: String,
    pub author: Author,
    /// Mails a second; none for what the review said.
    pub per_second: Option<f64>,
}

/// Requests from pages, each with the channel for its answer.
#[derive(Debug)]
pub enum EngineJob {
    /// Pause, resume, lift, weights or cap.
    Steer(SteerAction, Author, AnswerSender<SteerReport>),
    /// Explain where a mail is.
    Why(MailQuery, AnswerSender<Explanation>),
    /// The curves of a long span.
    Curves(LongSpan, AnswerSender<Curves>),
    /// To read the dead letters now.
    ReadDead(AnswerSender<DeadLetterView>),
    /// All that is known of the letters with this id.
    ShowLetter(String, AnswerSender<Vec<LetterDetails>>),
    /// Delete the letter with this id for good.
    Discard(String, Author, AnswerSender<LetterReport>),
    /// Count what a replay of some dead letters would do, without sending.
    Review(ReviewRequest, AnswerSender<ReviewSummary>),
    /// To do it: answered when it begins, with how many mails it sends.
    Replay(ReplayRequest, AnswerSender<u64>),
    /// To end a replay before its time.
    StopReplay(AnswerSender<()>),
}

/// The reasons why a job is not done.
#[derive(Debug, Error)]
pub enum JobError {
    #[error(transparent)]
    Steer(#[from] SteerError),
    /// The review has expired, was used, or never was.
    #[error(
        "the review {0} is not known any more: it is older than ten minutes, or was gone through with; review again"
    )]
    NoReview(String),
    #[error("there is no dead letter {0} any more: read the letters again")]
    NoLetter(String),
    #[error(transparent)]
    Correction(#[from] InvalidCorrection),
    #[error("a replay is under way: one goes at a time")]
    Replaying,
    #[error(transparent)]
    Replay(#[from] tidegate_operator::dead::LetterError),
    #[error(transparent)]
    Service(#[from] PortError),
    /// The queue of jobs is full, which means that the stack does not answer.
    #[error("the console waits for the stack to answer: try again in a few seconds")]
    Busy,
    #[error("the console is ending")]
    Ending,
}

/// The sending side of the queue of jobs; clones feed the same engine.
#[derive(Clone, Debug)]
pub struct Jobs(mpsc::Sender<EngineJob>);

impl Jobs {
    /// Hands in the job that is made around its answer's way, and waits for the answer.
    ///
    /// # Errors
    /// [`JobError`].
    pub async fn ask<T>(
        &self,
        job: impl FnOnce(AnswerSender<T>) -> EngineJob,
    ) -> Result<T, JobError> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(job(answer)).map_err(|_| JobError::Busy)?;
        answered.await.map_err(|_| JobError::Ending)?
    }
}

#[cfg(test)]
mod tests;
