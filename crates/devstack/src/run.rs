//! One run: two campaigns onto the queues, and what became of them.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_aws::SystemClock;
use tidegate_delivery::ports::{Clock as _, Ledger as _, QueueUrl, Queues as _};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::aws::LocalAws;
use super::cpu::FunctionWatch;
use super::display::{ProgressDisplay, ProgressSnapshot, QueueDepths};
use super::error::LocalError;
use super::figures::figures;
use super::fill::{fill, is_of_plan};
use super::plan::LocalPlan;
use super::report::{self, Ending, LocalReport, Mails, RunSettings};
use super::sandbox::SandboxStats;
use super::tracker::Tracker;

/// A run without an arrival for this long has stalled.
const STALLED: Duration = Duration::from_secs(90);
/// Mail that was received and not sent stays invisible for up to 30 s (the visibility timeout);
/// this is a little longer.
const QUEUES_EMPTY: Duration = Duration::from_secs(40);
/// Time in which the poller of the last window reports.
const REPORTED: Duration = Duration::from_secs(3);
/// Windows without mail that are watched at the end.
const IDLE: Duration = Duration::from_secs(6);
/// A run of the scheduler lasts one minute; a run that is invoked by hand must end when
/// EventBridge's first begins.
const RUN: Duration = Duration::from_mins(1);

/// Options of a run that do not change the stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions {
    /// Time after the first mail at which the run ends.
    pub limit: Option<Duration>,
    /// Fires the scheduler at once, instead of waiting for EventBridge's first minute.
    pub invoke_now: bool,
}

