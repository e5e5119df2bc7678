//! Priority queues: mail that is sent before the rest of its campaign, in the campaign's own share.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::time::Duration;

use tidegate_core::control::{Cancel, Hold, HoldReason};
use tidegate_core::email::Priority;
use tidegate_core::identity::EpochMillis;
use tidegate_core::limits::{Limit, LimitKey};
use tidegate_core::tagged::{CAMPAIGN_TAG, PRIORITY_TAG, WEIGHT_TAG};
use tidegate_core::{Timestamp, Window};
use tidegate_fakes::SesArrival;
use tidegate_tests::simulation::{ProducedMail, World, WorldSettings, measure, unkind_queues};

use crate::{MODES, MS};

/// The longest time from SQS's acknowledgement of 20 mails in a priority queue to the last one's send. Through the
/// merge queue they are behind what was fed before.
const fn bound(merge: bool) -> Duration {
    Duration::from_millis(if merge { 4_500 } else { 3_000 })
}

fn with_queues(settings: WorldSettings, priorities: &[Priority]) -> WorldSettings {
    let of_big = priorities.iter().map(|priority| ("big".to_owned(), *priority));
    WorldSettings { priority_queues: of_big.collect(), ..settings }
}

/// Big and small with 90 and 10, of which big has a queue for urgent mail.
fn world(quota: f64, merge: bool) -> World {
    World::new(with_queues(WorldSettings::new(quota, merge), &[Priority::High]))
}

/// Puts 20 mails `name-0` to `name-19` on `queue`.
async fn burst(world: &World, queue: &str, name: &str) -> Timestamp {
    world.put(queue, &ProducedMail::several(name, 20, 1)).await;
    world.universe.now()
}

fn of<'a>(arrivals: &'a [SesArrival], name: &str) -> Vec<&'a SesArrival> {
    let is_of = |arrival: &&SesArrival| arrival.id.rsplit_once('-').is_some_and(|(n, _)| n == name);
    arrivals.iter().filter(is_of).collect()
}

/// How long after `put` the last mail of a burst was sent.
fn took(arrivals: &[SesArrival], name: &str, put: Timestamp) -> Duration {
    let own = of(arrivals, name);
    assert_eq!(own.len(), 20, "{name}");
    own.iter().map(|arrival| arrival.at).max().unwrap().saturating_since(put)
}

