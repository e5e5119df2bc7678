//! The daily quota: at the full rate up to the reserve, then a hold that lifts itself; or spread.

use std::time::Duration;

use futures_util::future::join;
use tidegate_core::control::{Hold, HoldReason};
use tidegate_core::counters::Counter;
use tidegate_delivery::poll::End;
use tidegate_fakes::{Fault, Latency, Operation, Rule, failures};
use tidegate_tests::simulation::{EXPRESS, MERGE, ProducedMail, World, WorldSettings, measure};

use crate::{MODES, MS};

fn limited(merge: bool, reserve: &str) -> WorldSettings {
    WorldSettings { express: true, daily_quota: Some(1_000), ..WorldSettings::new(20.0, merge) }
        .variable("TIDEGATE_DAILY_RESERVE", reserve)
}

#[tokio::test(start_paused = true)]
async fn campaigns_stop_at_the_reserve_which_express_mail_may_use() {
    for merge in MODES {
        let world = World::new(limited(merge, "100"));
        world.fill("big", 1_500).await;
        world.fill("small", 300).await;
        let first = world
            .play(130, async |first| {
                world.until(first, 70, Duration::ZERO).await;
                let of_campaigns = world.accepted().len();
                // Two or three windows' worth may be under way, unreported: that is left alone.
                assert!((835..=900).contains(&of_campaigns), "merge {merge}: {of_campaigns}");
                let holds = world.ledger_now().await.control.holds;
                assert!(holds.get(HoldReason::DailyBudget).is_some(), "merge {merge}: {holds:?}");
                world.put(EXPRESS, &ProducedMail::several("express", 60, 1)).await;
            })
            .await;
        world.assert_clean();
        let accepted = world.ses.accepted();
        let express = accepted.iter().filter(|a| a.campaign == EXPRESS).count();
        assert_eq!(express, 60, "merge {merge}: express may use the reserve");
        assert!(accepted.len() - express <= 900);
        assert!(world.dead_letters().is_empty());
        // Until then at the full rate.
        assert!(measure::utilisation(&world, first, 4..40, 30) >= 0.97, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_hold_is_lifted_when_the_quota_frees_up_and_campaigns_go_on() {
    for merge in MODES {
        let world = World::new(limited(merge, "10%"));
        world.fill("big", 1_200).await;
        world.run(90).await;
        let first_day = world.accepted().len();
        assert!(first_day <= 900 && !world.ledger_now().await.control.holds.is_empty());
        // Nothing ticks for most of the day; then the first day's mails begin to fall out of it.
        tokio::time::sleep(Duration::from_hours(24) - Duration::from_mins(3)).await;
        world.run(240).await;
        world.assert_clean();
        assert_eq!(world.accepted().len(), 1_200, "merge {merge}");
        let lifted = world.ledger_now().await.control.holds;
        assert!(lifted.is_empty(), "merge {merge}: {lifted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn within_any_day_no_more_than_the_quota_less_the_reserve_is_sent_for_days_on() {
    let world = World::new(WorldSettings {
        daily_quota: Some(2_000),
        ..WorldSettings::new(1.0, true).campaigns(&[("news", 1)])
    });
    world.fill("news", 5_000).await;
    // Two days in strides: each an hour of ticks, then half an hour without a trigger.
    for _ in 0..40 {
        world.run(3_600).await;
        tokio::time::sleep(Duration::from_mins(12)).await;
    }
    world.assert_clean();
    let accepted = world.ses.accepted();
    let (mut from, mut most) = (0, 0);
    for (index, arrival) in accepted.iter().enumerate() {
        while accepted[from].at + Duration::from_hours(24) <= arrival.at {
            from += 1;
        }
        most = most.max(index + 1 - from);
    }
    assert!(most <= 1_980, "{most} within a day, 1,980 are open to campaigns");
    assert!(accepted.len() >= 3_900, "{} in two days", accepted.len());
}

#[tokio::test(start_paused = true)]
async fn when_ses_says_that_the_day_is_used_up_all_is_held_and_nothing_is_an_attempt() {
    for merge in MODES {
        // Another sender uses the account: SES counts 600 that the ledger does not know.
        let world = World::new(limited(merge, "0"));
        world.fill("big", 600).await;
        let first = world
            .play(50, async |first| {
                world.until(first, 12, Duration::ZERO).await;
                world.ses.send_as_another(850);
            })
            .await;
        world.assert_nothing_lost();
        assert!(world.duplicates().is_empty() && world.dead_letters().is_empty());
        let control = world.ledger_now().await.control;
        assert!(control.holds.get(HoldReason::DailyQuota).is_some(), "{control:?}");
        // What was in flight as SES said so, and no more.
        assert!((1..=4).contains(&world.refused()), "merge {merge}: {}", world.refused());
        assert_eq!(world.report_of(first.plus(40)).unwrap().end, End::Held);
        let attempts = world.contents("big").into_iter().chain(world.contents("merge.fifo"));
        for message in attempts {
            assert_eq!(message.attributes.get("attempt").map_or("0", String::as_str), "0");
        }
        tokio::time::sleep(Duration::from_hours(24)).await;
        world.run(150).await;
        assert_eq!(world.accepted().len(), 600, "merge {merge}");
        assert_eq!(world.duplicates(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn spread_over_the_day_the_rate_is_capped_and_the_end_is_never_reached() {
    for merge in MODES {
        // 1.5 a second would use it up within a sixth of the day.
        let settings =
            WorldSettings { daily_quota: Some(22_400), ..WorldSettings::new(1.5, merge) };
        let settings =
            settings.variable("TIDEGATE_DAILY", "spread").variable("TIDEGATE_DAILY_RESERVE", "800");
        let world = World::new(settings);
        world.fill("big", 600).await;
        let first = world.run(400).await;
        world.assert_clean();
        let sent = measure::sent(&world.ses.arrivals(), &measure::span(first, 0..400));
        // (22,400 - 800) / 86,400 = 0.25 a second, less the rate margin.
        assert!((95..=100).contains(&sent), "merge {merge}: {sent} in 400 s at 0.25/s");
        assert!(world.ledger_now().await.control.holds.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_account_that_ses_pauses_is_held_and_goes_on_within_a_minute_of_its_release() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        world.fill("big", 1_000).await;
        let first = world
            .play(240, async |first| {
                world.until(first, 10, Duration::ZERO).await;
                world.ses.configure(|settings| settings.sending_enabled = false);
                world.until(first, 100, Duration::ZERO).await;
                let holds = world.ledger_now().await.control.holds;
                assert!(holds.get(HoldReason::Account).is_some(), "merge {merge}: {holds:?}");
                world.ses.configure(|settings| settings.sending_enabled = true);
            })
            .await;
        world.assert_nothing_lost();
        assert!(world.duplicates().is_empty() && world.dead_letters().is_empty());
        assert!((1..=4).contains(&world.refused()), "merge {merge}: {}", world.refused());
        let arrivals = world.ses.arrivals();
        assert_eq!(measure::sent(&arrivals, &measure::span(first, 12..100)), 0);
        assert!(measure::sent(&arrivals, &measure::span(first, 100..165)) > 0);
        assert_eq!(world.accepted().len(), 1_000, "merge {merge}");
    }
}

/// SES's answer may be older than the cause of the hold.
#[tokio::test(start_paused = true)]
async fn a_hold_that_comes_while_ses_is_asked_stays_until_it_is_asked_again() {
    let world = World::new(WorldSettings::new(20.0, true));
    let slow = Latency::between(MS(2_000), MS(2_001));
    world.faults.add(Rule::new(Fault::Slow(slow)).on(Operation::Account).nth(1));
    let held = async || world.ledger_now().await.control.holds.get(HoldReason::Account).is_some();
    join(world.schedule(), async {
        tokio::time::sleep(MS(1_000)).await;
        let since = world.universe.now();
        let hold = Hold::new("said by SES", since);
        world.control(|control| assert!(control.hold(None, HoldReason::Account, hold))).await;
        tokio::time::sleep(MS(3_000)).await;
        assert!(held().await, "lifted by an answer to an older question");
    })
    .await;
    world.schedule().await;
    assert!(!held().await);
}

#[tokio::test(start_paused = true)]
async fn what_ses_told_is_kept_though_another_changes_the_record_meanwhile() {
    let world = World::new(WorldSettings::new(20.0, true));
    world.ses.configure(|settings| settings.sending_enabled = false);
    let slow = Latency::between(MS(500), MS(501));
    world.faults.add(Rule::new(Fault::Slow(slow)).on(Operation::SetControl));
    join(world.schedule(), async {
        tokio::time::sleep(MS(200)).await;
        world.control(|control| control.weights = [("big".to_owned(), 50)].into()).await;
    })
    .await;
    let control = world.ledger_now().await.control;
    assert!(control.holds.get(HoldReason::Account).is_some(), "{control:?}");
    assert_eq!(control.weights["big"], 50);
}

#[tokio::test(start_paused = true)]
async fn while_the_days_hold_stands_what_little_frees_up_is_left_to_express_mail() {
    for merge in MODES {
        let world = World::new(limited(merge, "0"));
        // 100 are free: some windows' worth, and too little to go on with.
        world.ses.send_as_another(900);
        let hold = Hold::new("", world.universe.now());
        world.control(|control| assert!(control.hold(None, HoldReason::DailyBudget, hold))).await;
        world.fill("big", 50).await;
        world.put(EXPRESS, &ProducedMail::several("express", 5, 1)).await;
        world.run(20).await;
        assert_eq!(world.accepted().len(), 5, "merge {merge}");
        assert!(world.contents(MERGE).is_empty(), "fed what may not be sent");
        tokio::time::sleep(Duration::from_hours(24)).await;
        world.run(20).await;
        world.assert_clean();
        assert_eq!(world.accepted().len(), 55, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_what_the_day_has_no_room_for_nothing_is_received() {
    for merge in MODES {
        let world = World::new(limited(merge, "0"));
        // Less than a window's worth, beside what may be under way.
        world.ses.send_as_another(930);
        world.fill("big", 400).await;
        world.run(30).await;
        world.assert_nothing_lost();
        assert!(!world.accepted().is_empty());
        let left: u64 = world.reports().iter().map(|report| report.count(Counter::Left)).sum();
        assert_eq!(left, 0, "merge {merge}: received and left");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_was_too_late_for_its_slot_has_its_place_in_the_day_still() {
    for merge in MODES {
        let world = World::new(limited(merge, "0"));
        world.ses.send_as_another(930);
        world.schedule().await;
        // Ten are free, beside what may be under way.
        world.fill("big", 10).await;
        let late = Rule::new(Fault::Before(failures::too_late())).on(Operation::Mail);
        world.mail_faults.add(late.nth(2));
        world.run(1).await;
        assert_eq!(world.mail_faults.strikes().len(), 1);
        assert_eq!(world.accepted().len(), 10, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_too_large_for_what_is_left_of_the_day_ends_it() {
    for merge in MODES {
        let world = World::new(limited(merge, "0"));
        world.ses.send_as_another(935);
        world.schedule().await;
        // Five are free, beside what may be under way.
        world.put("big", &ProducedMail::several("large", 3, 10)).await;
        world.run(5).await;
        let holds = world.ledger_now().await.control.holds;
        assert!(holds.get(HoldReason::DailyBudget).is_some(), "merge {merge}: {holds:?}");
        assert!(world.accepted().is_empty());
    }
}