/// A run while it is under way.
// More than 12 fields: the run's inputs and its figures, which the report needs together.
pub(super) struct LocalRun<'a> {
    aws: &'a mut LocalAws,
    display: &'a mut ProgressDisplay,
    options: RunOptions,
    campaigns: Vec<QueueUrl>,
    merge: Option<QueueUrl>,
    dead_letter: QueueUrl,
    tracker: Tracker,
    seq: u64,
    stats: SandboxStats,
    backlog: QueueDepths,
    functions: FunctionWatch,
    clock: SystemClock,
    begun: Instant,
    /// When this program invokes the scheduler itself; none if it leaves that to EventBridge.
    fire_at: Option<Instant>,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl<'a> LocalRun<'a> {
    pub(super) fn new(
        aws: &'a mut LocalAws,
        plan: LocalPlan,
        options: RunOptions,
        display: &'a mut ProgressDisplay,
    ) -> Result<Self, LocalError> {
        let stack = aws.stack();
        let campaigns =
            vec![stack.queue("FirstCampaignQueueUrl")?, stack.queue("SecondCampaignQueueUrl")?];
        let merge = stack.queue("MergeQueueUrl").ok();
        let dead_letter = stack.queue("DeadLetterQueueUrl")?;
        // Invoked earlier, the scheduler's minute would end before EventBridge's first run begins,
        // and leave a gap.
        let earliest = aws.first_trigger().checked_sub(RUN);
        let fire_at = options.invoke_now.then(|| earliest.unwrap_or_else(Instant::now));
        let functions = FunctionWatch::new(aws.group().unwrap_or_default());
        Ok(Self {
            campaigns,
            merge,
            dead_letter,
            tracker: Tracker::new(plan),
            seq: 0,
            stats: SandboxStats::default(),
            backlog: QueueDepths::default(),
            functions,
            clock: SystemClock::new(),
            begun: Instant::now(),
            fire_at,
            first: None,
            last: None,
            aws,
            display,
            options,
        })
    }

    /// Puts the mails onto the queues.
    pub(super) async fn fill(&mut self) -> Result<(), LocalError> {
        let plan = self.tracker.plan().clone();
        fill(self.aws.queues(), &plan, &self.campaigns, |_| {}).await
    }

    /// Looks at the run every second until all mails have arrived, the time limit passes, or
    /// nothing moves any more.
    pub(super) async fn watch(&mut self) -> Result<Ending, LocalError> {
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            second.tick().await;
            self.fire().await?;
            self.look().await?;
            self.show();
            if let Some(ending) = self.ending() {
                return Ok(ending);
            }
        }
    }

    async fn fire(&mut self) -> Result<(), LocalError> {
        if self.fire_at.is_some_and(|at| Instant::now() >= at) {
            self.fire_at = None;
            self.aws.invoke("SchedulerFunction", &scheduled_event()).await?;
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<(), LocalError> {
        self.aws.check()?;
        self.functions.look();
        let (arrivals, seq) = self.aws.sandbox().mails_after(self.seq).await?;
        self.seq = seq;
        if !arrivals.is_empty() {
            self.last = Some(Instant::now());
            self.first = self.first.or(self.last);
        }
        self.tracker.take(arrivals);
        self.stats = self.aws.sandbox().stats().await?;
        self.backlog = self.depths().await?;
        Ok(())
    }

    async fn depths(&self) -> Result<QueueDepths, LocalError> {
        let mut campaigns = Vec::new();
        for queue in &self.campaigns {
            campaigns.push(self.depth(queue).await?);
        }
        let merge = match &self.merge {
            Some(queue) => Some(self.depth(queue).await?),
            None => None,
        };
        Ok(QueueDepths { campaigns, merge, dead_letter: self.depth(&self.dead_letter).await? })
    }

    async fn depth(&self, queue: &QueueUrl) -> Result<u64, LocalError> {
        let depth = self.aws.queues().depth(queue).await?;
        Ok(depth.visible + depth.in_flight + depth.delayed)
    }

    fn show(&mut self) {
        let moment = ProgressSnapshot {
            headline: self.headline(),
            progress: self.tracker.progress(self.clock.wall().as_nanos()),
            backlog: self.backlog.clone(),
            refused: self.stats.refused.values().sum(),
            elapsed: self.begun.elapsed(),
        };
        self.display.show(self.tracker.plan(), &moment);
    }

    fn headline(&self) -> String {
        if self.tracker.is_complete() {
            return "All mails arrived; a few more windows show what comes late".to_owned();
        }
        if self.first.is_some() {
            return "Sending".to_owned();
        }
        let left = |at: Instant| at.saturating_duration_since(Instant::now()).as_secs();
        match self.fire_at {
            Some(at) => format!(
                "The scheduler is invoked in {} s, so that EventBridge's first minute follows on",
                left(at)
            ),
            None if self.options.invoke_now => "The scheduler was invoked".to_owned(),
            None => match left(self.aws.first_trigger()) {
                0 => "EventBridge fires the scheduler any moment".to_owned(),
                seconds => format!(
                    "EventBridge's first minute: it fires the scheduler in about {seconds} s \
                     (--invoke-now does not wait)"
                ),
            },
        }
    }

    fn ending(&self) -> Option<Ending> {
        let now = Instant::now();
        let over = |since: Instant, most: Duration| now.saturating_duration_since(since) >= most;
        let limit = self.options.limit.zip(self.first);
        if self.tracker.is_complete() {
            Some(Ending::Complete)
        } else if limit.is_some_and(|(most, first)| over(first, most)) {
            Some(Ending::Time)
        } else {
            let since = self.last.unwrap_or_else(|| self.aws.first_trigger().max(self.begun));
            over(since, STALLED).then_some(Ending::Stalled)
        }
    }

    /// Builds the report. It first waits a few windows, in which late duplicates would show.
    pub(super) async fn report(
        mut self,
        settings: RunSettings,
        ending: Ending,
    ) -> Result<LocalReport, LocalError> {
        if ending == Ending::Complete {
            let empty_by = Instant::now() + QUEUES_EMPTY;
            while self.backlog.waiting() > 0 && Instant::now() < empty_by {
                self.linger(Duration::from_secs(1)).await?;
            }
            self.linger(REPORTED).await?;
        }
        let settled = self.counters().await?;
        if ending == Ending::Complete {
            self.linger(IDLE).await?;
        } else {
            self.look().await?;
        }
        let end = self.counters().await?;
        self.display.end();
        Ok(self.put_together(settings, ending, &settled, end))
    }

    /// Keeps looking at the run for this long.
    async fn linger(&mut self, time: Duration) -> Result<(), LocalError> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.look().await?;
            self.show();
        }
        Ok(())
    }

    async fn counters(&self) -> Result<BTreeMap<String, i64>, LocalError> {
        Ok(self.aws.ledger()?.read().await?.counters)
    }

    fn put_together(
        &self,
        settings: RunSettings,
        ending: Ending,
        settled: &BTreeMap<String, i64>,
        counters: BTreeMap<String, i64>,
    ) -> LocalReport {
        let plan = self.tracker.plan();
        let mine = |campaign: &str, key: &str| is_of_plan(plan, campaign, key);
        let mut arrivals = self.tracker.arrivals().to_vec();
        arrivals.sort_by_key(|arrival| arrival.at_ns);
        let figures = figures(plan, &arrivals, mine);
        let (dead_lettered, waiting) = (self.backlog.dead_letter, self.backlog.waiting());
        let lost = figures.missing.saturating_sub(dead_lettered + waiting);
        let mails = Mails {
            queued: plan.mails(),
            arrived: figures.arrived,
            duplicates: figures.duplicates,
            dead_lettered,
            waiting,
            lost: (ending != Ending::Time).then_some(lost),
        };
        let poller = self.functions.usage("poller");
        LocalReport {
            ending,
            promises: report::promises(ending, mails, &self.stats),
            settings,
            mails,
            sqs: report::sqs_calls(settled, &counters),
            poller: poller.map(|usage| report::poller_usage(usage, figures.arrived)),
            scheduler: self.functions.usage("scheduler"),
            figures,
            sandbox: self.stats.clone(),
            counters,
            package_bytes: self.aws.stack().package_bytes.clone(),
        }
    }
}

/// The members of EventBridge's event that a scheduler may read.
fn scheduled_event() -> serde_json::Value {
    serde_json::json!({ "source": "aws.events", "detail-type": "Scheduled Event", "detail": {} })
}
