//! Express before all, priorities, and what an idle poller costs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_fakes::{Fault, Latency, Operation, Rule, SesArrival};
use tidegate_tests::simulation::mail::MailVariation as _;
use tidegate_tests::simulation::{EXPRESS, MERGE, ProducedMail, World, WorldSettings, measure};

use crate::{MODES, MS};

#[tokio::test(start_paused = true)]
async fn express_mail_is_sent_within_a_second_and_a_half_before_a_full_backlog() {
    for merge in MODES {
        for quota in [14.0, 200.0] {
            let world =
                World::new(WorldSettings { express: true, ..WorldSettings::new(quota, merge) });
            let backlog = format!("{}", quota * 60.0).parse().unwrap();
            world.fill("big", backlog).await;
            world.fill("small", backlog / 5).await;
            let put: RefCell<BTreeMap<String, Timestamp>> = RefCell::default();
            let first = world
                .play(50, async |first| {
                    world.until(first, 5, MS(0)).await;
                    for n in 0..140 {
                        let mail = ProducedMail::new(format!("express-{n}"));
                        put.borrow_mut().insert(mail.id.clone(), world.universe.now());
                        world.put(EXPRESS, &[mail]).await;
                        tokio::time::sleep(MS(287)).await;
                    }
                })
                .await;
            world.assert_clean();
            let arrivals = world.ses.arrivals();
            let mut waits: Vec<Duration> = arrivals
                .iter()
                .filter_map(|a| Some(a.at.saturating_since(*put.borrow().get(&a.id)?)))
                .collect();
            waits.sort();
            assert_eq!(waits.len(), 140);
            assert!(waits[138] < MS(1_500), "{quota}/s, merge {merge}: p99 {:?}", waits[138]);
            // Bulk loses the slots that express took, and no more.
            let used = measure::utilisation(&world, first, 4..50, 30);
            assert!(used >= 0.975, "{quota}/s, merge {merge}: {used:.4}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_express_takes_every_slot_until_it_is_sent() {
    for merge in MODES {
        let world = World::new(WorldSettings { express: true, ..WorldSettings::new(50.0, merge) });
        world.fill("big", 1_500).await;
        let first = world
            .play(20, async |first| {
                world.until(first, 6, MS(200)).await;
                world.put(EXPRESS, &ProducedMail::several("express", 150, 1)).await;
            })
            .await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        let is_express = |arrival: &&SesArrival| arrival.campaign == "express";
        let from = arrivals.iter().position(|arrival| is_express(&arrival)).unwrap();
        let burst = arrivals.iter().skip(from).take(150);
        assert_eq!(burst.filter(is_express).count(), 150, "merge {merge}: bulk in between");
        // It was found within the window it came in.
        assert!(arrivals[from].at < first.plus(6).opens() + MS(300));
        let used = measure::utilisation(&world, first, 4..20, 10);
        assert!(used >= 0.97, "merge {merge}: {used:.4}");
    }
}

#[tokio::test(start_paused = true)]
async fn within_a_campaign_the_urgent_go_first_of_those_that_wait() {
    let world = World::new(WorldSettings::new(14.0, false).campaigns(&[("only", 1)]));
    let mails: Vec<ProducedMail> = ["low", "normal", "high", "critical"]
        .iter()
        .flat_map(|priority| {
            (0..3).map(move |n| ProducedMail::new(format!("{priority}-{n}")).at(priority))
        })
        .collect();
    world.put("only", &mails).await;
    let window = world.next_window();
    world.universe.sleep_until(window.opens().saturating_sub(MS(330))).await;
    world.serve(Some(world.tick(window))).await;
    world.assert_clean();
    let arrivals = world.ses.arrivals();
    let order: Vec<&str> = arrivals.iter().map(|a| a.id.split('-').next().unwrap()).collect();
    assert_eq!(order, ["critical", "high", "normal", "low"].map(|p| [p; 3]).concat());
}

#[tokio::test(start_paused = true)]
async fn an_idle_poller_receives_at_most_once_a_queue_and_window_and_ends_early() {
    for merge in MODES {
        let world = World::new(WorldSettings { express: true, ..WorldSettings::new(200.0, merge) });
        // A fault that changes nothing: its strikes are the receives.
        world.faults.add(Rule::new(Fault::Slow(Latency::NONE)).on(Operation::Receive));
        let windows = 60;
        let first = world.run(windows).await;
        // The first two windows do not know yet that there is nothing.
        let idle = measure::span(first, 2..windows);
        let receives = |queue: &str| {
            let strikes = world.faults.strikes();
            let own = strikes.iter().filter(|strike| strike.resource.ends_with(queue));
            own.filter(|strike| idle.contains(&strike.at)).count()
        };
        assert_eq!(world.reports().len(), 60);
        assert!((57..=58).contains(&receives(EXPRESS)), "{}", receives(EXPRESS));
        assert!(receives(MERGE) <= 58, "{}", receives(MERGE));
        for campaign in ["big", "small"] {
            // Every 5 windows, and by the next window's poller once more: it starts before the report.
            assert!((9..=20).contains(&receives(campaign)), "{campaign}: {}", receives(campaign));
        }
        for start in world.poller_runs().iter() {
            let closes = start.tick.unwrap().window.closes();
            assert!(start.ended < closes, "{:?} ended {}", start.tick, start.ended);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_poller_that_runs_dry_ends_early_and_idles_as_cheaply() {
    for merge in MODES {
        let world = World::new(WorldSettings { express: true, ..WorldSettings::new(50.0, merge) });
        world.fill("big", 200).await;
        world.faults.add(Rule::new(Fault::Slow(Latency::NONE)).on(Operation::Receive));
        let first = world.run(40).await;
        world.assert_clean();
        let idle = measure::span(first, 10..40);
        for queue in [EXPRESS, MERGE, "big", "small"] {
            let strikes = world.faults.strikes();
            let receives =
                strikes.iter().filter(|s| s.resource.ends_with(queue) && idle.contains(&s.at));
            let receives = receives.count();
            assert!(receives <= 31, "merge {merge}, {queue}: {receives} in 30 windows");
        }
    }
}
