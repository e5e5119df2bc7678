//! A world and its faults, drawn from one seed.

use std::time::Duration;

use tidegate_core::outcome::Failure;
use tidegate_delivery::ports::FailureKind;
use tidegate_memory::{Counting, Fault, Latency, Operation, Rule, SeededEntropy, failures};

use super::mail::Mail;
use super::settings::Settings;
use super::world::{EXPRESS, MERGE, World};

/// Windows in which faults strike.
const STORM: u64 = 16;
/// Runs of a minute within which everything must be settled after the storm.
const MINUTES: usize = 60;

/// What a seed came to.
#[derive(Debug)]
pub struct Chaos {
    /// The world after its run.
    pub world: World,
    /// The most recipients of a mail.
    pub largest: u32,
    /// Mails that may have been sent twice, by all that can cause it.
    pub may_be_twice: u64,
    /// What was drawn.
    pub story: Vec<String>,
}

struct Draw(SeededEntropy);

impl Draw {
    fn below(&self, bound: u64) -> u64 {
        self.0.bits() % bound
    }

    fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&self, of: &[T]) -> T {
        let index = usize::try_from(self.below(of.len() as u64)).unwrap_or(0);
        of[index]
    }
}

/// Runs the world of `seed` through its storm and until all is settled.
pub async fn run(seed: u64) -> Chaos {
    let draw = Draw(SeededEntropy::new(seed));
    let quota = draw.pick(&[2.0, 5.0, 14.0, 14.0, 40.0]);
    let merge = !draw.one_in(3);
    let settings = Settings {
        express: draw.one_in(2),
        counting: Counting::Bucket,
        seed,
        ..Settings::new(quota, merge)
    };
    let unsent = draw.pick(&["timeout", "timeout", "release"]);
    let world = World::new(settings.variable("TIDEGATE_UNSENT", unsent));
    let mut story = vec![format!("{quota}/s, merge {merge}, unsent {unsent}")];
    let largest = fill(&world, &draw, quota).await;
    world
        .play(STORM + 4, async |first| {
            world.until(first, 1, Duration::ZERO).await;
            let storm = world.universe.now()..first.plus(STORM).opens();
            for _ in 0..=draw.below(5) {
                let rule = queue_or_ledger_fault(&draw);
                story.push(format!("{rule:?}"));
                world.faults.add(rule.during(storm.clone()));
            }
            for _ in 0..draw.below(3) {
                let rule = mail_fault(&draw);
                story.push(format!("{rule:?}"));
                world.mail_faults.add(rule.during(storm.clone()));
            }
            for number in 2..STORM {
                world.until(first, number, Duration::from_millis(draw.below(1_000))).await;
                if draw.one_in(8) {
                    story.push(format!("crash in window {number}"));
                    world.crash();
                }
                let late = if draw.one_in(6) { draw.pick(&[600, 900, 1_500]) } else { 0 };
                world.tick_delay.set(Duration::from_millis(late));
            }
            world.tick_delay.set(Duration::ZERO);
        })
        .await;
    let gives_twice = story.iter().any(|told| told.contains("Duplicate"));
    let may_be_twice = may_be_twice(&world, gives_twice);
    world.faults.clear();
    world.mail_faults.clear();
    for _ in 0..MINUTES {
        if !world.is_drained() {
            world.run(60).await;
        }
    }
    Chaos { world, largest, may_be_twice, story }
}

/// Fills the queues for some windows less than the storm, up to some more.
async fn fill(world: &World, draw: &Draw, quota: f64) -> u32 {
    let large = draw.pick(&[1, 1, 1, 3, 10]);
    let most = if quota < 10.0 { 1 } else { large };
    let windows = 4 + draw.below(20);
    let mut count = 0;
    let mut mails = Vec::new();
    while f64::from(count) < quota * Duration::from_secs(windows).as_secs_f64() {
        let recipients = if draw.one_in(4) { most } else { 1 };
        count += recipients;
        mails.push(Mail { recipients, ..Mail::new(format!("m{}", mails.len())) });
    }
    let (small, big) = mails.split_at(mails.len() / draw.pick(&[10, 10, 2]));
    world.put("big", big).await;
    world.put("small", small).await;
    if world.settings.express {
        world.put(EXPRESS, &Mail::several("express", 5, 1)).await;
    }
    most
}

