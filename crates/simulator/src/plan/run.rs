//! The run of one seed: simulated windows, with skips between them.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::Window;
use tidegate_core::control::{Control, HoldReason, Holds};
use tidegate_core::identity::Identity;

use super::daily::{self, DailyLimit};
use super::error::PlanError;
use super::record::WindowRecord;
use super::scenario::Scenario;
use super::skip::{HORIZON, Skip};
use super::state::{SimulationState, as_f64};
use crate::names::MERGE;
use crate::world::World;

/// How long a running stack is without mail before the start.
const WARM_UP: Duration = Duration::from_secs(25);
/// Nothing sent for so many windows: nothing will be.
const STALLED_AFTER: u64 = 7 * 86_400;

#[derive(Clone, Debug)]
pub(super) struct RunResult {
    pub(super) campaigns: Vec<CampaignResult>,
    pub(super) records: Vec<WindowRecord>,
    /// Of the first mail, after the start.
    pub(super) first_arrival: Option<f64>,
    pub(super) simulated_windows: u64,
    pub(super) simulated_mails: u64,
    pub(super) dead: u64,
    /// Reasons of the holds on all sending at the end that nothing lifts by itself.
    pub(super) held: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct CampaignResult {
    /// When its last mail reached SES, in seconds after the start; `None` if mails are left.
    pub(super) after: Option<f64>,
    /// The standard deviation of `after` in seconds, caused by skips.
    pub(super) deviation: f64,
    pub(super) accepted: f64,
    /// Mails that are left, those in the merge queue included.
    pub(super) left: u64,
    /// As [`RunResult::held`], of the holds on this campaign.
    pub(super) held: Vec<String>,
}

/// The caller's control over a run.
#[derive(Clone, Copy)]
pub(super) struct Hooks<'a> {
    /// Told the part of the mails that is done; false stops the run.
    pub(super) progress: &'a (dyn Fn(f64) -> bool + Sync),
    pub(super) every_window: bool,
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
) -> Result<RunResult, PlanError> {
    let mut settings = scenario.settings(seed);
    // Each seed starts at another point of the scheduler's minute.
    let early = WARM_UP + Duration::from_millis(seed * 7_300 % 30_000);
    let early = if scenario.warm { early } else { Duration::from_millis(1_700) };
    settings.epoch = scenario.start.saturating_sub(early);
    let world = World::new(settings)?;
    scenario.faults.iter().for_each(|fault| world.mail_faults.add(fault.rule(scenario.start)));
    scenario.hold(&world).await?;
    let mut state = SimulationState::new(scenario);
    let day = DailyLimit::of(scenario, &world);
    if !scenario.warm {
        world.universe.sleep_until(scenario.start).await;
    }
    let mut begun = false;
    loop {
        let script =
            async |_| simulate(&world, scenario, &mut state, &day, &mut begun, hooks).await;
        match world.play_until_done(script).await? {
            NextStep::Done => break,
            NextStep::StepOver(skip) => step_over(&world, scenario, &mut state, &skip).await,
        }
    }
    state.observe(&world, scenario);
    state.close_all(state.now(&world) + 1);
    Ok(run_result(&world, &state, &world.ledger_now().await?.control))
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
        state.begin(world);
    }
    loop {
        state.top_up(world).await?;
        let next = Window::containing(world.universe.now()).plus(1);
        world.universe.sleep_until(next.opens()).await;
        state.observe(world, scenario);
        if state.is_done(world) || state.now(world) > HORIZON || state.is_stuck() {
            return Ok(NextStep::Done);
        }
        if !(hooks.progress)(state.progress(scenario)) {
            return Err(PlanError::Stopped);
        }
        if !hooks.every_window
            && let Some(skip) = state.find_skip(world, scenario, day)
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
    state.apply_skip(skip);
    let Some(record) = state.records.last().cloned() else { return };
    if scenario.daily.is_some() {
        for (until, recipients) in daily::portions(&record) {
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
    /// The part of the mails that is done.
    fn progress(&self, scenario: &Scenario) -> f64 {
        let accepted: f64 = self.campaigns.iter().map(|campaign| campaign.accepted).sum();
        accepted / as_f64(scenario.mails().max(1))
    }

    /// Whether nothing was sent for [`STALLED_AFTER`] windows, and no hold ended or limit changed meanwhile, so that the
    /// run can end.
    fn is_stuck(&self) -> bool {
        let Some(last) = self.records.last() else { return false };
        let quiet = self.records.iter().rev().take_while(|record| record.total() <= 0.0);
        let since = quiet.last().map_or(last.end(), |record| record.from);
        let released = self.changes.iter().max().map_or(0, std::time::Duration::as_secs);
        last.end().saturating_sub(since.max(released)) > STALLED_AFTER
    }
}

fn run_result(world: &World, state: &SimulationState, control: &Control) -> RunResult {
    let dead: f64 = state.records.iter().map(|record| record.sums.dead).sum();
    let after = |at: tidegate_core::Timestamp| at.saturating_since(state.start).as_secs_f64();
    let merging = merging(world);
    let ended = |campaign: &super::state::CampaignRun| {
        let queued = world.queues.true_depth(&crate::names::url(&campaign.name)).all();
        let left = campaign.reservoir + queued + merging.get(&campaign.name).copied().unwrap_or(0);
        CampaignResult {
            after: campaign.last.filter(|_| left == 0).map(after),
            deviation: campaign.variance.sqrt(),
            accepted: campaign.accepted,
            left,
            held: control.holds_on(Some(&campaign.name)).map(lasting).unwrap_or_default(),
        }
    };
    RunResult {
        campaigns: state.campaigns.iter().map(ended).collect(),
        records: state.records.clone(),
        first_arrival: state.first_arrival.map(after),
        simulated_windows: state.simulated,
        simulated_mails: state.simulated_mails,
        dead: super::daily::floor(dead.round()),
        held: lasting(&control.holds),
    }
}

/// The mails in the merge queue, by campaign.
fn merging(world: &World) -> BTreeMap<String, u64> {
    let mut mails = BTreeMap::new();
    for message in world.contents(MERGE) {
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
