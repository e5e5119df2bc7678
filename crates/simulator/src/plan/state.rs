//! The state of one simulated run: the mails still to be enqueued, and the records of finished
//! windows.

use std::collections::{BTreeMap, VecDeque};

use futures_util::future::try_join_all;
use tidegate_core::channel::Channel;
use tidegate_core::grid::SlotGrid;
use tidegate_core::number::{real, whole};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::poll::End;
use tidegate_delivery::ports::{Outgoing, QueueUrl};

use super::gate::Gates;
use super::record::{MailState, Sum, WindowRecord};
use super::scenario::{DomainShare, PlanError, Scenario, domain_of};
use crate::mail::{BodyForm, ProducedMail};
use crate::settings::{EXPRESS, MERGE, limit_queue, url};
use crate::world::{PollerRun, World};

/// The pollers of a window have reported this many windows later.
const REPORTED_AFTER: u64 = 3;
/// Each of so many campaigns may be sent alone for two windows, as the first one that is found is.
const FEW: f64 = 40.0;

/// The progress of one campaign in a run.
#[derive(Clone, Debug)]
// More than 12 fields: one for each counter of a campaign's forecast.
pub(super) struct CampaignRun {
    pub(super) name: String,
    pub(super) url: QueueUrl,
    weight: f64,
    pub(super) recipients: f64,
    /// Mails that are not enqueued yet. The queue is refilled as it drains, because a queue with a
    /// million messages would cost memory and nothing depends on its length.
    pub(super) reservoir: u64,
    mail: ProducedMail,
    domains: Vec<DomainShare>,
    pub(super) enqueued: u64,
    /// Mails that SES accepted of those that were enqueued.
    pub(super) enqueued_accepted: u64,
    /// Mails that SES accepted, including those of skips.
    pub(super) accepted: f64,
    pub(super) last: Option<Timestamp>,
    /// The fraction of a mail that the last skip rounded off; the next skip adds it.
    pub(super) carry: f64,
    /// The variance of the campaign's end caused by skips, in seconds squared.
    pub(super) variance: f64,
    /// Mails that are left at the end, those in the merge queue included.
    pub(super) left: Option<u64>,
    /// Reasons of the holds on it at the end that nothing lifts by itself.
    pub(super) held: Vec<String>,
}

#[derive(Debug)]
// More than 12 fields: one for each part of a run's state.
pub(super) struct SimulationState {
    pub(super) campaigns: Vec<CampaignRun>,
    /// The place of each campaign among them, by its name.
    places: BTreeMap<String, usize>,
    /// Records of finished windows and skips, in order of time.
    pub(super) records: Vec<WindowRecord>,
    /// Those of the windows that are not closed.
    pub(super) open: VecDeque<WindowRecord>,
    pub(super) start: Timestamp,
    /// The window that contains the start; it has number 0.
    pub(super) first_window: Window,
    pub(super) first_arrival: Option<Timestamp>,
    pub(super) simulated: u64,
    pub(super) simulated_mails: u64,
    express: Option<(f64, f64, u64)>,
    pub(super) gates: Gates,
    /// Recipients a window that the quota allows.
    pub(super) full: f64,
    calls: (u64, u64),
    /// The window since which the same campaigns have had mail and the same faults have been
    /// active.
    pub(super) unchanged_since: u64,
    /// Reasons of the holds on all sending at the end that nothing lifts by itself.
    pub(super) held: Vec<String>,
}

impl SimulationState {
    pub(super) fn new(scenario: &Scenario, rate_margin: RateMargin) -> Self {
        let campaigns = scenario.campaigns.iter();
        Self {
            campaigns: campaigns.clone().map(|load| CampaignRun::new(load, scenario)).collect(),
            places: campaigns.map(|load| load.name.clone()).zip(0..).collect(),
            gates: Gates::new(scenario, rate_margin),
            full: grid_rate(scenario.quota, rate_margin).unwrap_or(0.0),
            records: Vec::new(),
            open: VecDeque::new(),
            start: scenario.start,
            first_window: Window::containing(scenario.start),
            first_arrival: None,
            simulated: 0,
            simulated_mails: 0,
            express: scenario.express.map(|rate| (rate, 0.0, 0)),
            calls: (0, 0),
            unchanged_since: 0,
            held: Vec::new(),
        }
    }

