//! What looks at the stack, and does to it what pages ask for.
//!
//! The streams and pages never reach the stack: they read what the engine last showed, and hand it
//! jobs. All that it does goes on side by side in one task, so that a slow read of dead letters delays
//! no look.

mod dead_letters;
mod forecasts;
mod job;
mod refresh;
mod replays;
mod stack_ports;
mod stack_view;

use std::cell::RefCell;
use std::future::Future;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tidegate_delivery::ports::{Account, Clock, Ledger, Marks, PortError, Queues};
use tidegate_operate::steer::Author;
use tokio::sync::{Notify, mpsc, watch};

pub use dead_letters::DeadLetterView;
pub use job::{
    AnswerSender, EngineJob, JobError, Jobs, ReplayRequest, ReviewRequest, ReviewSummary,
};
pub use stack_ports::StackPorts;
pub use stack_view::LatestFigures;

use crate::event::Telemetry;
use crate::figures::StackFigures;
use crate::state_file::StateFile;
use crate::stream::{ChangeLog, Hub};
use stack_view::StackView;

/// How long a console that ends waits for letters in hand to be let go.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);
/// Jobs that are done side by side; the others wait.
const AT_ONCE: usize = 8;
/// Jobs that wait at most: more means that the stack does not answer.
const JOBS: usize = 32;

/// What the engine shares with the pages.
#[derive(Clone, Debug)]
pub struct EngineHandle {
    /// The streams.
    pub hub: Arc<Hub>,
    /// What was last shown.
    pub shown: watch::Receiver<Arc<LatestFigures>>,
    /// Where jobs go.
    pub jobs: Jobs,
}

/// Looks at one stack, and acts on it.
pub struct Engine<Q, L, A, C> {
    site: StackPorts<Q, L, A, C>,
    hub: Arc<Hub>,
    stack_view: RefCell<StackView>,
    memory: Option<StateFile>,
    shown: watch::Sender<Arc<LatestFigures>>,
    jobs: mpsc::Receiver<EngineJob>,
    /// Something was changed: look at once.
    look_now: Notify,
    /// What is sent when will be another: forecast anew.
    forecast_now: Notify,
    /// There are more dead letters, or fewer.
    dead_now: Notify,
    /// Whether the console ends: whoever holds letters lets go of them.
    ending: watch::Sender<bool>,
    /// Only one reads the dead-letter queue: two would hide letters from each other.
    reader: tokio::sync::Mutex<()>,
    reviews: RefCell<replays::Reviews>,
}

