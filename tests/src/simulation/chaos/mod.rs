//! A world and its faults, drawn from one seed.

mod draw;
mod extras;
mod invariants;
mod limits;
mod shrink;
mod tally;

use std::ops::Range;
use std::time::Duration;

use futures_util::future::join;
use tidegate_core::control::{Cancel, Hold, HoldReason};
use tidegate_core::email::Priority;
use tidegate_core::identity::{Envelope, EpochMillis, Identity};
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::{Outgoing, Standing};
use tidegate_fakes::{Counting, Fault, Operation, Rule, failures};
use tidegate_simulator::LateStarts;

use super::mail::{MailVariation as _, produced};
use super::{EXPRESS, ProducedMail, World, WorldSettings, rate};
use draw::Draw;
use extras::Extras;
pub use invariants::Broken;
use limits::DrawnLimits;
use shrink::Parts;
pub use shrink::{Reduction, shrink};
pub use tally::Tally;

/// Days within which everything must be settled after the storm. Without a daily quota no time passes between them.
const DAYS: usize = 12;
/// Minutes of a day that are run. Deferred mail comes back only after ten minutes in which the level was clear.
const MINUTES: usize = 10;
const MINUTES_WITH_DEFERRAL: usize = 25;

/// The recipients' domains, where limits are drawn.
const DOMAINS: [&str; 4] = ["gmail.com", "a.example", "b.example", "c.example"];

/// A seed's world and the record of what was done to it.
#[derive(Debug)]
pub struct Chaos {
    pub world: World,
    /// Settings in words, for a failed assertion.
    pub story: Vec<String>,
    /// The faults, events and kinds of mail that it has.
    parts: Parts,
    simulated: Duration,
    /// The highest quota that ticks carried.
    highest_quota: f64,
    /// The most recipients of a mail.
    largest: u32,
    /// The largest difference of the clocks of two environments.
    apart: Duration,
    deduplication: &'static str,
    crashes: Vec<Timestamp>,
    /// The id that was put on a queue twice.
    twice: Option<String>,
    /// Messages whose body is not valid.
    poison: usize,
    /// Mails that SES never accepts.
    refused: Vec<String>,
    /// Mails of the big campaign and of express whose producer claimed to be the small campaign's.
    forged: Vec<String>,
    /// A span in which both campaigns had mail and nothing failed.
    calm: Option<Range<Timestamp>>,
    defers: bool,
    stores: bool,
    limits: DrawnLimits,
    reported: usize,
    /// The ledger's state at the end.
    standing: Option<Standing>,
}

/// Runs the world of `seed`, less what is left out, through its storm and until all is settled.
pub async fn run(seed: u64, reduction: &Reduction) -> Chaos {
    let draw = Draw::new(seed);
    let (mut chaos, extras) = begin(&draw, seed, Parts::new(reduction));
    let began = chaos.world.universe.now();
    chaos.limits.set(&chaos.world).await;
    forge(&mut chaos).await;
    fill(&mut chaos, &draw).await;
    refuse(&mut chaos).await;
    extras.fill(&chaos.world).await;
    // One in eight is long enough for the breaker to block.
    let storm = if draw.one_in(8) { 150 } else { 16 };
    let first = chaos.world.next_window();
    start_late(&mut chaos);
    storms(&mut chaos, &draw, &extras, storm).await;
    chaos.world.faults.clear();
    chaos.world.mail_faults.clear();
    limits::pause_tenant(&chaos.world, false);
    chaos.story.push(format!("the storm was from {first}, {storm} windows"));
    operate(&chaos.world).await;
    extras.defer(&mut chaos).await;
    // Limits of campaigns and senders change the shares.
    if draw.one_in(3) && !chaos.limits.are_some() {
        chaos.calm = shares(&chaos).await;
    }
    let minutes = if chaos.defers { MINUTES_WITH_DEFERRAL } else { MINUTES };
    for minute in 0..DAYS * minutes {
        let is_refused = |id: &String| chaos.refused.contains(id);
        let unsent = chaos.world.unsent();
        let is_held = !unsent.is_empty()
            && unsent.iter().all(is_refused)
            && chaos.world.store.contents().is_empty();
        let is_over = chaos.world.is_drained() || is_held && minute > 20;
        if !is_over {
            chaos.world.run(60).await;
            chaos.limits.report(&chaos.world).await;
            operate(&chaos.world).await;
        }
        if minute % minutes == minutes - 1 && chaos.world.settings.daily_quota.is_some() {
            // The day's quota frees up.
            tokio::time::sleep(Duration::from_hours(24)).await;
        }
    }
    extras.calm_down(&chaos.world).await;
    chaos.standing = Some(chaos.world.ledger_now().await);
    chaos.simulated = chaos.world.universe.now().saturating_since(began);
    chaos
}

