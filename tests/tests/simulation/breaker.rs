//! The circuit breaker: an outage of SES costs no mail, and no more than a probe now and then.

use std::time::Duration;

use tidegate_core::breaker::Breaker;
use tidegate_core::counters::Counter;
use tidegate_delivery::poll::End;
use tidegate_delivery::ports::{FailureKind, Ledger as _, LedgerReport};
use tidegate_fakes::{Counting, Fault, Latency, Operation, Rule, failures};
use tidegate_tests::simulation::{EXPRESS, ProducedMail, World, WorldSettings, measure};

use crate::{MODES, MS};

const HOUR: u64 = 3_600;

/// SES answers 5xx from window 5 on, for so many windows.
async fn outage(world: &World, length: u64, windows: u64) -> tidegate_core::Window {
    world
        .play(windows, async |first| {
            let span = first.plus(5).opens()..first.plus(5 + length).opens();
            let broken = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
            world.mail_faults.add(broken.during(span));
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_5xx_dead_letters_nothing_with_a_large_backlog() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(14.0, merge));
        world.fill("big", 3_000).await;
        world.fill("small", 300).await;
        outage(&world, HOUR, HOUR + 2_400).await;
        world.assert_nothing_lost();
        assert!(world.dead_letters().is_empty(), "merge {merge}: {:?}", world.dead_letters().len());
        assert_eq!(world.accepted().len(), 3_300, "merge {merge}");
        assert_eq!(world.duplicates(), Vec::<String>::new());
        assert_eq!(world.ledger_now().await.control.breaker, Breaker::default());
    }
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_5xx_dead_letters_nothing_with_a_backlog_of_two_or_more() {
    for merge in MODES {
        for backlog in [2, 3, 4, 5, 8, 30] {
            let world = World::new(WorldSettings::new(14.0, merge).campaigns(&[("news", 1)]));
            // The first windows are idle: the outage is there before the mails.
            world
                .play(HOUR + 2_400, async |first| {
                    let span = first.opens()..first.plus(HOUR).opens();
                    let broken = Rule::new(Fault::Before(failures::server_error()));
                    world.mail_faults.add(broken.on(Operation::Mail).during(span));
                    world.until(first, 2, MS(0)).await;
                    world.fill("news", backlog).await;
                })
                .await;
            world.assert_nothing_lost();
            let dead = world.dead_letters().len();
            assert_eq!(dead, 0, "merge {merge}: dead letters of a backlog of {backlog}");
            assert_eq!(world.accepted().len(), backlog, "merge {merge}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_blocks_a_minute_into_an_outage_and_probes_with_one_mail_in_thirty_seconds() {
    for merge in MODES {
        let world = World::new(WorldSettings { express: true, ..WorldSettings::new(14.0, merge) });
        world.fill("big", 4_000).await;
        world.put(EXPRESS, &ProducedMail::several("express", 30, 1)).await;
        let first = outage(&world, 600, 700).await;
        world.assert_nothing_lost();
        let failed = world.mail_faults.strikes();
        let within = |windows: std::ops::Range<u64>| {
            let span = measure::span(first, windows);
            failed.iter().filter(|strike| span.contains(&strike.at)).count()
        };
        // A minute of it, and until the window after is claimed.
        assert!(within(5..68) >= 13 * 60, "merge {merge}: {}", within(5..68));
        // One in 30 s, each by one prober.
        let probes = within(69..600);
        assert!((14..=18).contains(&probes), "merge {merge}: {probes} probes in 531 s");
        for from in 69..580 {
            assert!(within(from..from + 20) <= 1, "merge {merge}: two probes within 20 s");
        }
        assert_eq!(world.report_of(first.plus(75)).unwrap().end, End::Blocked);
        // The probe that is taken lets all go on.
        let used = measure::utilisation(&world, first, 640..700, 30);
        assert!(used >= 0.97, "merge {merge}: {used:.4} after the outage");
        assert!(world.dead_letters().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn failures_while_it_does_not_allow_are_no_attempts_nor_are_probes() {
    for merge in MODES {
        let settings = WorldSettings::new(14.0, merge).variable("TIDEGATE_MAX_ATTEMPTS", 3);
        let world = World::new(settings.campaigns(&[("news", 1)]));
        world.fill("news", 40).await;
        world
            .play(1_700, async |first| {
                let span = first.opens()..first.plus(1_500).opens();
                let broken = Rule::new(Fault::Before(failures::server_error()));
                world.mail_faults.add(broken.on(Operation::Mail).during(span));
                world.until(first, 1_490, MS(0)).await;
                // Some 45 probes were sent; no mail has spent three attempts.
                let standing =
                    world.contents("news").into_iter().chain(world.contents("merge.fifo"));
                let attempts: Vec<u32> =
                    standing.map(|m| m.attributes["attempt"].parse().unwrap()).collect();
                // A third attempt would have been the last: then it were a dead letter.
                assert_eq!(attempts.len(), 40);
                let counted: u32 = attempts.iter().sum();
                let failed = world.mail_faults.strikes().len();
                assert!((40..=80).contains(&counted), "{attempts:?}");
                assert!(failed >= usize::try_from(counted).unwrap() + 30, "{failed}: {attempts:?}");
            })
            .await;
        world.assert_nothing_lost();
        assert!(world.dead_letters().is_empty() && world.duplicates().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn failures_that_come_in_after_it_blocked_are_no_attempts() {
    // Each send times out after five seconds: as it blocks, five windows' mails are still in flight.
    let world = World::new(WorldSettings::new(14.0, true).campaigns(&[("news", 1)]));
    world.fill("news", 2_000).await;
    let slow = Latency::between(MS(4_990), MS(5_000));
    let mut blocked = None;
    world
        .play(90, async |first| {
            world.mail_faults.add(Rule::new(Fault::Slow(slow)).on(Operation::Mail));
            let lost = Rule::new(Fault::Before(failures::answer_lost()));
            world.mail_faults.add(lost.on(Operation::Mail));
            for number in 1..90 {
                world.until(first, number, MS(0)).await;
                if blocked.is_none() && !world.ledger_now().await.control.breaker.is_allowing() {
                    blocked = Some(world.universe.now());
                }
            }
        })
        .await;
    let blocked = blocked.unwrap();
    let late = world.mail_faults.strikes();
    let in_flight = late.iter().filter(|s| s.at < blocked && s.at + MS(3_500) > blocked).count();
    assert!(in_flight > 20, "{in_flight} in flight as it blocked");
    let uncounted = world.contents("news").into_iter().filter(|message| {
        message.attributes.contains_key("last_error") && message.attributes["attempt"] == "0"
    });
    let uncounted = uncounted.count();
    assert!(uncounted > 20, "{uncounted} of {in_flight} were no attempts");
}

/// Regression: with reports lost in crashes the merge queue's depth stood above its real one, so that
/// a probe was neither fed nor found, for ever.
#[tokio::test(start_paused = true)]
async fn a_probe_is_found_however_wrong_the_reported_depth_is() {
    let world = World::new(WorldSettings::new(14.0, true).campaigns(&[("news", 1)]));
    world.fill("news", 100).await;
    outage(&world, 150, 100).await;
    let wrong =
        LedgerReport { counters: [("fed".to_owned(), 15)].into(), ..LedgerReport::default() };
    world.ledger.report(&wrong).await.unwrap();
    world.run(1_200).await;
    world.assert_nothing_lost();
    assert_eq!(world.accepted().len(), 100);
    assert_eq!(world.ledger_now().await.control.breaker, Breaker::default());
}

#[tokio::test(start_paused = true)]
async fn for_a_probe_no_more_is_received_than_one_mail_of_each_queue() {
    for merge in MODES {
        let settings = WorldSettings { express: true, ..WorldSettings::new(14.0, merge) };
        let world = World::new(settings.variable("TIDEGATE_DEDUPLICATION", "park"));
        // Both mails are there before the first one's prober is decided on.
        let slow = Latency::between(MS(100), MS(101));
        world.faults.add(Rule::new(Fault::Slow(slow)).on(Operation::SetControl));
        world.fill("big", 3_000).await;
        outage(&world, 300, 100).await;
        world.put(EXPRESS, &ProducedMail::several("express", 30, 1)).await;
        let (before, failed) = (world.reports().len(), world.mail_faults.strikes().len());
        world.run(150).await;
        assert!(world.mail_faults.strikes().len() >= failed + 4, "merge {merge}: no probes");
        let left: Vec<u64> =
            world.reports()[before..].iter().map(|report| report.count(Counter::Left)).collect();
        assert!(left.iter().all(|left| *left <= 1), "merge {merge}: received and left {left:?}");
        // Nor is the mark of the one that is not sent left behind.
        world.run(600).await;
        world.assert_nothing_lost();
        assert!(world.dead_letters().is_empty(), "merge {merge}: {:?}", world.dead_letters());
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_ses_refuses_for_what_the_mail_names_shows_that_it_works() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(14.0, merge).campaigns(&[("news", 1)]));
        world.fill("news", 500).await;
        outage(&world, 300, 80).await;
        assert!(!world.ledger_now().await.control.breaker.is_allowing());
        world.mail_faults.clear();
        let unverified = Rule::new(Fault::Before(failures::not_verified()));
        world.mail_faults.add(unverified.on(Operation::Mail));
        world.run(60).await;
        let control = world.ledger_now().await.control;
        assert!(control.holds_campaign("news"), "merge {merge}: {control:?}");
        assert_eq!(control.breaker, Breaker::default(), "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_prober_that_crashes_is_replaced_after_fifteen_seconds() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(14.0, merge).campaigns(&[("news", 1)]));
        world.fill("news", 400).await;
        let probing = |breaker: &Breaker| match breaker {
            Breaker::Probing { since, .. } => Some(*since),
            _ => None,
        };
        let mut probers = Vec::new();
        world
            .play(200, async |first| {
                let broken = Rule::new(Fault::Before(failures::server_error()));
                let span = first.opens()..first.plus(80).opens();
                world.mail_faults.add(broken.on(Operation::Mail).during(span));
                // From then on every send hangs, and its poller is killed by its time-out.
                let later = first.plus(80).opens()..first.plus(130).opens();
                let hang = Rule::new(Fault::HangBefore).on(Operation::Mail);
                world.mail_faults.add(hang.during(later));
                for number in 1..190 {
                    world.until(first, number, MS(500)).await;
                    let breaker = world.ledger_now().await.control.breaker;
                    if let Some(since) = probing(&breaker)
                        && !probers.contains(&since)
                    {
                        probers.push(since);
                    }
                }
            })
            .await;
        assert!(probers.len() >= 3, "merge {merge}: {probers:?}");
        let gaps: Vec<u64> =
            probers.windows(2).map(|pair| pair[1].saturating_since(pair[0])).collect();
        assert!(gaps.iter().all(|gap| (15..=45).contains(gap)), "merge {merge}: {gaps:?}");
        assert!(gaps.contains(&15), "merge {merge}: {gaps:?}");
        world.run(400).await;
        world.assert_nothing_lost();
        assert_eq!(world.accepted().len(), 400, "merge {merge}");
        assert_eq!(world.ledger_now().await.control.breaker, Breaker::default());
    }
}

#[tokio::test(start_paused = true)]
async fn a_tenth_of_failures_and_a_rate_refused_by_half_do_not_block() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        world.fill("big", 4_000).await;
        let some = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
        world.mail_faults.add(some.chance(0.1));
        world.run(200).await;
        world.assert_nothing_lost();
        assert!(world.reports().iter().all(|report| report.end != End::Blocked), "merge {merge}");

        let settings =
            WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(40.0, merge) };
        let world = World::new(WorldSettings { real_quota: Some(20.0), ..settings });
        world.tick_rate.set(Some(tidegate_tests::simulation::rate(40.0)));
        world.fill("big", 8_000).await;
        world.run(200).await;
        assert!(world.reports().iter().all(|report| report.end != End::Blocked), "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_third_failing_blocks_it_and_a_healthy_ses_opens_it_again() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(14.0, merge));
        world.fill("big", 3_000).await;
        let mut blocked = false;
        world
            .play(400, async |first| {
                let some = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
                let span = first.opens()..first.plus(200).opens();
                world.mail_faults.add(some.chance(0.35).during(span));
                for number in 1..200 {
                    world.until(first, number, MS(0)).await;
                    blocked |= !world.ledger_now().await.control.breaker.is_allowing();
                }
            })
            .await;
        assert!(blocked, "merge {merge}: it never blocked");
        world.run(400).await;
        world.assert_nothing_lost();
        assert!(world.ledger_now().await.control.breaker.is_allowing());
        assert_eq!(world.accepted().len(), 3_000, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_it_blocks_nothing_is_fed_and_no_queue_is_touched() {
    let world = World::new(WorldSettings { express: true, ..WorldSettings::new(14.0, true) });
    world.fill("big", 3_000).await;
    world.faults.add(Rule::new(Fault::Slow(Latency::NONE)).on(Operation::Receive));
    let first = outage(&world, 200, 130).await;
    let until = match world.ledger_now().await.control.breaker {
        Breaker::Blocking { until, .. } => until,
        other => panic!("{other:?}"),
    };
    let blocked: Vec<_> = world
        .reports()
        .into_iter()
        .filter(|report| report.end == End::Blocked)
        .map(|report| report.window)
        .collect();
    assert!(blocked.len() > 40 && until > first.plus(100), "{} windows", blocked.len());
    let strikes = world.faults.strikes();
    for window in blocked {
        // A receive that began in the window before may still be there.
        let span = window.opens() + Duration::from_millis(100)..window.closes();
        let probed = world.report_of(window.plus(1)).is_some_and(|r| r.end != End::Blocked);
        let touched = strikes.iter().filter(|strike| span.contains(&strike.at)).count();
        assert!(touched == 0 || probed, "{window}: {touched} receives");
    }
}

#[tokio::test(start_paused = true)]
async fn with_the_ledger_out_of_reach_nobody_probes() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(14.0, merge).campaigns(&[("news", 1)]));
        world.fill("news", 1_000).await;
        world
            .play(200, async |first| {
                let broken = Rule::new(Fault::Before(failures::server_error()));
                world.mail_faults.add(broken.on(Operation::Mail));
                world.until(first, 80, MS(0)).await;
                let blocked = world.ledger_now().await.control.breaker;
                assert!(matches!(blocked, Breaker::Blocking { .. }), "{blocked:?}");
                let gone = Rule::new(Fault::Before(FailureKind::Unreachable));
                world.faults.add(gone.on(Operation::SetControl));
            })
            .await;
        let first = world.reports()[0].window;
        let after = first.plus(81).opens();
        let tried = world.mail_faults.strikes().iter().filter(|s| s.at >= after).count();
        assert_eq!(tried, 0, "merge {merge}: sent without being the prober");
        world.faults.clear();
        world.mail_faults.clear();
        world.run(900).await;
        world.assert_nothing_lost();
        assert_eq!(world.accepted().len(), 1_000, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_the_ledger_does_not_say_whether_it_still_allows_a_failure_is_an_attempt() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(14.0, merge).campaigns(&[("news", 1)]));
        world.fill("news", 150).await;
        world
            .play(20, async |first| {
                let broken = Rule::new(Fault::Before(failures::server_error()));
                world.mail_faults.add(broken.on(Operation::Mail));
                let gone = Rule::new(Fault::Before(FailureKind::Unreachable));
                world.faults.add(gone.on(Operation::Read));
                world.until(first, 15, MS(0)).await;
            })
            .await;
        let failed = world.contents("news").into_iter();
        let failed = failed.filter(|message| message.attributes.contains_key("last_error"));
        let attempts: Vec<String> = failed.map(|m| m.attributes["attempt"].clone()).collect();
        assert!(attempts.len() > 100, "merge {merge}: {}", attempts.len());
        assert!(attempts.iter().all(|attempt| attempt == "1"), "merge {merge}: {attempts:?}");
    }
}
