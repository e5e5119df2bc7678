//! Tells operators and other programs what begins and what is over, once each.

use std::cell::{Cell, RefCell};
use std::error::Error as StdError;

use tidegate_core::config::{Campaign, Campaigns};
use tidegate_core::events::{StackEvent, of_incidents, of_run};
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
    /// Events that the bus has not taken yet.
    events: RefCell<Vec<StackEvent>>,
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

/// Most events that wait for a bus that does not take them; the oldest are dropped.
const EVENTS: usize = 100;
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
/// Operators are told first, and it is noted then: if the note fails, they are told again a minute later. The bus gets it after
/// that, and again each minute until it takes it: operators are not told anew for a bus that is gone.
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
    if !changes.is_empty() && listeners.tell(&changes).await {
        let (version, control) = (standing.control_version, standing.control.clone());
        let noted = control::change(ledger, version, control, |control| {
            changes.note(&mut control.incidents, now);
        });
        if let Err(error) = noted.await {
            tracing::warn!(error = &error as &dyn StdError, "operators may be told again");
        }
        memory.events.borrow_mut().extend(of_incidents(listeners.stack, &changes));
    }
    listeners.put(memory).await;
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
    let stored = runs.runs(RUNS).await.unwrap_or_else(|error| {
        tracing::warn!(error = &error as &dyn StdError, "no run is known");
        Vec::new()
    });
    for stored in stored {
        let (run, now) = (&stored.run, EpochMillis::from(clock.wall()));
        if run.finished.is_some() || !run.is_settled(&standing.counters, &standing.control, now) {
            continue;
        }
        let campaign = listed(campaigns, standing).iter().find(|of| of.name == run.campaign);
        let urls = campaign.into_iter().flat_map(Campaign::queues);
        let urls: Vec<QueueUrl> = urls.map(|(_, url)| QueueUrl::new(url)).collect();
        let told = async {
            if depths(queues, &urls).await?.iter().all(|depth| depth.all() == 0) {
                bus.put(&[of_run(listeners.stack, run, now)]).await?;
                let mut noted = stored.clone();
                noted.run.finished = Some(now);
                runs.set_run(&noted).await?;
            }
            Ok::<_, PortError>(())
        };
        // A queue that is gone concerns its own runs alone.
        if let Err(error) = told.await {
            tracing::warn!(error = &error as &dyn StdError, "programs are not told of a run's end");
        }
    }
}

impl<T: Announce, B: Events> Listeners<'_, T, B> {
    /// Whether the changes may be noted: operators were told, or there is a bus alone.
    async fn tell(&self, changes: &IncidentChanges) -> bool {
        let Some(topic) = self.topic else { return self.bus.is_some() };
        let told = announce(topic, self.stack, changes).await;
        told.inspect_err(|error| {
            tracing::error!(error = error as &dyn StdError, "operators are not told");
        })
        .is_ok()
    }

    /// Puts the events that wait onto the bus.
    async fn put(&self, memory: &IncidentMemory) {
        let mut events = memory.events.take();
        let Some(bus) = self.bus.filter(|_| !events.is_empty()) else { return };
        if let Err(error) = bus.put(&events).await {
            tracing::error!(error = &error as &dyn StdError, "events not put: again in a minute");
            events.drain(..events.len().saturating_sub(EVENTS));
            memory.events.replace(events);
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