fn begin(draw: &Draw, seed: u64, mut parts: Parts) -> (Chaos, Extras) {
    let quota = draw.pick(&[2.0, 5.0, 14.0, 14.0, 40.0]);
    let extras = Extras::draw(seed, quota, &mut parts);
    let merge = !draw.one_in(3);
    let deduplication = draw.pick(&["off", "off", "resend", "park"]);
    let unsent = draw.pick(&["timeout", "timeout", "release"]);
    let apart = draw.pick(&[0, 0, 0, 400]);
    let apart = Duration::from_millis(parts.count("ms between clocks", apart));
    let half = i64::try_from(apart.as_nanos() / 2).unwrap_or(0);
    let settings = WorldSettings {
        express: draw.one_in(2) && parts.has("express mail", ""),
        counting: Counting::Bucket,
        clocks: [-half, half].repeat(30),
        seed,
        ..WorldSettings::new(quota, merge)
    };
    let settings = settings
        .variable("TIDEGATE_UNSENT", unsent)
        .variable("TIDEGATE_DEDUPLICATION", deduplication)
        .variable("TIDEGATE_DAILY_RESERVE", draw.pick(&["0", "1%", "20"]));
    // Drawn beside the rest, so that a seed's story stays what it was.
    let limits = Draw::new(!seed).pick(&[
        "",
        "",
        "gmail.com=3/s",
        "gmail.com=30/m, *=50%",
        "gmail.com=40%, *=2/s",
        "*=25%",
    ]);
    // Where clocks are tenths of a second apart, mail under a slow limit of `*` may miss its slots for hours.
    let limits = if apart.is_zero() || !limits.contains('*') { limits } else { "gmail.com=3/s" };
    let has_limits = !limits.is_empty() && parts.has("limits of the deployment", limits);
    let settings = settings.variable("TIDEGATE_LIMITS", if has_limits { limits } else { "" });
    let story = format!("{quota}/s, merge {merge}, unsent {unsent}, deduplication {deduplication}");
    // Drawn beside the rest, too.
    let urgent = Draw::new(seed.rotate_left(7)).one_in(3) && parts.has("queue of priority", "high");
    let priority_queues = urgent.then(|| ("big".to_owned(), Priority::High)).into_iter().collect();
    let settings = WorldSettings { priority_queues, ..settings };
    let mut settings = limits::with_tenant(seed, extras.settings(settings));
    if !settings.tenants.is_empty() && !parts.has("tenant", "of small") {
        settings.tenants.clear();
    }
    let world = World::new(settings);
    limits::pause_tenant(&world, false);
    let limits = DrawnLimits::draw(seed, &world, extras.reported > 0);
    let has_limits = limits.are_some() && parts.has("limits", &limits.story());
    let limits = if has_limits { limits } else { DrawnLimits::default() };
    let chaos = Chaos {
        world,
        story: vec![story],
        parts,
        simulated: Duration::ZERO,
        limits,
        highest_quota: quota,
        largest: 1,
        apart,
        deduplication,
        crashes: Vec::new(),
        twice: None,
        poison: 0,
        refused: Vec::new(),
        forged: Vec::new(),
        calm: None,
        defers: extras.defers,
        stores: extras.stores,
        reported: extras.reported,
        standing: None,
    };
    (chaos, extras)
}