fn queue_or_ledger_fault(draw: &Draw) -> Rule<FailureKind> {
    let soon = Latency::between(Duration::ZERO, Duration::from_secs(40));
    let slow = Latency::between(Duration::ZERO, Duration::from_millis(700));
    let kind = draw.pick(&[0, 1]);
    let failed = |kind| match kind {
        0 => Fault::Before(FailureKind::TimedOut),
        _ => Fault::After(FailureKind::TimedOut),
    };
    let rule = match draw.below(11) {
        0 => Rule::new(failed(kind)).on(Operation::Receive),
        1 => Rule::new(failed(kind)).on(Operation::Send),
        2 => Rule::new(failed(kind)).on(Operation::Delete),
        3 => Rule::new(draw.pick(&[&Fault::RefuseEntries(0.4), &Fault::LoseEntries(0.4)]).clone())
            .on(draw.pick(&[Operation::Send, Operation::Delete, Operation::SetVisibility])),
        4 => Rule::new(Fault::Nothing).on(Operation::Receive),
        5 => Rule::new(Fault::Duplicate(soon)).on(Operation::Receive),
        6 => Rule::new(failed(kind)).on(Operation::Claim),
        7 => Rule::new(failed(kind)).on(Operation::Report),
        8 => Rule::new(Fault::Slow(slow)).on(Operation::Receive).on(Operation::Delete),
        9 => Rule::new(Fault::Duplicate(Latency::NONE)).on(Operation::Tick),
        _ => Rule::new(draw.pick(&[&Fault::Nothing, &failed(0)]).clone()).on(Operation::Tick),
    };
    rule.chance(draw.pick(&[0.05, 0.2, 0.5]))
}

fn mail_fault(draw: &Draw) -> Rule<Failure> {
    let fault = match draw.below(5) {
        0 => Fault::Before(failures::server_error()),
        1 => Fault::Before(failures::connection_refused()),
        2 => Fault::After(failures::answer_lost()),
        3 => Fault::Before(failures::rate_exceeded()),
        _ => Fault::Before(failures::rejected()),
    };
    Rule::new(fault).on(Operation::Mail).chance(draw.pick(&[0.02, 0.1, 0.4]))
}

/// The most mails that SES may have taken twice: answers lost, deletes that failed, batches whose
/// sending to a campaign was not acknowledged, messages that a standard queue gave twice (to no
/// merge queue, which knows them again), and what was under way where a poller crashed.
fn may_be_twice(world: &World, gives_twice: bool) -> u64 {
    let reports = world.reports();
    let lost: u64 = reports.iter().filter_map(|report| report.failed.get("ambiguous")).sum();
    let kept: u64 = reports.iter().map(|report| report.delete_failed).sum();
    let crashes = world.starts().iter().filter(|start| start.report().is_none()).count() as u64;
    let a_window = super::settings::rate(world.settings.quota).ceil();
    let strikes = world.faults.strikes();
    let struck = |operation, counts: &dyn Fn(&str) -> bool| {
        let of = strikes.iter().filter(|strike| strike.operation == operation);
        of.filter(|strike| counts(&strike.resource)).count() as u64
    };
    let moved = struck(Operation::Send, &|queue| !queue.ends_with(MERGE));
    let merge = world.settings.merge;
    let given =
        struck(Operation::Receive, &|queue| gives_twice && (!merge || queue.ends_with(EXPRESS)));
    lost + kept + crashes * (2 * a_window + 10) + 10 * (moved + given)
}
