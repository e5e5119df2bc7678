//! Operators are told what begins and what is over, once each.

use tidegate_core::control::{Hold, HoldReason};
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Operation, Rule};
use tidegate_simulator::ProducedMail;
use tidegate_tests::simulation::{World, WorldSettings};

use crate::MS;

async fn pause(world: &World) {
    let hold = Hold::new("by Ada", world.universe.now());
    world.control(|control| assert!(control.hold(Some("big"), HoldReason::Paused, hold))).await;
}

async fn resume(world: &World) {
    world.control(|control| assert!(control.lift(Some("big"), HoldReason::Paused))).await;
}

fn told(world: &World) -> Vec<String> {
    world.topic.told().into_iter().map(|(_, subject)| subject).collect()
}

const BEGUN: &str = "simulated: the campaign big is held: paused";
const OVER: &str = "simulated: over: held.paused.big";

#[tokio::test(start_paused = true)]
async fn a_hold_is_told_once_when_it_begins_and_once_when_it_is_over() {
    for wake in [1, 60] {
        let settings = WorldSettings::new(20.0, true);
        let world = World::new(settings.variable("TIDEGATE_IDLE_WAKE_SECONDS", wake));
        world
            .play(900, async |first| {
                world.until(first, 250, MS(0)).await;
                assert_eq!(told(&world), Vec::<String>::new());
                pause(&world).await;
                world.until(first, 500, MS(0)).await;
                assert_eq!(told(&world), [BEGUN], "wake {wake}");
                resume(&world).await;
                world.until(first, 800, MS(0)).await;
                assert_eq!(told(&world), [BEGUN, OVER], "wake {wake}");
            })
            .await;
        assert!(world.ledger_now().await.control.incidents.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_told_is_told_a_minute_later_and_what_could_not_be_noted_again() {
    for operation in [Operation::Announce, Operation::SetControl] {
        let world = World::new(WorldSettings::new(20.0, true));
        world
            .play(420, async |first| {
                world.until(first, 30, MS(0)).await;
                pause(&world).await;
                let unreachable = Fault::Before(FailureKind::Unreachable);
                let span = first.plus(31).opens()..first.plus(110).opens();
                world.faults.add(Rule::new(unreachable).on(operation).during(span));
                world.until(first, 400, MS(0)).await;
            })
            .await;
        let told = told(&world);
        assert!(told.iter().all(|told| told == BEGUN), "{operation:?}: {told:?}");
        let is_again = operation == Operation::SetControl;
        assert_eq!((told.is_empty(), told.len() > 1), (false, is_again), "{operation:?}: {told:?}");
        assert_eq!(world.ledger_now().await.control.incidents.len(), 1, "{operation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn three_seconds_of_a_minute_that_nobody_served_are_told() {
    for (lost, begun) in [(2, false), (3, true)] {
        let world = World::new(WorldSettings::new(5.0, true));
        world.fill("big", 900).await;
        for tick in 0..lost {
            world.faults.add(Rule::new(Fault::Nothing).on(Operation::Tick).nth(8 + 2 * tick));
        }
        world.run(130).await;
        let told = told(&world);
        assert_eq!(told.iter().any(|told| told.contains("no poller serves")), begun, "{told:?}");
    }
}

/// Puts this many mails in each minute of a world that sends 60, with a minute in six in which SQS does not answer
/// the scheduler. Returns the minutes in which incidents were told, with their subjects.
async fn told_while(mails_of: impl Fn(u64) -> usize, minutes: u64) -> Vec<(u64, String)> {
    let mut told = Vec::new();
    let world = World::new(WorldSettings::new(1.02, true));
    world
        .play(minutes * 60, async |first| {
            for minute in 0..minutes {
                world
                    .put("big", &ProducedMail::several(&format!("m{minute}"), mails_of(minute), 1))
                    .await;
                if minute % 6 == 5 {
                    let unreachable = Fault::Before(FailureKind::Unreachable);
                    let window = |number: u64| first.plus(minute * 60 + number).opens();
                    world.faults.add(
                        Rule::new(unreachable).on(Operation::Depth).during(window(0)..window(60)),
                    );
                }
                world.until(first, minute * 60 + 59, MS(0)).await;
                let now = world.topic.told().into_iter().map(|(_, subject)| (minute, subject));
                told = told.iter().cloned().chain(now.skip(told.len())).collect();
            }
        })
        .await;
    told
}

#[tokio::test(start_paused = true)]
async fn a_backlog_that_grows_for_an_hour_is_told_once_and_that_it_is_over_once() {
    // 20 % more than can be sent for 90 minutes, then nothing.
    let mails_of = |minute| if minute < 90 { 72 } else { 0 };
    let told = told_while(mails_of, 115).await;
    let subjects: Vec<&str> = told.iter().map(|(_, subject)| subject.as_str()).collect();
    let begun =
        "simulated: more messages come than the quota lets go: the backlog has grown for an hour";
    assert_eq!(subjects, [begun, "simulated: over: backlog-grows"]);
    assert!((60..=85).contains(&told[0].0) && (95..=112).contains(&told[1].0), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_campaign_of_hours_that_comes_at_once_is_no_growth_and_neither_is_nearly_the_quota() {
    assert_eq!(told_while(|minute| if minute == 20 { 9_000 } else { 0 }, 110).await, []);
    assert_eq!(told_while(|_| 62, 110).await, []);
}
