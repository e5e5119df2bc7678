//! One run: two campaigns onto the queues, and what became of them.

use std::time::Duration;

use tidegate_adapters::aws::stack::Stack;
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::status::facts;
use tidegate_operator::status::{HoldStatus, QueueStatus, StackFacts, Status};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::aws::LocalAws;
use super::cpu::FunctionWatch;
use super::error::LocalError;
use super::figures::figures;
use super::fill::is_of_plan;
use super::mailbox::Mailbox;
use super::options::LocalArgs;
use super::plan::LocalPlan;
use super::report::{self, Ending, LocalReport, Mails};
use super::setup::RunSettings;

/// A run without an arrival for this long has stalled.
const STALLED: Duration = Duration::from_secs(90);
/// After this long without an arrival the run looks for what holds sending.
const QUIET: Duration = Duration::from_secs(5);
/// After this long without an answer of the local AWS the run has failed. A busy machine may take 10 s for one.
const UNREACHABLE: Duration = Duration::from_mins(1);
/// Mail that was received and not sent stays invisible for up to 30 s (the visibility timeout);
/// this is a little longer.
const QUEUES_EMPTY: Duration = Duration::from_secs(40);
/// Time in which the poller of the last window reports.
const REPORTED: Duration = Duration::from_secs(3);
/// Windows without mail that are watched at the end.
const IDLE: Duration = Duration::from_secs(6);
/// A run of the scheduler lasts one minute. The first one is invoked so that it ends when EventBridge's
/// first begins.
const RUN: Duration = Duration::from_mins(1);

/// Tries again while it fails. A program that has ended is told at once.
async fn patiently<T>(
    mut check: impl FnMut() -> Result<(), LocalError>,
    mut attempt: impl AsyncFnMut() -> Result<T, LocalError>,
) -> Result<T, LocalError> {
    let begun = Instant::now();
    loop {
        check()?;
        match attempt().await {
            Err(_) if begun.elapsed() < UNREACHABLE => {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            done => return done,
        }
    }
}

/// A run while it is under way.
pub(super) struct LocalRun<'a> {
    aws: &'a mut LocalAws,
    stack: &'a Stack,
    args: &'a LocalArgs,
    plan: LocalPlan,
    mailbox: Mailbox,
    functions: FunctionWatch,
    begun: Instant,
    /// When this program invokes the scheduler; none once it has.
    fire_at: Option<Instant>,
    /// The first and the last arrival.
    arrived: Option<(Instant, Instant)>,
    /// The holds on sending, in words, while nothing arrives.
    held: Vec<String>,
    /// The state of the run in two lines, for the display.
    progress: watch::Sender<String>,
}

impl<'a> LocalRun<'a> {
    pub(super) fn new(
        aws: &'a mut LocalAws,
        stack: &'a Stack,
        args: &'a LocalArgs,
        plan: LocalPlan,
        progress: watch::Sender<String>,
    ) -> Self {
        // Invoked earlier, the scheduler's minute would end before EventBridge's first run begins,
        // and leave a gap.
        let earliest = aws.first_trigger().checked_sub(RUN);
        Self {
            mailbox: Mailbox::new(aws.sandbox().clone()),
            functions: FunctionWatch::new(aws.group().unwrap_or_default()),
            begun: Instant::now(),
            fire_at: Some(earliest.unwrap_or_else(Instant::now)),
            arrived: None,
            held: Vec::new(),
            aws,
            stack,
            args,
            plan,
            progress,
        }
    }

