//! Shares that one campaign cannot use go to the others, and come back when it has mail again.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use tidegate_core::Window;
use tidegate_core::config::Campaign;
use tidegate_delivery::ports::{Ledger as _, LedgerReport};
use tidegate_fakes::MessageState;
use tidegate_tests::simulation::{MERGE, ProducedMail, World, WorldSettings, measure};

use crate::{MODES, MS};

/// The window of a campaign's last mail, counted from `first`.
fn last_of(world: &World, campaign: &str, first: Window) -> u64 {
    let arrivals = world.ses.accepted();
    let last = arrivals.iter().rev().find(|arrival| arrival.campaign == campaign).unwrap();
    Window::containing(last.at).epoch_second() - first.epoch_second()
}

/// Runs until one campaign has ended and some windows more; the other takes all that is left.
async fn one_ends_first(merge: bool, big: usize, small: usize, ends: &str) {
    let world = World::new(WorldSettings::new(100.0, merge));
    world.fill("big", big).await;
    world.fill("small", small).await;
    let first = world.run(24).await;
    world.assert_clean();
    let last = last_of(&world, ends, first);
    assert!((4..14).contains(&last), "{ends} ended in window {last}");
    let before = measure::utilisation(&world, first, 1..last, 1);
    assert!(before >= 0.97, "merge {merge}: {before:.4} before {ends} ended");
    let after = measure::utilisation(&world, first, last + 2..24, 1);
    assert!(after >= 0.97, "merge {merge}: {after:.4} after {ends} ended");
    let ended = measure::utilisation(&world, first, 4..24, 10);
    assert!(ended >= 0.97, "merge {merge}: {ended:.4} over ten windows");
}

#[tokio::test(start_paused = true)]
async fn when_the_small_campaign_ends_the_big_one_takes_its_share_at_once() {
    for merge in MODES {
        one_ends_first(merge, 2_500, 100, "small").await;
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_big_campaign_ends_the_small_one_takes_its_share_at_once() {
    for merge in MODES {
        one_ends_first(merge, 600, 2_250, "big").await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_campaign_alone_gets_the_whole_quota() {
    for merge in MODES {
        for alone in ["big", "small"] {
            let world = World::new(WorldSettings::new(50.0, merge));
            world.fill(alone, 2_000).await;
            let first = world.run(36).await;
            world.assert_clean();
            let used = measure::utilisation(&world, first, 4..36, 30);
            assert!(used >= 0.975, "merge {merge}, {alone} alone: {used:.4}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_that_fills_again_has_its_share_within_its_idle_windows_and_four_more() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(100.0, merge));
        world.fill("big", 6_000).await;
        world.fill("small", 30).await;
        let first = world.next_window();
        world
            .play(56, async |first| {
                world.until(first, 20, MS(300)).await;
                world.put("small", &ProducedMail::several("again", 600, 1)).await;
            })
            .await;
        world.assert_clean();
        let span = measure::span(first, 29..54);
        let share = measure::share(&world.ses.arrivals(), "small", &span);
        assert!((share - 0.1).abs() <= 0.01, "merge {merge}: {share:.4}");
        let used = measure::utilisation(&world, first, 4..56, 10);
        assert!(used >= 0.97, "merge {merge}: {used:.4}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_merge_queue_stays_near_one_window_deep() {
    for quota in [14.0, 200.0] {
        let world = World::new(WorldSettings::new(quota, true));
        let count = format!("{}", quota * 40.0).parse().unwrap();
        world.fill("big", count).await;
        world.fill("small", count / 5).await;
        world
            .play(36, async |first| {
                for number in 1..=35 {
                    for part in [250, 750] {
                        world.until(first, number, MS(part)).await;
                        let standing = world.contents(MERGE);
                        let ready = standing.iter().filter(|m| m.place == MessageState::Visible);
                        let depth = u32::try_from(ready.count()).unwrap();
                        let windows = f64::from(depth) / quota;
                        assert!(windows <= 2.5, "{windows:.2} windows deep in window {number}");
                        let settled = number < 8 || windows >= 0.3;
                        assert!(settled, "{windows:.2} windows deep in window {number}");
                    }
                }
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reported_depth_that_is_wrong_is_set_right_by_counting() {
    for (quota, error) in [(5.0, 18), (14.0, 35), (14.0, -30), (100.0, 290), (100.0, -300)] {
        let world = World::new(WorldSettings::new(quota, true));
        let count: usize = format!("{}", quota * 60.0).parse().unwrap();
        world.fill("big", count).await;
        world.fill("small", count / 8).await;
        let mut report = LedgerReport::default();
        report.counters.insert("fed".into(), error);
        world.ledger.report(&report).await.unwrap();
        let first = world.run(50).await;
        world.assert_clean();
        let used = measure::utilisation(&world, first, 20..50, 30);
        assert!(used >= 0.97, "{quota}/s, off by {error}: {used:.4}");
        let depth = u32::try_from(world.contents(MERGE).len()).unwrap();
        assert!(f64::from(depth) <= 2.5 * quota, "{quota}/s, off by {error}: {depth} deep");
    }
}

#[tokio::test(start_paused = true)]
async fn new_weights_act_on_a_backlog_within_four_seconds() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(100.0, merge));
        world.fill("big", 2_600).await;
        world.fill("small", 1_500).await;
        let first = world.next_window();
        world
            .play(26, async |first| {
                world.until(first, 10, MS(100)).await;
                world
                    .control(|control| {
                        control.weights.insert("big".into(), 50);
                        control.weights.insert("small".into(), 50);
                    })
                    .await;
            })
            .await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        for (windows, due) in [(2..10, 0.1), (14..20, 0.5), (20..26, 0.5)] {
            let share = measure::share(&arrivals, "small", &measure::span(first, windows.clone()));
            assert!((share - due).abs() <= 0.01, "merge {merge}, {windows:?}: {share:.4}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_campaign_acts_within_four_seconds() {
    for merge in MODES {
        let settings = WorldSettings::new(100.0, merge).variable("TIDEGATE_CAMPAIGNS", "ledger");
        let world = World::new(settings);
        let listed = |name: &str, weight| Campaign {
            name: name.into(),
            queue_url: format!("https://sqs.example/{name}"),
            weight,
            ..Campaign::default()
        };
        world.control(|control| control.campaigns = vec![listed("big", 90)]).await;
        world.fill("big", 2_600).await;
        world.fill("small", 1_000).await;
        let first = world.next_window();
        world
            .play(26, async |first| {
                world.until(first, 10, MS(100)).await;
                let both = vec![listed("big", 90), listed("small", 10)];
                world.control(|control| control.campaigns = both).await;
            })
            .await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        for (windows, due) in [(4..10, 0.0), (14..20, 0.1), (20..26, 0.1)] {
            let share = measure::share(&arrivals, "small", &measure::span(first, windows.clone()));
            assert!((share - due).abs() <= 0.01, "merge {merge}, {windows:?}: {share:.4}");
        }
    }
}