/// If the seed has it: enqueues mails whose attributes claim the identity of the small campaign's
/// first mail.
async fn forge(chaos: &mut Chaos) {
    let world = &chaos.world;
    let draw = Draw::new(world.settings.seed.rotate_left(32));
    let express = if world.settings.express { EXPRESS } else { "big" };
    if !draw.one_in(3) || !chaos.parts.has("forged attributes", "") {
        return;
    }
    for number in 0..5 {
        let id = format!("forged-{number}");
        let claimed = Identity::from_body_id("small", &format!("m{number}"));
        let fresh = Envelope::fresh("small", claimed, EpochMillis::new(0));
        let (pass, attempt) = (draw.pick(&[0, 1, u32::MAX]), draw.pick(&[0, 1, u32::MAX]));
        let attributes = Envelope { pass, attempt, ..fresh }.to_attributes();
        let mail = Outgoing { attributes, ..produced(ProducedMail::new(&id).body()) };
        world.put_raw(draw.pick(&["big", express]), &[mail]).await;
        chaos.forged.push(id);
    }
}

/// Fills the queues for some windows less than the storm, up to some more.
async fn fill(chaos: &mut Chaos, draw: &Draw) {
    let quota = chaos.world.settings.quota;
    let large = draw.pick(&[1, 1, 1, 3, 10]);
    chaos.largest = if quota < 10.0 { 1 } else { large };
    let windows = 4 + draw.below(20);
    let mut count = 0;
    let mut mails = Vec::new();
    while f64::from(count) < quota * Duration::from_secs(windows).as_secs_f64() {
        let recipients = if draw.one_in(4) { chaos.largest } else { 1 };
        count += recipients;
        let domain = DOMAINS[mails.len() % 7 % 4];
        mails.push(ProducedMail {
            recipients,
            ..ProducedMail::new(format!("m{}", mails.len())).to(domain)
        });
    }
    if draw.one_in(8) {
        // It takes two days.
        let daily = u64::from(count) * 2 / 3 + 4 * rate(quota).ceil() + 75;
        if chaos.parts.has("daily quota", &format!("{daily} of {count}")) {
            chaos.world.settings.daily_quota = Some(daily);
            chaos.world.ses.configure(|ses| ses.max_24_hour_send = Some(daily));
        }
    }
    let Chaos { world, parts, .. } = chaos;
    mails.truncate(parts.fewer(mails.len()));
    let (small, big) = mails.split_at(mails.len() / draw.pick(&[10, 10, 2]));
    // A fifth of a campaign with a priority queue is urgent.
    let has_queue = !world.settings.priority_queues.is_empty();
    let (urgent, big) = big.split_at(if has_queue { big.len() / 5 } else { 0 });
    if has_queue {
        world.put("big.high", urgent).await;
    }
    let big = if parts.has("mail of big", "") { big } else { &[] };
    world.put("big", big).await;
    let small = if parts.has("mail of small", "") { small } else { &[] };
    world.put("small", small).await;
    if world.settings.express {
        world.put(EXPRESS, &ProducedMail::several("express", 5, 1)).await;
    }
    if draw.one_in(4)
        && let Some(mail) = big.first()
        && parts.has("mail put twice", &mail.id)
    {
        world.put("big", std::slice::from_ref(mail)).await;
        chaos.twice = Some(mail.id.clone());
    }
    if draw.one_in(4) && parts.has("bodies that are no mail", "") {
        let large = format!(r#"{{"to": "a@example.com", "oops": "{}"}}"#, "x".repeat(900_000));
        for body in ["{".to_owned(), large] {
            world.put_raw("small", &[produced(body)]).await;
            chaos.poison += 1;
        }
    }
}

/// If the seed has them: puts mails among the others that SES never accepts, of every kind.
async fn refuse(chaos: &mut Chaos) {
    let world = &chaos.world;
    let draw = Draw::new(world.settings.seed.rotate_left(11));
    if !draw.one_in(2) || !chaos.parts.has("mails that SES never accepts", "") {
        return;
    }
    let kinds = [
        failures::not_verified(),
        failures::recipient_not_verified("refused-1.0@example.com"),
        failures::template_missing(),
        failures::access_denied(),
        failures::rejected(),
    ];
    let express = if world.settings.express { EXPRESS } else { "small" };
    for (number, failure) in kinds.into_iter().enumerate() {
        let mail = ProducedMail::new(format!("refused-{number}"));
        world.ses.refuse_address(&format!("{}.0@example.com", mail.id), failure);
        world.put(draw.pick(&["big", "small", express]), std::slice::from_ref(&mail)).await;
        chaos.refused.push(mail.id);
    }
}

/// If the seed has it: as long as the storm lasts, schedulers start up to ten seconds late, and environments take four
/// seconds to start.
fn start_late(chaos: &mut Chaos) {
    let draw = Draw::new(chaos.world.settings.seed.rotate_left(29));
    if draw.one_in(2) {
        let trigger = Duration::from_millis(draw.below(10_000));
        let cold = Duration::from_secs(draw.pick(&[0, 4]));
        let told = format!("schedulers after {trigger:?}, environments after {cold:?}");
        if chaos.parts.has("late starts", &told) {
            chaos.world.starts.set(LateStarts { trigger, cold });
        }
    }
}

/// What happens in a window of the storm.
#[derive(Clone, Copy, Debug)]
enum Event {
    Crash,
    /// The quota is so many times what it was.
    Quota(f64),
    /// With another rate margin, or that of before.
    Deployment {
        new: bool,
    },
    Pause,
    /// The weight of small.
    Weight(u32),
    /// Whether SES's account sends.
    Account(bool),
    /// Whether triggers are missing.
    Triggers(bool),
    Cancel,
}

impl Event {
    fn draw(draw: &Draw) -> Option<Self> {
        Some(match draw.below(40) {
            0..=3 => Self::Crash,
            4 => Self::Quota(draw.pick(&[0.5, 1.0, 1.5])),
            5 => Self::Deployment { new: !draw.one_in(2) },
            6 => Self::Pause,
            7 => Self::Weight(draw.pick(&[0, 10, 50])),
            8 => Self::Account(draw.one_in(2)),
            9 => Self::Triggers(draw.one_in(2)),
            10 => Self::Cancel,
            _ => return None,
        })
    }

    const fn kind(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Quota(_) => "change of the quota",
            Self::Deployment { .. } => "deployment",
            Self::Pause => "pause of big",
            Self::Weight(_) => "change of weights",
            Self::Account(_) => "account paused or released",
            Self::Triggers(_) => "triggers missing or back",
            Self::Cancel => "cancel of small",
        }
    }

    #[expect(clippy::unwrap_used, reason = "a test's own settings")]
    async fn happen(self, world: &World) {
        match self {
            Self::Crash => world.crash(),
            Self::Quota(times) => {
                let quota = world.settings.quota * times;
                world.tick_rate.set(Some(rate(quota)));
                world.ses.configure(|ses| ses.max_send_rate = rate(quota.max(1.0)));
            }
            Self::Deployment { new } => {
                let settings = world.settings.clone();
                let settings =
                    if new { settings.variable("TIDEGATE_RATE_MARGIN", 0.05) } else { settings };
                world.deploy(settings.poller().unwrap());
            }
            Self::Pause => pause(world).await,
            Self::Weight(small) => {
                let weights = [("small".to_owned(), small)].into();
                world.control(|control| control.weights = weights).await;
            }
            Self::Account(enabled) => world.ses.configure(|ses| ses.sending_enabled = enabled),
            Self::Triggers(missing) => world.unscheduled.set(missing),
            Self::Cancel => cancel(world, "small").await,
        }
    }
}

