//! The control record: campaigns paused with mail in the merge queue, all paused, resumed.

use tidegate_core::control::{Control, Hold, HoldReason};
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::poll::End;
use tidegate_fakes::{Fault, Latency, Operation, Rule};
use tidegate_tests::simulation::{MERGE, World, WorldSettings, measure};

use crate::{MODES, MS};

/// Pauses a campaign, or all, as an operator does.
fn pause(control: &mut Control, campaign: Option<&str>) {
    let hold = Hold::new("by hand", EpochMillis::new(0));
    assert!(control.hold(campaign, HoldReason::Paused, hold));
}

fn resume(control: &mut Control, campaign: Option<&str>) {
    assert!(control.lift(campaign, HoldReason::Paused));
}

#[tokio::test(start_paused = true)]
async fn a_paused_campaign_stops_with_mail_in_merge_and_loses_nothing() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(50.0, merge));
        world.fill("big", 1_500).await;
        world.fill("small", 1_400).await;
        let first = world
            .play(60, async |first| {
                world.until(first, 10, MS(100)).await;
                world.control(|control| pause(control, Some("big"))).await;
                world.until(first, 16, MS(0)).await;
                let merged = world.contents(MERGE);
                let held = merged.iter().filter(|m| m.attributes["campaign"] == "big").count();
                assert_eq!(held, 0, "mail of a paused campaign is still in the merge queue");
                let back = world.contents("big");
                let back = back.iter().filter(|m| m.attributes.contains_key("pass"));
                let passes: Vec<_> = back.map(|m| m.attributes["pass"].clone()).collect();
                assert!(passes.iter().all(|pass| pass == "1"), "{passes:?}");
                assert_eq!(passes.is_empty(), !merge, "{} put back", passes.len());
                world.until(first, 30, MS(100)).await;
                world.control(|control| resume(control, Some("big"))).await;
            })
            .await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        // Window 11 was claimed after the hold; the last mail of window 10 is on its way as it opens.
        let mut paused = measure::span(first, 11..31);
        paused.start = paused.start + MS(100);
        let share = measure::share(&arrivals, "big", &paused);
        assert!(share == 0.0, "merge {merge}: {share:.4} of the paused campaign was sent");
        // What it leaves goes to the other at once, and comes back to it.
        let used = measure::utilisation(&world, first, 4..30, 10);
        assert!(used >= 0.95, "merge {merge}: {used:.4} while it was paused");
        let again = measure::sent(&arrivals, &measure::span(first, 34..44));
        assert!(again >= 480, "merge {merge}: {again} in ten windows after it was resumed");
    }
}

#[tokio::test(start_paused = true)]
async fn mail_of_a_paused_campaign_is_put_back_with_a_higher_pass_every_time() {
    let world = World::new(WorldSettings::new(20.0, true).campaigns(&[("big", 1)]));
    world.fill("big", 200).await;
    let highest_pass = || {
        let standing = world.contents("big").into_iter();
        standing.filter_map(|message| message.attributes.get("pass")?.parse::<u32>().ok()).max()
    };
    world
        .play(40, async |first| {
            // What is put back stands last: it is in the merge queue again as the rest is sent.
            for (round, at) in [(1, 5), (2, 13)] {
                world.until(first, at, MS(100)).await;
                world.control(|control| pause(control, Some("big"))).await;
                world.until(first, at + 4, MS(100)).await;
                assert_eq!(highest_pass(), Some(round));
                world.control(|control| resume(control, Some("big"))).await;
            }
        })
        .await;
    world.assert_clean();
    assert_eq!(world.accepted().len(), 200);
}

/// Regression: a hold was looked up among the listed campaigns only.
#[tokio::test(start_paused = true)]
async fn a_campaign_that_is_held_and_no_longer_listed_is_not_sent() {
    let settings = WorldSettings::new(20.0, true);
    let without = settings.clone().campaigns(&[("big", 90)]).poller().unwrap();
    let world = World::new(settings);
    world.fill("small", 400).await;
    let first = world
        .play(20, async |first| {
            world.until(first, 5, MS(100)).await;
            world.control(|control| pause(control, Some("small"))).await;
            world.deploy(without.clone());
        })
        .await;
    let sent = measure::sent(&world.ses.arrivals(), &measure::span(first, 7..20));
    assert_eq!(sent, 0, "mail of a held campaign was sent");
    world.assert_nothing_lost();
    assert!(!world.contents(MERGE).is_empty());
}

#[tokio::test(start_paused = true)]
async fn while_all_is_paused_no_queue_is_touched_and_nothing_is_sent() {
    for merge in MODES {
        let world = World::new(WorldSettings { express: true, ..WorldSettings::new(50.0, merge) });
        world.fill("big", 1_500).await;
        world.fill("express", 0).await;
        // A fault that changes nothing: its strikes are the receives.
        world.faults.add(Rule::new(Fault::Slow(Latency::NONE)).on(Operation::Receive));
        let first = world
            .play(40, async |first| {
                world.until(first, 10, MS(100)).await;
                world.control(|control| pause(control, None)).await;
                world.until(first, 20, MS(100)).await;
                world.control(|control| resume(control, None)).await;
            })
            .await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        // The last mail of window 10 is on its way as window 11 opens.
        let mut paused = measure::span(first, 11..21);
        paused.start = paused.start + MS(100);
        assert_eq!(measure::sent(&arrivals, &paused), 0);
        let held = measure::span(first, 12..20);
        let strikes = world.faults.strikes();
        assert_eq!(strikes.iter().filter(|strike| held.contains(&strike.at)).count(), 0);
        for number in 11..20 {
            assert_eq!(world.report_of(first.plus(number)).unwrap().end, End::Held);
        }
        assert!(measure::utilisation(&world, first, 22..40, 10) >= 0.97);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_put_on_a_paused_campaign_waits_for_it() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(50.0, merge));
        world.control(|control| pause(control, Some("small"))).await;
        world.fill("small", 100).await;
        world.run(10).await;
        assert!(world.ses.arrivals().is_empty());
        assert_eq!(world.contents("small").len(), 100);
        world.control(|control| resume(control, Some("small"))).await;
        world.run(12).await;
        world.assert_clean();
        assert_eq!(world.accepted().len(), 100);
    }
}