    /// Looks at the run every second until all mails have arrived, the time limit passes, or
    /// nothing moves any more.
    async fn watch(&mut self) -> Result<Ending, LocalError> {
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            second.tick().await;
            if self.fire_at.is_some_and(|at| Instant::now() >= at) {
                self.fire_at = None;
                self.aws.invoke("SchedulerFunction", &scheduled_event()).await?;
            }
            self.look().await?;
            if let Some(ending) = self.ending() {
                return Ok(ending);
            }
        }
    }

    async fn look(&mut self) -> Result<(), LocalError> {
        self.functions.look();
        if patiently(|| self.aws.check(), async || self.mailbox.look(&self.plan).await).await? {
            let now = Instant::now();
            self.arrived = Some((self.arrived.map_or(now, |(first, _)| first), now));
        }
        self.held = if !self.is_complete() && self.quiet_since().elapsed() >= QUIET {
            held(&self.facts().await?)
        } else {
            Vec::new()
        };
        let progress = format!("{}\n{}", self.headline(), self.mailbox.line(&self.plan));
        self.progress.send_replace(progress);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.mailbox.arrived() == self.plan.mails()
    }

    fn headline(&self) -> String {
        if self.is_complete() {
            let all = self.plan.in_words();
            return format!("All {all} arrived; a few more windows show what comes late");
        }
        if !self.held.is_empty() {
            return format!("Nothing is sent: {}", self.held.join("; "));
        }
        if self.arrived.is_some() {
            return "Sending".to_owned();
        }
        let left = |at: Instant| at.saturating_duration_since(Instant::now()).as_secs();
        match self.fire_at {
            Some(at) => format!(
                "The scheduler is invoked in {} s, so that EventBridge's first minute follows on",
                left(at)
            ),
            None => "The scheduler was invoked".to_owned(),
        }
    }

    fn ending(&self) -> Option<Ending> {
        let over = |since: Instant, most: Duration| since.elapsed() >= most;
        let limit = self.args.seconds.map(Duration::from_secs).zip(self.arrived);
        if self.is_complete() {
            Some(Ending::Complete)
        } else if limit.is_some_and(|(most, (first, _))| over(first, most)) {
            Some(Ending::Time)
        } else {
            over(self.quiet_since(), STALLED).then_some(Ending::Stalled)
        }
    }

    /// The last arrival, or when mail could first arrive.
    fn quiet_since(&self) -> Instant {
        let before = self.aws.first_trigger().max(self.begun);
        self.arrived.map_or(before, |(_, last)| last)
    }

    /// Follows the run to its end, and reports. A few windows go by before, in which late duplicates would
    /// show.
    pub(super) async fn report(mut self, settings: RunSettings) -> Result<LocalReport, LocalError> {
        let ending = self.watch().await?;
        if ending == Ending::Complete {
            let empty_by = Instant::now() + QUEUES_EMPTY;
            while waiting(&self.facts().await?) > 0 && Instant::now() < empty_by {
                self.linger(Duration::from_secs(1)).await?;
            }
            self.linger(REPORTED).await?;
        }
        let settled = self.facts().await?;
        if ending == Ending::Complete {
            self.linger(IDLE).await?;
        } else {
            self.look().await?;
        }
        let end = self.facts().await?;
        Ok(self.put_together(settings, ending, &settled, end))
    }

    async fn facts(&mut self) -> Result<StackFacts, LocalError> {
        let stack = self.stack;
        let look = async || Ok(facts(stack, AddressVisibility::Masked, 0).await?);
        patiently(|| self.aws.check(), look).await
    }

    /// Keeps looking at the run for this long.
    async fn linger(&mut self, time: Duration) -> Result<(), LocalError> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.look().await?;
        }
        Ok(())
    }

    fn put_together(
        self,
        settings: RunSettings,
        ending: Ending,
        settled: &StackFacts,
        end: StackFacts,
    ) -> LocalReport {
        let Self { plan, mut mailbox, .. } = self;
        mailbox.arrivals.sort_by_key(|arrival| arrival.at_ns);
        let mine = |campaign: &str, key: &str| is_of_plan(&plan, campaign, key);
        let figures = figures(&plan, &mailbox.arrivals, mine);
        let (dead_lettered, waiting) = (depth(&end, "dead_letters"), waiting(&end));
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
        let held = held(&end);
        let counters = end.standing.counters;
        LocalReport {
            ending,
            held,
            promises: report::promises(ending, mails, &mailbox.stats, plan.channel.words().message),
            settings,
            mails,
            sqs: report::sqs_calls(&settled.standing.counters, &counters),
            poller: poller.map(|usage| report::poller_usage(usage, figures.arrived)),
            scheduler: self.functions.usage("scheduler"),
            figures,
            sandbox: mailbox.stats,
            counters,
            package_bytes: self.aws.stack().package_bytes.clone(),
        }
    }
}

/// Messages that are not sent yet: on the campaign queues and the merge queue, in flight and delayed
/// ones too.
fn waiting(facts: &StackFacts) -> u64 {
    let campaigns = facts.backlogs.values().map(|depth| QueueStatus::from(*depth).all());
    campaigns.sum::<u64>() + depth(facts, "merge")
}

/// The holds on sending: `all sending is held (paused: a typo)`.
fn held(facts: &StackFacts) -> Vec<String> {
    let words = |hold: HoldStatus| {
        let campaign = hold.campaign.as_deref().unwrap_or("all sending");
        let detail =
            if hold.detail.is_empty() { hold.detail } else { format!(": {}", hold.detail) };
        format!("{campaign} is held ({}{detail})", hold.what)
    };
    Status::of(facts).holds.into_iter().map(words).collect()
}

fn depth(facts: &StackFacts, queue: &str) -> u64 {
    facts.depths.get(queue).map_or(0, |depth| QueueStatus::from(*depth).all())
}

/// The members of EventBridge's event that a scheduler may read.
fn scheduled_event() -> serde_json::Value {
    serde_json::json!({ "source": "aws.events", "detail-type": "Scheduled Event", "detail": {} })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often it was asked, how long that took, and whether an answer came.
    async fn asked(answers: u32, ends: u32) -> (u32, Duration, bool) {
        let begun = Instant::now();
        let (mut asked, mut checked) = (0, 0);
        let failed = || LocalError::Option("no answer".to_owned());
        let check = || {
            checked += 1;
            if checked == ends { Err(failed()) } else { Ok(()) }
        };
        let attempt = async || {
            asked += 1;
            if asked == answers { Ok(()) } else { Err(failed()) }
        };
        let done = patiently(check, attempt).await.is_ok();
        (asked, begun.elapsed(), done)
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_is_asked_again_for_a_minute_unless_a_program_has_ended() {
        let seconds = Duration::from_secs;
        assert_eq!(asked(1, 0).await, (1, seconds(0), true));
        assert_eq!(asked(3, 0).await, (3, seconds(2), true));
        assert_eq!(asked(0, 0).await, (61, seconds(60), false));
        assert_eq!(asked(0, 3).await, (2, seconds(2), false));
    }
}
