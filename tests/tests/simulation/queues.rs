//! Mail that is left unsent, and behaviour of queues that a poller must tolerate.

use tidegate_core::counters::Counter;
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Counting, Fault, Latency, MessageState, Operation, QueueSettings, Rule};
use tidegate_tests::simulation::{EXPRESS, MERGE, ProducedMail, World, WorldSettings, measure};

use crate::{MODES, MS};

/// A direct world in which one window received five mails that express then kept from their slots.
async fn displaced(unsent: &str) -> World {
    let settings = WorldSettings { express: true, ..WorldSettings::new(14.0, false) };
    let settings = settings.campaigns(&[("news", 1)]).variable("TIDEGATE_UNSENT", unsent);
    let world = World::new(settings);
    world.fill("news", 40).await;
    world
        .play(1, async |first| {
            world.until(first, 0, MS(100)).await; // once the whole window's mail is received
            world.put(EXPRESS, &ProducedMail::several("express", 5, 1)).await;
        })
        .await;
    assert_eq!(world.reports()[0].count(Counter::Left), 5);
    world
}

#[tokio::test(start_paused = true)]
async fn what_is_unsent_is_left_to_the_visibility_timeout_and_then_sent_once() {
    let world = displaced("timeout").await;
    let hidden = |world: &World| {
        let standing = world.contents("news");
        standing.iter().filter(|m| matches!(m.place, MessageState::InFlight(_))).count()
    };
    assert_eq!(hidden(&world), 5);
    tokio::time::sleep(MS(27_000)).await;
    assert_eq!(hidden(&world), 5);
    tokio::time::sleep(MS(3_000)).await;
    assert_eq!(hidden(&world), 0);
    world.run(6).await;
    world.assert_clean();
    assert_eq!(world.accepted().len(), 45);
}

#[tokio::test(start_paused = true)]
async fn what_is_unsent_is_visible_at_once_where_that_is_asked_for() {
    let world = displaced("release").await;
    let standing = world.contents("news");
    assert!(standing.iter().all(|message| message.place == MessageState::Visible));
    world.run(6).await;
    world.assert_clean();
    assert_eq!(world.accepted().len(), 45);
}

/// A backlog under a fault of a batch operation; then long enough without it.
async fn batches_fail(merge: bool, operation: Operation, fault: Fault<FailureKind>) -> World {
    let world =
        World::new(WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(50.0, merge) });
    world.fill("big", 600).await;
    world.fill("small", 60).await;
    let from = world.universe.now();
    world.faults.add(Rule::new(fault).on(operation).during(from..from + MS(8_000)));
    world.run(110).await;
    assert!(world.faults.strikes().len() > 5, "the fault never struck");
    assert_eq!(world.lost(), Vec::<String>::new());
    assert_eq!(world.refused(), 0);
    assert_eq!(world.accepted().len(), 660);
    assert!(world.contents("big").is_empty() && world.contents(MERGE).is_empty());
    let worst = measure::worst_second(&world.ses.arrivals());
    assert!(worst <= 50, "{worst} in one second");
    world
}

#[tokio::test(start_paused = true)]
async fn entries_of_a_send_that_fail_stay_in_their_campaign_and_are_sent_once() {
    for fault in [
        Fault::RefuseEntries(0.4),
        Fault::Before(FailureKind::TimedOut),
        // Acknowledged too late: sent again after 30 s, within the deduplication interval.
        Fault::LoseEntries(0.4),
        Fault::After(FailureKind::TimedOut),
    ] {
        let world = batches_fail(true, Operation::Send, fault).await;
        assert_eq!(world.duplicates(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn receives_that_fail_lose_nothing_and_send_nothing_twice() {
    for merge in MODES {
        for fault in [Fault::Before(FailureKind::TimedOut), Fault::After(FailureKind::TimedOut)] {
            let world = World::new(WorldSettings::new(50.0, merge));
            world.fill("big", 600).await;
            world.faults.add(Rule::new(fault).on(Operation::Receive).chance(0.3));
            world
                .play(70, async |first| {
                    world.until(first, 8, MS(0)).await;
                    world.faults.clear();
                })
                .await;
            world.assert_clean();
            assert_eq!(world.accepted().len(), 600);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_a_standard_queue_is_sent_once_when_merged_within_five_minutes() {
    let world = World::new(WorldSettings::new(50.0, true));
    world.fill("big", 300).await;
    let again = Fault::Duplicate(Latency::between(MS(0), MS(20_000)));
    world.faults.add(Rule::new(again).on(Operation::Receive).at("/big").chance(0.5));
    world.run(60).await;
    world.assert_clean();
    assert_eq!(world.accepted().len(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_a_standard_queue_is_at_most_sent_twice_when_direct() {
    let world =
        World::new(WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(50.0, false) });
    world.fill("big", 300).await;
    let again = Fault::Duplicate(Latency::between(MS(0), MS(20_000)));
    world.faults.add(Rule::new(again).on(Operation::Receive).at("/big").nth(3));
    world.run(60).await;
    assert_eq!(world.lost(), Vec::<String>::new());
    assert_eq!(world.accepted().len(), 300);
    assert!((1..=10).contains(&world.duplicates().len()), "{:?}", world.duplicates());
}

#[tokio::test(start_paused = true)]
async fn an_empty_poll_of_a_queue_that_is_not_empty_costs_windows_not_mail() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        world.fill("big", 400).await;
        world.fill("small", 40).await;
        world.faults.add(Rule::new(Fault::Nothing).on(Operation::Receive).chance(0.2));
        world.run(60).await;
        world.assert_clean();
        assert_eq!(world.accepted().len(), 440, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn short_polls_that_see_few_servers_empty_a_queue_all_the_same() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        let sampling = QueueSettings { sampling: 0.3, ..QueueSettings::default() };
        for url in world.queues.urls() {
            world.queues.reconfigure(&url, sampling);
        }
        world.fill("big", 300).await;
        world.fill("small", 7).await;
        world.run(60).await;
        world.assert_clean();
        assert_eq!(world.accepted().len(), 307, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_latency_that_grows_to_five_seconds_and_falls_again_loses_nothing() {
    for merge in MODES {
        let settings =
            WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(50.0, merge) };
        let settings = settings.variable("TIDEGATE_SEND_TIMEOUT_MS", 5_200);
        let world = World::new(settings);
        world.ses.configure(|ses| ses.latency = Latency::always(MS(50)));
        world.fill("big", 4_500).await;
        let first = world
            .play(80, async |first| {
                world.until(first, 8, MS(0)).await;
                world.ses.configure(|ses| ses.latency = Latency::always(MS(5_000)));
                world.until(first, 20, MS(0)).await;
                world.ses.configure(|ses| ses.latency = Latency::always(MS(50)));
            })
            .await;
        assert_eq!((world.lost(), world.duplicates()), (vec![], vec![]));
        // Mails that are 2.5 s under way, 125, meet those that are not: SES refuses what is over its burst of 50, the factor
        // falls, and is made good within some twenty windows. The margin is 0.04 for a day.
        assert!(world.refused() < 75, "merge {merge}: {} refused", world.refused());
        let used = measure::utilisation(&world, first, 50..80, 20);
        assert!(used >= 0.96, "merge {merge}: {used:.4} after it fell");
        let slow = measure::sent(&world.ses.arrivals(), &measure::span(first, 12..20));
        assert!(slow >= 8 * 40, "merge {merge}: {slow} in eight slow windows");
    }
}