/// The storm: faults, crashes, late ticks, and what operators do meanwhile.
async fn storms(chaos: &mut Chaos, draw: &Draw, extras: &Extras, storm: u64) {
    let Chaos { world, parts, crashes, highest_quota, limits: drawn, .. } = chaos;
    let another = draw.one_in(5).then(|| Duration::from_millis(draw.below(8_000)));
    let another = another.filter(|after| parts.has("another scheduler", &format!("{after:?}")));
    let world = &*world;
    let mut script = async |first: Window| {
        world.until(first, 1, Duration::ZERO).await;
        let span = world.universe.now()..first.plus(storm).opens();
        strike(world, draw, extras, parts, &span);
        for number in 2..storm {
            extras.trouble_bucket(world);
            world.until(first, number, Duration::from_millis(draw.below(1_000))).await;
            let place = format!("in window {number}");
            if let Some(event) = Event::draw(draw)
                && parts.has(event.kind(), &format!("{event:?} {place}"))
            {
                if let Event::Crash = event {
                    crashes.push(world.universe.now());
                }
                if let Event::Quota(times) = event {
                    *highest_quota = highest_quota.max(world.settings.quota * times);
                }
                event.happen(world).await;
            }
            drawn.trouble(world, number, parts).await;
            let late = if draw.one_in(6) { draw.pick(&[600, 900, 1_500]) } else { 0 };
            let is_late = late > 0 && parts.has("late tick", &format!("by {late} ms {place}"));
            world.tick_delay.set(Duration::from_millis(if is_late { late } else { 0 }));
        }
    };
    world
        .play(storm + 4, async |first| {
            join(script(first), async {
                if let Some(after) = another {
                    world.until(first, 1, after).await;
                    world.schedule().await;
                }
            })
            .await;
        })
        .await;
    world.tick_delay.set(Duration::ZERO);
    world.starts.set(LateStarts::default());
    world.unscheduled.set(false);
    world.ses.configure(|ses| {
        ses.sending_enabled = true;
        ses.token_lag = Duration::ZERO;
    });
}

