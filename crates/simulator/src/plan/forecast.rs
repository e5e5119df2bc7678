//! A forecast from runs of several seeds. The run of a seed is simulated windows, with skips between them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_core::config::EXPRESS;
use tidegate_core::control::{Control, HoldReason, Holds};
use tidegate_core::identity::Identity;
use tidegate_core::memory::Memory;
use tidegate_core::number::{real, whole};
use tidegate_core::{Timestamp, Window};

use super::cost::Cost;
use super::gate::{self, DailyLimit};
use super::record::{MailState, WindowRecord, sum_within};
use super::report::{
    CampaignForecast, EndEstimate, Forecast, Simulation, Timeline, assumptions, phases,
};
use super::scenario::{CampaignLoad, PlanError, Scenario};
use super::skip::{HORIZON, Skip};
use super::state::{CampaignRun, SimulationState};
use crate::settings::{DEAD_LETTERS, MERGE};
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
            None => {
                state.observe(&world, scenario);
                state.close_all(state.now(&world) + 1);
                break;
            }
            Some(skip) if skip.rest.is_some() => {
                state.close_all(skip.from);
                state.apply(&skip);
                break;
            }
            Some(skip) => step_over(&world, scenario, &mut state, &skip).await,
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

/// Simulates windows until some can be skipped; none if the run is over.
async fn simulate(
    world: &World,
    scenario: &Scenario,
    state: &mut SimulationState,
    day: &DailyLimit,
    begun: &mut bool,
    hooks: Hooks<'_>,
) -> Result<Option<Skip>, PlanError> {
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
            return Ok(None);
        }
        if !(hooks.progress)(state.progress(scenario)) {
            return Err(PlanError::Stopped);
        }
        if !hooks.every_window
            && let Some(skip) = state.find_skip(world, scenario, day, hooks.every_send)
        {
            return Ok(Some(skip));
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
        for (until, recipients) in sending.flat_map(gate::portions) {
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
        accepted / real(scenario.mails().max(1))
    }

    /// Whether nothing was sent for [`STALLED_AFTER`] windows although it could be, so that the run can end.
    fn is_stuck(&self) -> bool {
        let quiet = self.records.iter().rev().take_while(|record| record.total() <= 0.0);
        let open = quiet.filter(|record| record.is_any(MailState::is_sent));
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
            real(campaign.reservoir + fed) * campaign.recipients
        });
        let resumes = world.next_window().saturating_since(self.first_window);
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

/// The largest error that was measured against local runs, in seconds and as a share of the
/// duration. The forecast's range is at least this wide.
const MODEL_ERROR: (f64, f64) = (1.0, 0.005);
const RETENTION_DAYS: f64 = 14.0;
/// The maximum number of entries of a timeline.
const BUCKETS: u64 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForecastOptions {
    /// The number of runs, each with its own random seed; 1 to 100.
    pub seeds: u64,
    /// Whether every window is simulated, without skipping ahead.
    pub every_window: bool,
}

impl Default for ForecastOptions {
    /// Three runs that skip ahead while nothing changes.
    fn default() -> Self {
        Self { seeds: 3, every_window: false }
    }
}

/// Forecasts `scenario`. This blocks: the runs use as many threads as there are processors.
/// `progress` is called from time to time with the part that is done, 0.0 to 1.0; the forecast
/// stops if it returns false.
///
/// # Errors
/// [`PlanError`] of a wrong scenario, [`PlanError::Stopped`].
///
/// ```
/// use tidegate_core::Timestamp;
/// use tidegate_simulator::plan::{ForecastOptions, Scenario, forecast};
/// let mut scenario = Scenario::new(Timestamp::from_millis(1_795_207_000_000));
/// scenario.campaigns = vec!["news=300".parse()?];
/// let forecast = forecast(&scenario, ForecastOptions::default(), &|_| true)?;
/// let end = forecast.ends_after_seconds.ok_or("it ends")?;
/// assert!(end.earliest > 20.0 && end.latest < 30.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn forecast(
    scenario: &Scenario,
    options: ForecastOptions,
    progress: &(dyn Fn(f64) -> bool + Sync),
) -> Result<Forecast, PlanError> {
    scenario.check()?;
    let seeds = options.seeds.clamp(1, 100);
    let done: Vec<AtomicU64> = (0..seeds).map(|_| AtomicU64::new(0)).collect();
    let tell = |seed: u64, part: f64| {
        let of_it = usize::try_from(seed - 1).ok().and_then(|index| done.get(index));
        of_it.inspect(|done| done.store(whole(part.clamp(0.0, 1.0) * 1e6), Ordering::Relaxed));
        let sum: u64 = done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
        progress(real(sum) / 1e6 / real(seeds))
    };
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let every_send = is_uneven(scenario) || scenario.is_limited_by_domain();
    let one = |seed: u64| -> Result<(u64, SimulationState), PlanError> {
        let told = |part| tell(seed, part);
        let hooks = Hooks { progress: &told, every_window: options.every_window, every_send };
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build()?;
        Ok((seed, runtime.block_on(run(scenario, seed, hooks))?))
    };
    // Each thread takes the seeds that are a number of threads apart.
    let work = |first: u64| (first..=seeds).step_by(cores).map(one).collect();
    let results = thread::scope(|scope| {
        let spawn = |first| (first, scope.spawn(move || work(first)));
        let workers: Vec<_> = (1..=seeds).take(cores).map(spawn).collect();
        let joined = workers.into_iter();
        joined
            .map(|(seed, worker)| worker.join().unwrap_or(Err(PlanError::Lost(seed))))
            .collect::<Result<Vec<Vec<_>>, PlanError>>()
    });
    let runs: BTreeMap<u64, SimulationState> = results?.into_iter().flatten().collect();
    combine_runs(scenario, &runs.into_values().collect::<Vec<_>>())
}

