//! Tells operators and other programs what begins and what is over, once each.

use std::cell::{Cell, RefCell};
use std::error::Error as StdError;

use tidegate_core::config::{Campaign, Campaigns};
use tidegate_core::events::{of_incidents, of_run};
use tidegate_core::identity::EpochMillis;
use tidegate_core::incidents::{GrowthMemory, IncidentChanges, RunFigures, incidents};

use crate::control;
use crate::ports::{Announce, Clock, Events, Ledger, PortError, QueueUrl, Queues, Runs, Standing};
use crate::schedule::ScheduleReport;
use crate::schedule::minute::SchedulerRunReport;
use crate::waiting::{depths, listed};

/// SNS's limit for a subject, in characters.
const SUBJECT: usize = 100;

/// The figures that a scheduler keeps in memory between runs. After a cold start they begin anew.
#[derive(Debug, Default)]
pub struct IncidentMemory {
    /// Runs in a row in which SES did not tell the quota.
    quota_unknown: Cell<u32>,
    growth: RefCell<GrowthMemory>,
}

impl IncidentMemory {
    /// `report` is `None` for a run that failed, for want of a quota.
    fn figures(
        &self,
        report: Option<&ScheduleReport>,
        minute: &SchedulerRunReport,
        now: EpochMillis,
    ) -> RunFigures {
        let known = report.is_some_and(|report| report.quota_known);
        self.quota_unknown.set(if known { 0 } else { self.quota_unknown.get() + 1 });
        RunFigures {
            quota_unknown: self.quota_unknown.get(),
            ticks_failed: report.map_or(0, |report| report.ticks_failed),
            refill_failed: minute.refill.as_ref().is_some_and(|refill| refill.failed),
            grown: self.growth.borrow_mut().lately(|counter| minute.grown_by(counter), now),
        }
    }
}

/// The newest runs that are looked at: those that are under way.
const RUNS: usize = 20;

/// Who is told of a stack.
#[derive(Debug)]
pub struct Listeners<'a, T, B> {
    /// The stack's name.
    pub stack: &'a str,
    /// The operators' topic.
    pub topic: Option<&'a T>,
    /// Other programs' bus.
    pub bus: Option<&'a B>,
}

/// Tells the stack's listeners which incidents have begun and which are over since they were told last, and
/// notes it in the control record. Nothing is told and nothing written while nothing changes.
///
/// It is told first and noted then: if the note fails, it is told again a minute later.
pub async fn tell<T: Announce, B: Events>(
    listeners: &Listeners<'_, T, B>,
    memory: &IncidentMemory,
    report: Option<&ScheduleReport>,
    minute: &SchedulerRunReport,
    clock: &impl Clock,
    ledger: &impl Ledger,
) {
    let Some(standing) = &minute.standing else { return };
    let now = EpochMillis::from(clock.wall());
    let figures = memory.figures(report, minute, now);
    let found = incidents(&standing.control, &figures, now);
    let changes = IncidentChanges::between(&standing.control.incidents, &found);
    if changes.is_empty() {
        return;
    }
    if listeners.topic.is_none() && listeners.bus.is_none() {
        return;
    }
    if let Err(error) = listeners.tell(&changes).await {
        return tracing::error!(error = &error as &dyn StdError, "operators are not told");
    }
    let (version, control) = (standing.control_version, standing.control.clone());
    let noted = control::change(ledger, version, control, |control| {
        changes.note(&mut control.incidents, now);
    });
    if let Err(error) = noted.await {
        tracing::warn!(error = &error as &dyn StdError, "operators may be told again");
    }
}

/// Tells the bus which runs are over, once each, and notes it in the run. A run is over once all of its mail is gone
/// ([`Run::is_settled`](tidegate_core::runs::Run::is_settled)) and nothing waits on its campaign's queues.
pub async fn tell_finished<T, B: Events>(
    listeners: &Listeners<'_, T, B>,
    campaigns: &Campaigns,
    standing: &Standing,
    queues: &impl Queues,
    clock: &impl Clock,
    runs: &impl Runs,
) {
    let Some(bus) = listeners.bus else { return };
    let told = async {
        for stored in runs.runs(RUNS).await? {
            let (run, now) = (&stored.run, EpochMillis::from(clock.wall()));
            let is_settled = run.is_settled(&standing.counters, &standing.control, now);
            if run.finished.is_some() || !is_settled {
                continue;
            }
            let campaign = listed(campaigns, standing).iter().find(|of| of.name == run.campaign);
            let urls = campaign.into_iter().flat_map(Campaign::queues);
            let urls: Vec<QueueUrl> = urls.map(|(_, url)| QueueUrl::new(url)).collect();
            if depths(queues, &urls).await?.iter().any(|depth| depth.all() > 0) {
                continue;
            }
            bus.put(&[of_run(listeners.stack, run, now)]).await?;
            let mut noted = stored.clone();
            noted.run.finished = Some(now);
            runs.set_run(&noted).await?;
        }
        Ok::<_, PortError>(())
    };
    if let Err(error) = told.await {
        tracing::warn!(error = &error as &dyn StdError, "programs are not told of a run's end");
    }
}

impl<T: Announce, B: Events> Listeners<'_, T, B> {
    async fn tell(&self, changes: &IncidentChanges) -> Result<(), PortError> {
        if let Some(topic) = self.topic {
            announce(topic, self.stack, changes).await?;
        }
        match self.bus {
            Some(bus) => bus.put(&of_incidents(self.stack, changes)).await,
            None => Ok(()),
        }
    }
}

async fn announce(
    topic: &impl Announce,
    stack: &str,
    changes: &IncidentChanges,
) -> Result<(), PortError> {
    for (name, text) in &changes.begun {
        tracing::warn!(incident = name, text, "incident");
        let more =
            format!("{stack}: {text}.\n\nSince now. `tidegate status` and the logs say more.");
        topic.announce(&subject(&format!("{stack}: {text}")), &more).await?;
    }
    for (name, since) in &changes.ended {
        tracing::info!(incident = name, %since, "incident over");
        let text = format!("{stack}: {name} is over. It was told at {since}.");
        topic.announce(&subject(&format!("{stack}: over: {name}")), &text).await?;
    }
    Ok(())
}

/// At most 100 characters; names are ASCII already.
fn subject(text: &str) -> String {
    text.chars().filter(char::is_ascii).take(SUBJECT).collect()
}