/// Adds the faults of a storm, which last for `span`.
fn strike(world: &World, draw: &Draw, extras: &Extras, parts: &mut Parts, span: &Range<Timestamp>) {
    let mut rules = Vec::new();
    if Draw::new(world.settings.seed.rotate_left(48)).one_in(3) {
        rules.push(Rule::new(Fault::RefuseEntries(0.05)).on(Operation::Delete));
    }
    rules.extend((0..=draw.below(5)).map(|_| draw.fault()));
    let mut of_mail: Vec<_> = (0..draw.below(3)).map(|_| draw.mail_fault()).collect();
    rules.extend(extras.fault());
    let draw = Draw::new(world.settings.seed.rotate_left(21));
    if draw.one_in(2) {
        let refused = Rule::new(Fault::Before(failures::token_refused())).on(Operation::Mail);
        of_mail.push(refused.chance(draw.pick(&[0.0001, 0.01, 0.2])));
    }
    rules.retain(|rule| parts.has("fault of calls", &format!("{rule:?}")));
    for rule in rules {
        world.faults.add(rule.during(span.clone()));
    }
    of_mail.retain(|rule| parts.has("fault of sends", &format!("{rule:?}")));
    for rule in of_mail {
        world.mail_faults.add(rule.during(span.clone()));
    }
    if draw.one_in(3) && parts.has("tokens unknown in their first second", "") {
        world.ses.configure(|ses| ses.token_lag = Duration::from_secs(1));
    }
}

async fn pause(world: &World) {
    world
        .control(|control| {
            let hold = Hold::new("by hand", EpochMillis::new(0));
            control.hold(Some("big"), HoldReason::Paused, hold);
        })
        .await;
}

/// Takes back what an operator did, and lifts holds for bounces and complaints, which wait for an operator. No other hold
/// does.
async fn operate(world: &World) {
    world
        .control(|control| {
            control.lift(Some("big"), HoldReason::Paused);
            for campaign in ["big", "small", EXPRESS] {
                control.lift(Some(campaign), HoldReason::Reputation);
            }
            control.weights.clear();
        })
        .await;
}

async fn cancel(world: &World, campaign: &str) {
    let cancel = Cancel { at: world.universe.now().into(), keep: true };
    world.control(|control| control.cancel(campaign, cancel, "in mid-run")).await;
}

/// Once the storm is over and both campaigns are full, the shares are right again; gives the span to
/// look at.
async fn shares(chaos: &Chaos) -> Option<Range<Timestamp>> {
    let (world, quota) = (&chaos.world, chaos.world.settings.quota);
    // Where every domain is limited, so is these mails'.
    let limited = world.settings.variables.iter().any(|(_, value)| value.contains('*'));
    if quota < 10.0 || limited || world.settings.daily_quota.is_some() {
        return None;
    }
    // What failed comes back within its delays: the queues run empty first.
    world.tick_rate.set(None);
    world.ses.configure(|ses| ses.max_send_rate = rate(quota));
    world.run(120).await;
    if world.ledger_now().await.control.standing_holds() > 0 {
        return None;
    }
    let count = |windows: f64| format!("{:.0}", quota * windows).parse().unwrap_or(0);
    world.put("big", &ProducedMail::several("calm-big", count(50.0), 1)).await;
    world.put("small", &ProducedMail::several("calm-small", count(10.0), 1)).await;
    let first = world.run(45).await;
    let control = world.ledger_now().await.control;
    let held = !control.holds.is_empty() || !control.campaign_holds.is_empty();
    // A campaign found empty is asked again within five windows.
    (!held).then(|| super::measure::span(first, 12..45))
}