fn combine_runs(scenario: &Scenario, runs: &[SimulationState]) -> Result<Forecast, PlanError> {
    let loads = scenario.campaigns.iter().enumerate();
    let campaigns: Vec<CampaignForecast> =
        loads.map(|(index, load)| campaign(scenario.start, load, runs, index)).collect();
    let ends: Vec<Option<(f64, f64)>> = runs.iter().map(last_end).collect();
    // Costs, phases and timeline are those of the run with the median end.
    let mut order: Vec<usize> = (0..runs.len()).collect();
    let end_of = |index: &usize| ends.get(*index).copied().flatten().map_or(f64::MAX, |end| end.0);
    order.sort_by(|a, b| end_of(a).total_cmp(&end_of(b)));
    let middle = order.get(order.len() / 2).and_then(|index| runs.get(*index));
    let Some(middle) = middle else { return Err(PlanError::NoMails) };
    let first = middle.first_arrival.map(|at| at.saturating_since(scenario.start).as_secs_f64());
    let cost = Cost::of(scenario, until_the_end(middle)).map_err(std::io::Error::from)?;
    let ends_after_seconds = span(&ends);
    let simulated = |of: fn(&SimulationState) -> u64| runs.iter().map(of).sum::<u64>();
    Ok(Forecast {
        name: scenario.name.clone(),
        channel: scenario.channel,
        start: Window::containing(scenario.start),
        quota_per_second: scenario.quota,
        ends_after_seconds,
        first_mail_after_seconds: first,
        warnings: warnings(scenario, ends_after_seconds, &campaigns, middle),
        assumptions: assumptions(scenario),
        campaigns,
        dead_letters: whole(middle.dead().round()),
        phases: phases(scenario, &middle.records),
        timeline: timeline(scenario, until_the_end(middle)),
        cost,
        simulation: Simulation {
            seeds: runs.len() as u64,
            windows: middle.records.last().map_or(0, WindowRecord::end),
            simulated_windows: simulated(|run| run.simulated),
            simulated_mails: simulated(|run| run.simulated_mails),
        },
    })
}

/// The end of a run's last campaign in seconds, with its standard deviation; `None` if mail is
/// left.
fn last_end(run: &SimulationState) -> Option<(f64, f64)> {
    let counts = |campaign: &&CampaignRun| campaign.accepted > 0.0 || campaign.left > Some(0);
    let ends = run.campaigns.iter().filter(counts);
    let ends: Option<Vec<_>> = ends.map(|campaign| campaign.end(run.start)).collect();
    ends?.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))
}

/// The estimated end from several runs: the median, two standard deviations to both sides, and at
/// least the model's error. `None` if a run has no end.
fn span(ends: &[Option<(f64, f64)>]) -> Option<EndEstimate> {
    let ends: Vec<(f64, f64)> = ends.iter().copied().collect::<Option<_>>()?;
    let mut sorted: Vec<f64> = ends.iter().map(|end| end.0).collect();
    sorted.sort_by(f64::total_cmp);
    let expected = *sorted.get(sorted.len() / 2)?;
    // Two standard deviations to both sides, and at least the error of the model itself.
    let model = MODEL_ERROR.0.max(expected * MODEL_ERROR.1);
    let early = ends.iter().map(|(at, deviation)| at - 2.0 * deviation).fold(expected, f64::min);
    let late = ends.iter().map(|(at, deviation)| at + 2.0 * deviation).fold(expected, f64::max);
    Some(EndEstimate { earliest: (early - model).max(0.0), expected, latest: late + model })
}