#[tokio::test(start_paused = true)]
async fn urgent_mail_passes_its_campaigns_backlog_soon_and_the_shares_stay() {
    for merge in MODES {
        for quota in [40.0, 200.0] {
            let world = world(quota, merge);
            world.fill("big", 10_000).await;
            world.fill("small", 1_500).await;
            let mut bursts = Vec::new();
            let first = world
                .play(45, async |first| {
                    for (number, at) in [4_u64, 11, 17, 18, 26, 33, 39].into_iter().enumerate() {
                        world.until(first, at, MS(130 * number as u64)).await;
                        let name = format!("urgent{number}");
                        let put = burst(&world, "big.high", &name).await;
                        bursts.push((name, put));
                    }
                })
                .await;
            world.assert_clean();
            let arrivals = world.ses.arrivals();
            let longest = bursts.iter().map(|(name, put)| took(&arrivals, name, *put)).max();
            let longest = longest.unwrap();
            assert!(longest <= bound(merge), "merge {merge}, {quota}/s: {longest:?}");
            let span = measure::span(first, 5..42);
            let share = measure::share(&arrivals, "big", &span);
            assert!((share - 0.9).abs() <= 0.005, "merge {merge}, {quota}/s: {share:.4}");
            let used = measure::utilisation(&world, first, 4..42, 10);
            assert!(used >= 0.97, "merge {merge}, {quota}/s: {used:.4}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaigns_queues_are_served_one_after_the_other() {
    for merge in MODES {
        let settings = WorldSettings::new(50.0, merge);
        let all = [Priority::Critical, Priority::High, Priority::Low];
        let world = World::new(with_queues(settings, &all));
        for (queue, name) in [
            ("big.low", "low"),
            ("big", "normal"),
            ("big.high", "high"),
            ("big.critical", "critical"),
        ] {
            world.put(queue, &ProducedMail::several(name, 600, 1)).await;
        }
        world.fill("small", 400).await;
        let first = world.run(65).await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        let median = |name: &str, of_600: usize| {
            let mut times: Vec<Timestamp> = of(&arrivals, name).iter().map(|a| a.at).collect();
            assert_eq!(times.len(), 600, "merge {merge}: {name}");
            times.sort_unstable();
            times[of_600]
        };
        // All but a few of each came before all but a few of the next: a window's mail may be mixed.
        for (before, after) in [("critical", "high"), ("high", "normal"), ("normal", "low")] {
            let (last, next) = (median(before, 560), median(after, 40));
            assert!(last < next, "merge {merge}: {before} and {after}");
        }
        let share = measure::share(&arrivals, "big", &measure::span(first, 5..45));
        assert!((share - 0.9).abs() <= 0.01, "merge {merge}: {share:.4}");
    }
}

#[tokio::test(start_paused = true)]
async fn urgent_mail_of_a_limited_campaign_takes_its_limits_next_slots() {
    for merge in MODES {
        let world = world(50.0, merge);
        let key: LimitKey = "campaign:big".parse().unwrap();
        let limit: Limit = serde_json::from_str(r#"{"rate": "10/s"}"#).unwrap();
        world.control(|control| drop(control.limits.insert(key, Some(limit)))).await;
        world.fill("big", 1_000).await;
        world.fill("small", 3_000).await;
        let mut put = None;
        let first = world
            .play(50, async |first| {
                world.until(first, 20, MS(0)).await;
                put = Some(burst(&world, "big.high", "urgent").await);
            })
            .await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        let took = took(&arrivals, "urgent", put.unwrap());
        // 20 mails need two seconds of the limit.
        assert!(took <= bound(merge) + Duration::from_secs(2), "merge {merge}: {took:?}");
        let big: Vec<SesArrival> =
            arrivals.iter().filter(|arrival| arrival.campaign == "big").cloned().collect();
        let worst = measure::worst_second(&big);
        assert!(worst <= 11, "merge {merge}: {worst} in one second");
        let got = measure::sent(&big, &measure::span(first, 10..45));
        assert!(got >= 325, "merge {merge}: {got} of 350");
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_campaigns_priority_queue_is_not_served() {
    for merge in MODES {
        let world = world(50.0, merge);
        world.fill("big", 1_000).await;
        world.fill("small", 1_000).await;
        let mut held = 0;
        let first = world
            .play(60, async |first| {
                world.until(first, 5, MS(500)).await;
                let hold = Hold::new("by hand", EpochMillis::new(0));
                let paused = HoldReason::Paused;
                world.control(|control| assert!(control.hold(Some("big"), paused, hold))).await;
                world.until(first, 8, MS(0)).await;
                burst(&world, "big.high", "urgent").await;
                world.until(first, 20, MS(0)).await;
                held = of(&world.ses.arrivals(), "urgent").len();
                assert_eq!(world.contents("big.high").len(), 20, "merge {merge}");
                world.control(|control| assert!(control.lift(Some("big"), paused))).await;
            })
            .await;
        world.assert_clean();
        assert_eq!(held, 0, "merge {merge}");
        let lifted = first.plus(20).opens();
        let took = took(&world.ses.arrivals(), "urgent", lifted);
        // The window of the lift was claimed before it.
        assert!(took <= bound(merge) + MS(1_000), "merge {merge}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_takes_the_mail_off_all_queues_of_its_campaign() {
    let world = world(20.0, true);
    world.fill("big", 300).await;
    world
        .play(30, async |first| {
            world.until(first, 3, MS(0)).await;
            let at = EpochMillis::from(burst(&world, "big.high", "late").await);
            let cancel = Cancel { at, keep: false };
            world.control(|control| control.cancel("big", cancel, "by ada: wrong link")).await;
        })
        .await;
    assert_eq!(of(&world.ses.arrivals(), "late").len(), 0);
    assert_eq!(world.contents("big").len() + world.contents("big.high").len(), 0);
    assert!(world.ledger_now().await.control.campaign_holds.is_empty());
}

#[tokio::test(start_paused = true)]
async fn mail_in_a_priority_queue_alone_wakes_the_stack() {
    for merge in MODES {
        let settings = WorldSettings::new(20.0, merge).variable("TIDEGATE_IDLE_WAKE_SECONDS", 10);
        let world = World::new(with_queues(settings, &[Priority::High]));
        world.fill("big", 20).await;
        let mut put = None;
        let mut asleep = 0;
        world
            .play(240, async |first| {
                world.until(first, 150, MS(0)).await;
                asleep = ticks(&world, first, 110..150);
                put = Some(burst(&world, "big.high", "urgent").await);
            })
            .await;
        world.assert_clean();
        assert!(asleep <= 2, "merge {merge}: {asleep} ticks while all was empty");
        let took = took(&world.ses.arrivals(), "urgent", put.unwrap());
        assert!(took <= Duration::from_secs(14), "merge {merge}: {took:?}");
    }
}

fn ticks(world: &World, first: Window, windows: std::ops::Range<u64>) -> usize {
    let within = first.plus(windows.start)..first.plus(windows.end);
    let runs = world.poller_runs();
    runs.iter().filter(|run| run.tick.is_some_and(|t| within.contains(&t.window))).count()
}

#[tokio::test(start_paused = true)]
async fn an_empty_priority_queue_costs_a_receive_a_window() {
    for merge in MODES {
        let mut calls = Vec::new();
        for priorities in [&[][..], &[Priority::High]] {
            let settings = with_queues(WorldSettings::new(50.0, merge), priorities);
            let world = World::new(settings);
            world.fill("big", 4_000).await;
            world.fill("small", 500).await;
            let before = world.queues.calls_by_kind().0;
            world.run(60).await;
            world.assert_clean();
            calls.push(world.queues.calls_by_kind().0 - before);
        }
        let more = calls[1].saturating_sub(calls[0]);
        assert!(more <= 64, "merge {merge}: {calls:?} in 60 windows");
    }
}

#[tokio::test(start_paused = true)]
async fn a_trickle_of_urgent_mail_is_sent_soon_and_wastes_no_slot() {
    for merge in MODES {
        let settings = with_queues(WorldSettings::new(50.0, merge), &[Priority::High]);
        let world = World::new(WorldSettings { queues: unkind_queues(), ..settings });
        world.fill("big", 4_000).await;
        world.fill("small", 500).await;
        let mut puts = Vec::new();
        let first = world
            .play(60, async |first| {
                for number in 0..40 {
                    world.until(first, 8 + number, MS(370)).await;
                    world.put("big.high", &[ProducedMail::new(format!("one-{number}"))]).await;
                    puts.push(world.universe.now());
                }
            })
            .await;
        world.assert_nothing_lost();
        let arrivals = world.ses.arrivals();
        let mut waited: Vec<Duration> = Vec::new();
        for (number, put) in puts.iter().enumerate() {
            let sent = arrivals.iter().find(|a| a.id == format!("one-{number}")).unwrap();
            waited.push(sent.at.saturating_since(*put));
        }
        waited.sort_unstable();
        assert!(waited[20] <= Duration::from_secs(3), "merge {merge}: {waited:?}");
        assert!(waited[36] <= bound(merge), "merge {merge}: {waited:?}");
        let used = measure::utilisation(&world, first, 4..55, 10);
        assert!(used >= 0.95, "merge {merge}: {used:.4}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_priority_queue_is_found_by_its_tags() {
    for merge in MODES {
        let settings = WorldSettings::new(20.0, merge)
            .campaigns(&[("campaign-big", 1)])
            .variable("TIDEGATE_CAMPAIGNS", "ledger")
            .variable("TIDEGATE_CAMPAIGN_QUEUES", "campaign-");
        let world = World::new(settings);
        world.tag("campaign-big", WEIGHT_TAG, Some("90"));
        world.fill("campaign-big", 2_000).await;
        let mut put = None;
        world
            .play(150, async |first| {
                world.until(first, 20, MS(0)).await;
                world.add_queue("campaign-big-high");
                world.tag("campaign-big-high", CAMPAIGN_TAG, Some("big"));
                world.tag("campaign-big-high", PRIORITY_TAG, Some("high"));
                put = Some(burst(&world, "campaign-big-high", "urgent").await);
            })
            .await;
        world.assert_clean();
        let took = took(&world.ses.arrivals(), "urgent", put.unwrap());
        assert!(took <= Duration::from_mins(1) + bound(merge), "merge {merge}: {took:?}");
    }
}
