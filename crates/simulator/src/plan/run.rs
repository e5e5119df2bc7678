//! The run of one seed: simulated windows, with skips between them.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::Window;
use tidegate_core::control::{Control, HoldReason, Holds};
use tidegate_core::identity::Identity;

use super::daily::{self, DailyLimit};
use super::error::PlanError;
use super::record::{as_f64, number};
use super::scenario::Scenario;
use super::skip::HORIZON;
use super::state::SimulationState;
use super::stretch::Skip;
use crate::names::{DEAD_LETTERS, MERGE};
use crate::world::World;

/// How long a running stack is without mail before the start.
const WARM_UP: Duration = Duration::from_secs(25);
/// Nothing sent for so many windows: nothing will be.
const STALLED_AFTER: u64 = 7 * 86_400;
/// Before so many windows or mails are simulated, a rate that is not known but measured is not relied on.
const MEASURED_WINDOWS: u64 = 600;
const MEASURED_MAILS: f64 = 20_000.0;
/// A run ends after so many simulated windows, whatever is left.
pub(super) const MOST_SIMULATED: u64 = 30_000;

/// The caller's control over a run.
#[derive(Clone, Copy)]
pub(super) struct Hooks<'a> {
    /// Told the part of the mails that is done; false stops the run.
    pub(super) progress: &'a (dyn Fn(f64) -> bool + Sync),
    /// Whether no window is skipped.
    pub(super) every_window: bool,
    /// Whether only windows in which nothing is sent are skipped.
    pub(super) every_send: bool,
}

enum NextStep {
    Done,
    StepOver(Box<Skip>),
}

/// Runs `scenario` with the random seed `seed`. Must be called inside a paused tokio runtime.
pub(super) async fn run(
    scenario: &Scenario,
    seed: u64,
    hooks: Hooks<'_>,
) -> Result<SimulationState, PlanError> {
    let mut settings = scenario.settings(seed);
    // Each seed starts at another point of the scheduler's minute.
    let early = WARM_UP + Duration::from_millis(seed * 7_300 % 30_000);
    let early = if scenario.warm { early } else { Duration::from_millis(1_700) };
    settings.epoch = scenario.start.saturating_sub(early);
    let world = World::new(settings)?;
    scenario.faults.iter().for_each(|fault| world.mail_faults.add(fault.rule(scenario.start)));
    hold(scenario, &world).await?;
    let rate_margin = world.poller.borrow().rate_margin;
    let mut state = SimulationState::new(scenario, rate_margin);
    let day = DailyLimit::of(scenario, &world);
    if !scenario.warm {
        world.universe.sleep_until(scenario.start).await;
    }
    let mut begun = false;
    loop {
        let script =
            async |_| simulate(&world, scenario, &mut state, &day, &mut begun, hooks).await;
        match world.play_until_done(script).await? {
            NextStep::Done => {
                state.observe(&world, scenario);
                state.close_all(state.now(&world) + 1);
                break;
            }
            NextStep::StepOver(skip) if skip.rest.is_some() => {
                state.close_all(skip.from);
                state.apply(&skip);
                break;
            }
            NextStep::StepOver(skip) => step_over(&world, scenario, &mut state, &skip).await,
        }
    }
    state.end(&world, &world.ledger_now().await?.control);
    Ok(state)
}

/// Writes the holds and limits at the start into the simulated ledger, where pollers read them as the deployed ones do;
/// a hold with an end lets go then. SES refuses as long as it is the account that is held, because the simulated
/// scheduler would lift that hold otherwise.
async fn hold(scenario: &Scenario, world: &World) -> Result<(), PlanError> {
    let given = &scenario.control;
    if given.holds.get(HoldReason::Account).is_some() {
        world.ses.configure(|settings| settings.sending_enabled = false);
    }
    let write = |control: &mut Control| {
        control.holds.clone_from(&given.holds);
        control.campaign_holds.clone_from(&given.campaign_holds);
        // Nobody knows when SES will accept such mail: a second hold keeps the simulated pollers from a probe.
        for holds in control.campaign_holds.values_mut() {
            if let Some(hold) = holds.get(HoldReason::Refusals).cloned() {
                holds.add(HoldReason::Reputation, hold);
            }
        }
        control.limits.clone_from(&given.limits);
        control.adapted.clone_from(&given.adapted);
    };
    let is_any = given.named_holds().next().is_some() || !given.limits.is_empty();
    while is_any && !world.control(write).await? {}
    Ok(())
}