    /// The number of the current window.
    pub(super) fn now(&self, world: &World) -> u64 {
        Window::containing(world.universe.now()).saturating_since(self.first_window)
    }

    /// Adds all events until now to the records of their windows.
    pub(super) fn observe(&mut self, world: &World, scenario: &Scenario) {
        let now = self.now(world);
        let states = self.states(world, scenario, now);
        let after = world.universe.now().saturating_since(self.start);
        let struck = scenario.faults.iter().enumerate();
        let faults = struck.filter(|(_, fault)| fault.strikes_at(after));
        let faults = faults.fold(0, |bits, (index, _)| bits | 1 << index.min(63));
        let record = self.at(now);
        (record.states, record.faults) = (states, faults);
        self.arrivals(world);
        let starts: Vec<PollerRun> = world.poller_runs().drain(..).collect();
        // A long run does not keep them in memory.
        world.schedule_reports.borrow_mut().clear();
        world.minute_reports.borrow_mut().clear();
        for started in &starts {
            self.started(started, scenario.quota);
        }
        self.calls(world, now);
        self.close(now.saturating_sub(REPORTED_AFTER));
    }

    fn arrivals(&mut self, world: &World) {
        for arrival in world.ses.take_arrivals() {
            self.simulated_mails += 1;
            let window = Window::containing(arrival.at).saturating_since(self.first_window);
            let place = self.places.get(&arrival.campaign).copied();
            let index = place.unwrap_or(self.campaigns.len());
            if let Some(campaign) = self.campaigns.get_mut(index) {
                campaign.last = Some(arrival.at);
                campaign.enqueued_accepted += u64::from(arrival.verdict.is_ok());
                campaign.accepted += if arrival.verdict.is_ok() { 1.0 } else { 0.0 };
                self.first_arrival.get_or_insert(arrival.at);
            }
            let record = self.at(window);
            record.sums[Sum::Mails] += 1.0;
            if arrival.verdict.is_ok()
                && let Some(sent) = record.sent.get_mut(index)
            {
                *sent += f64::from(arrival.recipients);
            }
        }
    }

    fn started(&mut self, started: &PollerRun, quota: f64) {
        let of = started.tick.map_or(Window::containing(started.at), |tick| tick.window);
        let record = self.at(of.saturating_since(self.first_window));
        record.sums[Sum::Pollers] += 1.0;
        let ran = started.ended.saturating_since(started.at);
        record.sums[Sum::PollerMs] += ran.as_secs_f64() * 1e3;
        let tick = started.tick.map(|tick| f64::from(tick.quota));
        if let Some(report) = started.report()
            && !matches!(report.end, End::Duplicate | End::Expired | End::Early | End::Owed)
        {
            record.rate = report.rate_per_second.map_or(record.rate, f64::from);
            record.sums[Sum::Claims] += 1.0;
            record.sums.report(report, quota, tick);
        }
    }

    fn calls(&mut self, world: &World, now: u64) {
        let (standard, fifo) = world.queues.calls_by_kind();
        let was = std::mem::replace(&mut self.calls, (standard, fifo));
        let sums = &mut self.at(now).sums;
        sums[Sum::SqsStandard] += real(standard - was.0);
        sums[Sum::SqsFifo] += real(fifo - was.1);
    }

    /// The open record of a window. Events of a window that is closed already go to the oldest open
    /// record.
    fn at(&mut self, window: u64) -> &mut WindowRecord {
        let done = self.records.last().map_or(0, WindowRecord::end);
        let campaigns = self.campaigns.len() + 1;
        let next = self.open.back().map_or(done, WindowRecord::end);
        self.open.extend((next..=window.max(done)).map(|from| WindowRecord::of(from, campaigns)));
        let index = usize::try_from(window.saturating_sub(done)).unwrap_or(usize::MAX);
        // There is one: a window that is not open yet was just opened, or later ones are open.
        let index = index.min(self.open.len().saturating_sub(1));
        &mut self.open[index]
    }

