//! The quota is used and never exceeded, and every campaign gets its share, at every rate and in
//! both modes.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use tidegate_core::Window;
use tidegate_core::counters::Counter;
use tidegate_tests::simulation::{World, WorldSettings, measure};

use crate::{MODES, MS};

/// Runs a world in which all campaigns have a backlog for this many windows.
async fn backlogged(settings: WorldSettings, windows: u32) -> (World, Window) {
    let world = World::new(settings);
    let total: u32 = world.settings.campaigns.iter().map(|(_, weight)| weight).sum();
    for (name, weight) in world.settings.campaigns.clone() {
        let share = f64::from(weight) / f64::from(total);
        let count = (world.settings.quota * f64::from(windows) * share * 1.1).ceil();
        world.fill(&name, format!("{count}").parse::<usize>().unwrap() + 30).await;
    }
    let first = world.run(u64::from(windows)).await;
    (world, first)
}

/// Utilisation in every `length` windows from the 5th on, the bound, the shares over `length`
/// windows, nothing refused, lost, or sent twice.
#[track_caller]
fn assert_regulated(world: &World, first: Window, windows: u32, length: u32, tolerance: f64) {
    world.assert_clean();
    let (windows, length) = (u64::from(windows), u64::from(length));
    let used = measure::utilisation(world, first, 4..windows, length);
    assert!(used >= 0.975, "utilisation {used:.4}");
    let arrivals = world.ses.arrivals();
    let total: u32 = world.settings.campaigns.iter().map(|(_, weight)| weight).sum();
    for start in (4..=windows - length).step_by(5) {
        let span = measure::span(first, start..start + length);
        for (name, weight) in &world.settings.campaigns {
            let due = f64::from(*weight) / f64::from(total);
            let share = measure::share(&arrivals, name, &span);
            let off = (share - due).abs();
            assert!(off <= tolerance, "{name} has {share:.4} of {due:.4} from window {start} on");
        }
    }
    assert!(world.reports().iter().all(|report| report.count(Counter::Skipped) == 0));
    assert!(world.poller_runs().iter().map(|start| start.environment).max() < Some(3));
}

async fn regulated(quota: f64, windows: u32, length: u32) {
    for merge in MODES {
        let (world, first) = backlogged(WorldSettings::new(quota, merge), windows).await;
        assert_regulated(&world, first, windows, length, 0.01);
    }
}

#[tokio::test(start_paused = true)]
async fn at_14_a_second_the_quota_is_used_and_never_exceeded() {
    regulated(14.0, 60, 30).await;
}

#[tokio::test(start_paused = true)]
async fn a_cap_above_the_quota_raises_no_rate() {
    for merge in MODES {
        let settings = WorldSettings::new(14.0, merge).variable("TIDEGATE_QUOTA_PER_SECOND", "50");
        let (world, first) = backlogged(settings, 30).await;
        assert_regulated(&world, first, 30, 20, 0.02);
    }
}

#[tokio::test(start_paused = true)]
async fn at_200_a_second_the_quota_is_used_and_never_exceeded() {
    regulated(200.0, 36, 30).await;
}

#[tokio::test(start_paused = true)]
async fn at_1000_a_second_the_quota_is_used_and_never_exceeded() {
    regulated(1_000.0, 14, 10).await;
}

#[tokio::test(start_paused = true)]
async fn at_3_a_second_the_quota_is_used_and_never_exceeded() {
    regulated(3.0, 150, 120).await;
}

#[tokio::test(start_paused = true)]
async fn at_one_in_two_seconds_the_quota_is_used_and_never_exceeded() {
    regulated(0.5, 600, 500).await;
}

#[tokio::test(start_paused = true)]
async fn three_campaigns_get_their_shares_at_once() {
    for merge in MODES {
        let campaigns = [("news", 50), ("offers", 30), ("notes", 20)];
        let settings = WorldSettings::new(50.0, merge).campaigns(&campaigns);
        let (world, first) = backlogged(settings, 60).await;
        assert_regulated(&world, first, 60, 30, 0.01);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_margin_of_one_and_of_five_hundredths_gives_99_and_95_percent() {
    for (rate_margin, least, most) in [("0.01", 0.985, 0.992), ("0.05", 0.947, 0.955)] {
        let settings =
            WorldSettings::new(200.0, true).variable("TIDEGATE_RATE_MARGIN", rate_margin);
        // A rate margin of 0.01 leaves the network half of what 0.02 leaves it: 5 ms.
        let settings = WorldSettings {
            latency: tidegate_fakes::Latency::always(std::time::Duration::from_millis(80)),
            ..settings
        };
        let (world, first) = backlogged(settings, 20).await;
        world.assert_clean();
        let used = measure::utilisation(&world, first, 4..20, 15);
        assert!((least..=most).contains(&used), "rate margin {rate_margin}: {used:.4}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_costs_at_most_56_hundredths_of_a_call_merged_and_25_direct() {
    for (merge, most) in [(true, 0.56), (false, 0.25)] {
        let (world, _) = backlogged(WorldSettings::new(200.0, merge), 24).await;
        let reports = world.reports();
        let steady = || reports.iter().skip(4);
        let calls: u64 = steady().map(|report| report.count(Counter::SqsCalls)).sum();
        let mails: u64 = steady().map(|report| report.count(Counter::Mails)).sum();
        let each = u32::try_from(calls).unwrap();
        let each = f64::from(each) / f64::from(u32::try_from(mails).unwrap());
        assert!(each <= most, "merge {merge}: {each:.3} calls a mail");
    }
}

/// As on a small share of a processor, where a process stands still for most of every 20 ms.
#[tokio::test(start_paused = true)]
async fn a_pause_between_the_two_clocks_shifts_no_slot() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(40.0, merge));
        world.fill("big", 1_600).await;
        let first = world
            .play(40, async |first| {
                for number in 1..20 {
                    world.until(first, 2 * number, MS(450)).await;
                    for environment in world.warm().iter().filter(|one| !one.busy.get()) {
                        environment.clock.pause_after_reading(MS(300));
                    }
                }
            })
            .await;
        world.assert_clean();
        let used = measure::utilisation(&world, first, 4..36, 20);
        assert!(used >= 0.97, "merge {merge}: {used:.4}");
    }
}