impl<Q, L, A, C> Engine<Q, L, A, C>
where
    Q: Queues,
    L: Ledger + Marks + tidegate_delivery::ports::History,
    A: Account,
    C: Clock,
{
    /// Looks at the stack for the first time. What a console remembers of before it tells as changes.
    ///
    /// # Errors
    /// [`PortError`]: the stack is out of reach.
    pub async fn start(
        site: StackPorts<Q, L, A, C>,
        limits: crate::stream::StreamLimits,
        memory: Option<StateFile>,
    ) -> Result<(Self, EngineHandle), PortError> {
        let facts = site.look().await?;
        let recalled = memory.as_ref().and_then(StateFile::recall);
        let (history, seen) = match recalled {
            Some((history, seen)) => (history, Some(seen)),
            None => (ChangeLog::new(name(), Vec::new()), None),
        };
        let registry = crate::stream::StreamRegistry::new(limits, history);
        let hub = Arc::new(Hub::new(registry));
        let (stack_view, changes) = StackView::new(facts, seen);
        let first = stack_view.figures();
        let (shown, watched) = watch::channel(Arc::new(LatestFigures::first(first)));
        let (asks, jobs) = mpsc::channel(JOBS);
        let engine = Self {
            site,
            hub: Arc::clone(&hub),
            stack_view: RefCell::new(stack_view),
            memory,
            shown,
            jobs,
            look_now: Notify::new(),
            forecast_now: Notify::new(),
            dead_now: Notify::new(),
            ending: watch::Sender::new(false),
            reader: tokio::sync::Mutex::new(()),
            reviews: RefCell::default(),
        };
        engine.tell(changes);
        engine.show();
        Ok((engine, EngineHandle { hub, shown: watched, jobs: Jobs::new(asks) }))
    }

    /// Looks and acts until `stop`.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let (_, none) = mpsc::channel(1);
        let jobs = std::mem::replace(&mut self.jobs, none);
        let engine = &self;
        let going_on = async {
            tokio::select! {
                () = engine.keep_refreshing() => {}
                () = engine.keep_reading_dead_letters() => {}
                () = engine.keep_forecasting() => {}
                () = engine.run_jobs(jobs) => {}
            }
        };
        tokio::pin!(going_on);
        tokio::select! {
            () = &mut going_on => return,
            () = stop => {}
        }
        // Letters in hand would be hidden from everybody for the visibility timeout.
        self.ending.send_replace(true);
        let let_go = async {
            tokio::select! {
                () = &mut going_on => {}
                _ = self.reader.lock() => {}
            }
        };
        let _ = tokio::time::timeout(PATIENCE, let_go).await;
    }

    /// Waits until the console ends.
    async fn ended(&self) {
        // The sender is here as long as anybody waits.
        let _ = self.ending.subscribe().wait_for(|ending| *ending).await;
    }

    /// Does what pages ask for, all of it side by side.
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
        // Whoever asked may have gone: then nobody hears the answer.
        match job {
            EngineJob::Steer(action, author, answer) => {
                let _ = answer.send(self.steer(&action, &self.author(author)).await);
            }
            EngineJob::Why(asked, answer) => {
                let _ = answer.send(self.why(asked).await);
            }
            EngineJob::ReadDead(answer) => {
                let _ = answer.send(self.read_dead_letters().await.map_err(JobError::from));
            }
            EngineJob::Review(asked, answer) => {
                let _ = answer.send(self.review(asked).await);
            }
            EngineJob::Replay(asked, answer) => self.replay(asked, answer).await,
            EngineJob::StopReplay(answer) => {
                self.reviews.borrow().stop();
                let _ = answer.send(());
            }
        }
    }

    async fn steer(
        &self,
        action: &tidegate_operate::steer::SteerAction,
        author: &Author,
    ) -> Result<tidegate_operate::steer::SteerReport, JobError> {
        let campaigns = self.stack_view.borrow().facts().campaigns.clone();
        let StackPorts { ledger, clock, .. } = &self.site;
        let steered =
            tidegate_operate::steer::steer(action, author, &campaigns, ledger, clock).await?;
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

    async fn why(
        &self,
        asked: tidegate_operate::why::MailQuery,
    ) -> Result<tidegate_operate::why::Explanation, JobError> {
        let status = self.site.look().await?;
        let reading = self.read().await?;
        let poller = self.site.poller.clone();
        let ledger = &self.site.ledger;
        let facts = tidegate_operate::why::gather(asked, status, poller, &reading, ledger).await?;
        Ok(tidegate_operate::why::explain(&facts))
    }

    /// What stands on the dead-letter queue; one reads at a time.
    async fn read(&self) -> Result<tidegate_operate::dead::LetterSnapshot, PortError> {
        let _reader = self.reader.lock().await;
        self.site.read_dead_letters(self.ended()).await
    }

    /// Who acts, and through whom: one console may serve several people.
    fn author(&self, author: Author) -> Author {
        let operator = &self.site.operator;
        let by = match author.by.trim() {
            "" => format!("{operator}, by the console"),
            name if name == operator => format!("{operator}, by the console"),
            name => format!("{name}, by the console of {operator}"),
        };
        Author { by, ..author }
    }

    /// Tells changes, and remembers them.
    fn tell(&self, changes: Vec<crate::event::StateChange>) {
        if changes.is_empty() {
            return;
        }
        for change in &changes {
            tracing::info!(
                kind = change.kind.name(),
                campaign = change.campaign,
                "{}",
                change.title
            );
        }
        self.hub
            .change(|stack_view| changes.into_iter().for_each(|change| stack_view.publish(change)));
        self.remember();
    }

    fn remember(&self) {
        let Some(memory) = &self.memory else { return };
        let history = self.hub.look(|stack_view| stack_view.history().clone());
        if let Err(error) = memory.remember(&history, self.stack_view.borrow().seen()) {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%error, source, "what was seen is not remembered");
        }
    }

    /// Shows what the newest look found.
    fn show(&self) {
        let (figures, series) = {
            let stack_view = self.stack_view.borrow();
            (stack_view.figures(), stack_view.series())
        };
        let json = to_json(&figures);
        self.hub.change(|stack_view| {
            stack_view.set_series(series.into());
            stack_view.show(Telemetry::Figures, json.into());
        });
        self.shown.send_modify(|shown| {
            *shown = Arc::new(shown.next(figures));
        });
    }
}

/// What is told as JSON: text and numbers, which it can say.
pub(crate) fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// A new history's name.
fn name() -> String {
    format!("{:08x}", rand::random::<u32>())
}

impl LatestFigures {
    fn first(figures: StackFigures) -> Self {
        Self { figures, looks: 1, failed: 0 }
    }

    fn next(&self, figures: StackFigures) -> Self {
        let failed = self.failed + u64::from(figures.failed.is_some());
        Self { figures, looks: self.looks + 1, failed }
    }
}

#[cfg(test)]
mod tests;