    fn close(&mut self, known: u64) {
        let is_held = |record: &WindowRecord| record.sums[Sum::Held] > 0.0;
        while let Some(record) = self.open.pop_front_if(|record| record.from < known) {
            self.simulated += 1;
            let alike = |last: &WindowRecord| {
                (&last.states, last.faults) == (&record.states, record.faults)
                    && is_held(last) == is_held(&record)
            };
            if !self.records.last().is_some_and(alike) {
                self.unchanged_since = record.from;
            }
            self.records.push(record);
        }
    }

    /// Discards everything that happened before the start.
    pub(super) fn begin(&mut self, world: &World, scenario: &Scenario) {
        drop(world.ses.take_arrivals());
        world.poller_runs().clear();
        self.calls = world.queues.calls_by_kind();
        let states = self.states(world, scenario, 0);
        self.at(0).states = states;
    }

    /// Closes every window before `end`, as a skip needs.
    pub(super) fn close_all(&mut self, end: u64) {
        if end > 0 {
            self.at(end - 1);
        }
        self.close(end);
    }

    /// Of each campaign whether it has mail that was not fed yet.
    fn waiting(&self, world: &World) -> Vec<bool> {
        let has_mail = |campaign: &CampaignRun| {
            campaign.reservoir > 0 || world.queues.true_depth(&campaign.url).all() > 0
        };
        self.campaigns.iter().map(has_mail).collect()
    }

    fn states(&mut self, world: &World, scenario: &Scenario, at: u64) -> Vec<MailState> {
        let waiting = self.waiting(world);
        self.gates.pass(scenario, at);
        self.gates.share(self.full, |index| waiting.get(index) == Some(&true)).0
    }

    /// Whether the last mails of a campaign are in the merge queue. They end soon, or a large mail
    /// is passed over for a long time; a constant rate describes neither, so these windows are
    /// simulated.
    pub(super) fn has_last_mails_waiting(&self, last: &WindowRecord) -> bool {
        let fed = |(campaign, state): (&CampaignRun, &MailState)| {
            *state == MailState::Empty && campaign.enqueued_accepted < campaign.enqueued
        };
        self.dead() <= 0.0 && self.campaigns.iter().zip(&last.states).any(fed)
    }

    pub(super) fn dead(&self) -> f64 {
        self.records.iter().map(|record| record.sums[Sum::Dead]).sum()
    }

    /// Whether every mail is sent or dead-lettered.
    pub(super) fn is_done(&self, world: &World) -> bool {
        let limited = (0..world.limit_queues()).map(limit_queue);
        let mut queues = limited.chain([MERGE.to_owned()]);
        let is_empty = |name: String| world.queues.true_depth(&url(&name)).all() == 0;
        !self.waiting(world).contains(&true) && queues.all(is_empty)
    }

    /// Refills the campaigns' queues for the next windows, and adds the express mails of this
    /// window.
    pub(super) async fn top_up(&mut self, world: &World) -> Result<(), PlanError> {
        let sent = self.campaigns.iter().enumerate();
        let sent = sent.filter(|(index, own)| own.reservoir > 0 && self.gates.is_sent(*index));
        let weights: f64 = sent.map(|(_, campaign)| campaign.weight).sum();
        let alone = FEW / real(self.campaigns.len() as u64);
        let mut puts = Vec::new();
        for campaign in self.campaigns.iter_mut().filter(|campaign| campaign.reservoir > 0) {
            let ready = world.queues.true_depth(&campaign.url).visible;
            // Enough for two windows alone, or ten windows at its share, plus 40 messages that pollers may receive
            // beyond the shares. Of many campaigns few can be sent much more than their shares.
            let share = campaign.weight / weights.max(campaign.weight).max(1.0);
            let windows = 2.0 * alone.max(FEW * share).min(1.0) + 10.0 * share;
            let messages = whole((self.full / campaign.recipients * windows).ceil());
            if ready < messages + 40 {
                puts.push((campaign.name.clone(), campaign.take(3 * messages + 40 - ready)));
            }
        }
        // At the same time: one after the other, the last of many campaigns would start seconds after the first.
        try_join_all(puts.iter().map(|(name, mails)| world.put_raw(name, mails))).await?;
        let body = self.campaigns.first().map_or(BodyForm::Repeated, |own| own.mail.body);
        if let Some((rate, due, enqueued)) = &mut self.express {
            *due += *rate;
            let mut mails = Vec::new();
            while *due >= 1.0 {
                (*due, *enqueued) = (*due - 1.0, *enqueued + 1);
                let mail =
                    ProducedMail { body, ..ProducedMail::new(format!("express-{enqueued}")) };
                mails.push(Outgoing::new(mail.body()));
            }
            world.put_raw(EXPRESS, &mails).await?;
        }
        Ok(())
    }
}