fn campaign(
    start: Timestamp,
    load: &CampaignLoad,
    runs: &[SimulationState],
    index: usize,
) -> CampaignForecast {
    let campaigns: Vec<_> = runs.iter().filter_map(|run| run.campaigns.get(index)).collect();
    let ends: Vec<_> = campaigns.iter().map(|campaign| campaign.end(start)).collect();
    let ends_after_seconds = span(&ends);
    let runs = real(campaigns.len().max(1) as u64);
    let accepted = campaigns.iter().map(|campaign| campaign.accepted).sum::<f64>() / runs;
    let at = |span: EndEstimate| start + Duration::from_secs_f64(span.expected);
    CampaignForecast {
        name: load.name.clone(),
        weight: load.weight,
        mails: load.mails,
        recipients_per_mail: load.recipients,
        ends_after_seconds,
        ends_at: ends_after_seconds.map(|span| Window::containing(at(span))),
        accepted: whole(accepted.round()),
        left: campaigns.iter().filter_map(|campaign| campaign.left).max().unwrap_or(0),
    }
}

/// A run's records up to its last mail.
fn until_the_end(run: &SimulationState) -> &[WindowRecord] {
    let last = run.records.iter().rposition(|record| record.total() > 0.0);
    run.records.get(..last.map_or(0, |last| last + 1)).unwrap_or_default()
}

fn timeline(scenario: &Scenario, records: &[WindowRecord]) -> Timeline {
    const SIZES: [u64; 12] = [1, 2, 5, 10, 30, 60, 300, 900, 1_800, 3_600, 6 * 3_600, 86_400];
    let end = records.last().map_or(0, WindowRecord::end);
    let fits = |size: &u64| end.div_ceil(*size) <= BUCKETS;
    let size = SIZES.into_iter().find(fits).unwrap_or(7 * 86_400);
    let names = scenario.campaigns.iter().map(|load| load.name.as_str());
    let express = scenario.express.map(|_| EXPRESS);
    let campaigns = names.chain(express).enumerate();
    let per_minute = campaigns.map(|(campaign, name)| {
        let buckets = 0..end.div_ceil(size);
        let rate = |bucket: u64| {
            let (from, to) = (bucket * size, ((bucket + 1) * size).min(end));
            let sent = |record: &WindowRecord| record.sent.get(campaign).copied().unwrap_or(0.0);
            sum_within(records, from..to, sent) * 60.0 / real((to - from).max(1))
        };
        (name.to_owned(), buckets.map(rate).collect())
    });
    Timeline { bucket_seconds: size, per_minute: per_minute.collect() }
}

/// Half an hour.
const HALF_HOUR_MILLIS: u64 = 1_800_000;

fn warnings(
    scenario: &Scenario,
    end: Option<EndEstimate>,
    campaigns: &[CampaignForecast],
    run: &SimulationState,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if scenario.timed && scenario.start.as_millis() % HALF_HOUR_MILLIS < 60_000 {
        warnings.push("a full or half hour is everybody's time, and providers delay mail then: a few minutes beside it mail arrives sooner".to_owned());
    }
    let message = scenario.channel.words().message;
    let days = |seconds: f64| seconds / 86_400.0;
    if let Some(end) = end.filter(|end| days(end.latest) > RETENTION_DAYS) {
        warnings.push(format!(
            "the last {message} waits {:.0} days, and SQS keeps a message {RETENTION_DAYS:.0} days at most: put the {message}s on their queues in portions",
            days(end.latest)
        ));
    }
    let left = campaigns.iter().zip(&run.campaigns).filter(|(campaign, _)| campaign.left > 0);
    for (campaign, own) in left {
        let held: Vec<&str> = own.held.iter().chain(&run.held).map(String::as_str).collect();
        let why = if campaign.weight == 0 {
            "its weight is 0".to_owned()
        } else if !held.is_empty() {
            format!("held ({}) until that is lifted", held.join(", "))
        } else {
            format!("not within {} days or {MOST_SIMULATED} simulated windows", HORIZON / 86_400)
        };
        warnings.push(format!("{} keeps {} {message}s: {why}", campaign.name, campaign.left));
    }
    let dead = whole(run.dead().round());
    if dead > 0 {
        warnings.push(format!("{dead} {message}s end as dead letters"));
    }
    if scenario.deployed.is_none() && scenario.quota > 900.0 {
        warnings.push("one poller's window holds 900 sends under way at most: with a slow SES more than that a second is not reached".to_owned());
    }
    let (needed, has) = (Memory::needed(scenario.quota, scenario.mail_kb), scenario.memory());
    if needed.0 > has.0 {
        warnings.push(format!(
            "{} mails of {} KB a second need a poller of {} MB (PollerMemory): {} MB are too slow, which is not in the forecast",
            scenario.quota, scenario.mail_kb, needed.0, has.0
        ));
    }
    warnings
}

/// Up to this number of mails, a scenario with several recipients per mail is simulated window by
/// window.
const UNEVEN_MAILS: u64 = 200_000;

/// Whether skipping ahead would be inaccurate: chance decides which mails with several recipients
/// fit into a window together. Such scenarios are simulated window by window if that takes only
/// seconds.
fn is_uneven(scenario: &Scenario) -> bool {
    let large = scenario.campaigns.iter().any(|load| load.recipients > 1);
    large && scenario.mails() <= UNEVEN_MAILS
}