async fn simulate(
    world: &World,
    scenario: &Scenario,
    state: &mut SimulationState,
    day: &DailyLimit,
    begun: &mut bool,
    hooks: Hooks<'_>,
) -> Result<NextStep, PlanError> {
    if !std::mem::replace(begun, true) {
        world.universe.sleep_until(scenario.start).await;
        world.ses.send_as_another(scenario.daily.map_or(0, |daily| daily.sent));
        state.begin(world, scenario);
    }
    loop {
        state.top_up(world).await?;
        let next = Window::containing(world.universe.now()).plus(1);
        world.universe.sleep_until(next.opens()).await;
        state.observe(world, scenario);
        let too_many = state.simulated > MOST_SIMULATED && !hooks.every_window && !hooks.every_send;
        if state.is_done(world) || state.now(world) > HORIZON || state.is_stuck() || too_many {
            return Ok(NextStep::Done);
        }
        if !(hooks.progress)(state.progress(scenario)) {
            return Err(PlanError::Stopped);
        }
        if !hooks.every_window
            && let Some(skip) = state.find_skip(world, scenario, day, hooks.every_send)
        {
            return Ok(NextStep::StepOver(Box::new(skip)));
        }
        // Other tasks, such as the one that stops a forecast, get a turn once per window.
        tokio::task::yield_now().await;
    }
}

async fn step_over(world: &World, scenario: &Scenario, state: &mut SimulationState, skip: &Skip) {
    state.observe(world, scenario);
    state.close_all(skip.from);
    let first = state.records.len();
    state.apply(skip);
    let Some(record) = state.records.last().cloned() else { return };
    let sending = state.records.iter().skip(first).filter(|record| record.total() > 0.0);
    if scenario.daily.is_some() {
        for (until, recipients) in sending.flat_map(daily::portions) {
            let at = state.first_window.plus(until.saturating_sub(1)).opens();
            world.universe.sleep_until(at).await;
            world.ses.send_as_another(recipients);
        }
    }
    // The next window's tick is sent from the window before it.
    let resume = state.first_window.plus(record.end().saturating_sub(1)).opens();
    world.universe.sleep_until(resume + Duration::from_millis(100)).await;
}

impl SimulationState {
    /// Notes what is left at the end of a run, and which holds keep it.
    fn end(&mut self, world: &World, control: &Control) {
        let merging = on_queue(world, MERGE);
        for campaign in &mut self.campaigns {
            let queued = world.queues.true_depth(&campaign.url).all();
            let merging = merging.get(&campaign.name).copied().unwrap_or(0);
            campaign.left.get_or_insert(campaign.reservoir + queued + merging);
            campaign.held = control.holds_on(Some(&campaign.name)).map(lasting).unwrap_or_default();
        }
        self.held = lasting(&control.holds);
    }

    /// Whether a measured rate may be off: express mail and shares even out over minutes.
    fn is_early(&self) -> bool {
        let accepted: f64 = self.campaigns.iter().map(|campaign| campaign.accepted).sum();
        self.simulated < MEASURED_WINDOWS && accepted < MEASURED_MAILS
    }

    /// The part of the mails that is done.
    fn progress(&self, scenario: &Scenario) -> f64 {
        let accepted: f64 = self.campaigns.iter().map(|campaign| campaign.accepted).sum();
        accepted / as_f64(scenario.mails().max(1))
    }

    /// Whether nothing was sent for [`STALLED_AFTER`] windows although it could be, so that the run can end.
    fn is_stuck(&self) -> bool {
        let quiet = self.records.iter().rev().take_while(|record| record.total() <= 0.0);
        let open = quiet.filter(|record| record.is_any(super::gate::MailState::is_sent));
        open.map(|record| record.windows).sum::<u64>() > STALLED_AFTER
    }

    /// The skip that is possible now, if there is one.
    fn find_skip(
        &self,
        world: &World,
        scenario: &Scenario,
        day: &DailyLimit,
        every_send: bool,
    ) -> Option<Skip> {
        let sample = self.sample(scenario, day)?;
        if sample.each.total() > 0.0 && (every_send || (sample.error > 0.0 && self.is_early())) {
            return None;
        }
        let dead = on_queue(world, DEAD_LETTERS);
        let left = self.campaigns.iter().map(|campaign| {
            let dead = dead.get(&campaign.name).copied().unwrap_or(0);
            let fed = campaign.enqueued.saturating_sub(campaign.enqueued_accepted + dead);
            as_f64(campaign.reservoir + fed) * campaign.recipients
        });
        let resumes = number(world.next_window(), self.first_window);
        self.skip(scenario, day, &sample, self.now(world), resumes, left.collect())
    }
}

/// The mails on a queue that Tidegate alone writes, by campaign.
fn on_queue(world: &World, queue: &str) -> BTreeMap<String, u64> {
    let mut mails = BTreeMap::new();
    for message in world.contents(queue) {
        let identity = message.attributes.get("identity");
        let identity = identity.and_then(|text| Identity::parse(text).ok());
        if let Some(campaign) = identity.and_then(|identity| identity.campaign()) {
            *mails.entry(campaign).or_default() += 1;
        }
    }
    mails
}

/// The reasons of holds that stay until an operator lifts them.
fn lasting(holds: &Holds) -> Vec<String> {
    let passing = [HoldReason::DailyQuota, HoldReason::DailyBudget].map(HoldReason::as_str);
    let lasting = holds.reasons().filter(|reason| !passing.contains(reason));
    lasting.map(str::to_owned).collect()
}