impl CampaignRun {
    fn new(load: &super::scenario::CampaignLoad, scenario: &Scenario) -> Self {
        let is_text = scenario.channel == Channel::Sms;
        let body = if is_text { BodyForm::TextMessage } else { BodyForm::Repeated };
        Self {
            name: load.name.clone(),
            url: url(&load.name),
            weight: f64::from(load.weight),
            recipients: f64::from(load.recipients),
            reservoir: load.mails,
            mail: ProducedMail { recipients: load.recipients, body, ..ProducedMail::new("") },
            domains: scenario.domains.clone(),
            enqueued: 0,
            enqueued_accepted: 0,
            accepted: 0.0,
            last: None,
            carry: 0.0,
            variance: 0.0,
            left: None,
            held: Vec::new(),
        }
    }

    /// When its last mail reached SES, in seconds after the start, and the standard deviation, which skips cause; `None` if
    /// mails are left.
    pub(super) fn end(&self, start: Timestamp) -> Option<(f64, f64)> {
        let last = self.last.filter(|_| self.left == Some(0))?;
        Some((last.saturating_since(start).as_secs_f64(), self.variance.sqrt()))
    }

    fn take(&mut self, mails: u64) -> Vec<Outgoing> {
        let taken = mails.min(self.reservoir);
        self.reservoir -= taken;
        let numbers = self.enqueued..self.enqueued + taken;
        self.enqueued += taken;
        let mail = |n: u64| ProducedMail {
            id: format!("{}-{n}", self.name),
            domain: domain_of(&self.domains, n),
            ..self.mail.clone()
        };
        numbers.map(|n| Outgoing::new(mail(n).body())).collect()
    }
}

/// Slots per second of the slot grid of a rate: the rate less the rate margin.
pub(super) fn grid_rate(rate: f64, rate_margin: RateMargin) -> Option<f64> {
    let grid = SlotGrid::new(Rate::per_second(rate).ok()?, rate_margin);
    Some(1e9 / real(grid.period().max(1)))
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::super::scenario::CampaignLoad;
    use super::*;

    #[test]
    fn the_mails_of_many_campaigns_are_enqueued_together_and_few_at_a_time() {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let mut scenario = Scenario::new(Timestamp::from_millis(1_795_207_000_000));
            scenario.quota = 200.0;
            let load =
                |n| CampaignLoad { name: format!("c{n}"), weight: 1, mails: 10_000, recipients: 1 };
            scenario.campaigns = (0..1_000).map(load).collect();
            let world = World::new(scenario.settings(1)).unwrap();
            let mut state = SimulationState::new(&scenario, RateMargin::default());
            let before = world.universe.now();
            state.begin(&world, &scenario);
            state.top_up(&world).await.unwrap();
            let took = world.universe.now().saturating_since(before).as_millis();
            assert!(took <= 20, "the last queue was filled after {took} ms");
            for campaign in &state.campaigns {
                let queued = world.queues.true_depth(&campaign.url).visible;
                assert!((40..=120).contains(&queued), "{}: {queued} messages", campaign.name);
            }
            // A campaign that is left alone may have all slots of two windows.
            for campaign in state.campaigns.iter_mut().skip(1) {
                campaign.reservoir = 0;
            }
            state.top_up(&world).await.unwrap();
            let alone = world.queues.true_depth(&state.campaigns[0].url).visible;
            assert!(alone >= 400, "{alone} messages");
        });
    }
}
