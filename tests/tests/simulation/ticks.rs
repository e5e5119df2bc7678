//! Ticks doubled, late, lost, early, expired; schedulers doubled and missing; clocks that differ.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::time::Duration;

use futures_util::future::join;
use tidegate_core::Window;
use tidegate_core::control::{Control, Hold, HoldReason};
use tidegate_core::counters::Counter;
use tidegate_delivery::poll::End;
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Counting, Fault, Latency, Operation, Rule, failures};
use tidegate_tests::simulation::{ProducedMail, World, WorldSettings, measure, rate};

use crate::MS;

/// Both campaigns filled for `windows` windows at the settings' quota.
async fn filled(settings: WorldSettings, windows: u32) -> World {
    let world = World::new(settings);
    let count = format!("{:.0}", world.settings.quota * f64::from(windows));
    let count: usize = count.parse().unwrap();
    world.fill("big", count).await;
    world.fill("small", count / 5).await;
    world
}

fn ends(world: &World, window: Window) -> Vec<End> {
    let of = |end: &&tidegate_delivery::poll::WindowReport| end.window == window;
    world.reports().iter().filter(of).map(|report| report.end).collect()
}

#[tokio::test(start_paused = true)]
async fn a_doubled_tick_finds_its_window_claimed() {
    for merge in [true, false] {
        let world = filled(WorldSettings::new(50.0, merge), 30).await;
        world.faults.add(Rule::new(Fault::Duplicate(Latency::NONE)).on(Operation::Tick));
        let first = world.run(20).await;
        world.assert_clean();
        for number in 0..20 {
            let mut ends = ends(&world, first.plus(number));
            ends.sort_by_key(|end| *end == End::Duplicate);
            assert_eq!(ends, [End::Served, End::Duplicate], "window {number}");
        }
        assert!(measure::utilisation(&world, first, 4..20, 10) >= 0.97);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tick_late_by_600_ms_serves_the_rest_of_its_window_within_the_bound() {
    for merge in [true, false] {
        let world = filled(WorldSettings::new(100.0, merge), 30).await;
        let first = world
            .play(24, async |first| {
                world.until(first, 9, MS(0)).await;
                world.tick_delay.set(MS(600));
                world.until(first, 14, MS(0)).await;
                world.tick_delay.set(Duration::ZERO);
            })
            .await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        for number in 10..14 {
            // It starts some 270 ms into its window, and receives first.
            let sent = measure::sent(&arrivals, &measure::span(first, number..number + 1));
            assert!((50..=80).contains(&sent), "merge {merge}: {sent} in window {number}");
            let report = world.report_of(first.plus(number)).unwrap();
            assert_eq!(report.end, End::Served);
            assert!(
                report.count(Counter::Unused) + report.count(Counter::Skipped) >= 20,
                "{report:?}"
            );
        }
        assert!(measure::utilisation(&world, first, 16..24, 4) >= 0.97);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tick_whose_window_is_over_is_expired_and_touches_nothing() {
    let world = filled(WorldSettings::new(20.0, true), 20).await;
    world.tick_delay.set(MS(1_500));
    let first = world.run(6).await;
    assert!(world.ses.arrivals().is_empty());
    for number in 0..6 {
        assert_eq!(ends(&world, first.plus(number)), [End::Expired]);
    }
    assert_eq!(world.ledger_now().await.previous, None, "a window was claimed");
    assert_eq!(world.contents("big").len(), 400);
}

#[tokio::test(start_paused = true)]
async fn a_tick_more_than_a_second_and_a_half_ahead_is_early_and_touches_nothing() {
    let world = filled(WorldSettings::new(20.0, true), 20).await;
    let window = world.next_window().plus(2);
    world.serve(Some(world.tick(window))).await;
    assert_eq!(ends(&world, window), [End::Early]);
    assert_eq!(world.ledger_now().await.previous, None, "a window was claimed");
}

#[tokio::test(start_paused = true)]
async fn an_empty_tick_serves_the_next_whole_second_at_the_accounts_quota() {
    for merge in [true, false] {
        let world = filled(WorldSettings::new(20.0, merge), 20).await;
        let window = Window::containing(world.universe.now()).plus(1);
        world.serve(None).await;
        assert_eq!(ends(&world, window), [End::Served]);
        let report = world.report_of(window).unwrap();
        assert_eq!(report.rate_per_second, Some(rate(20.0)));
        assert!(report.count(Counter::Sent) >= 19, "{report:?}");
        world.assert_clean();
    }
}

#[tokio::test(start_paused = true)]
async fn empty_ticks_keep_what_ses_tells_once_a_minute_and_while_a_hold_waits_for_it() {
    let world =
        World::new(WorldSettings { daily_quota: Some(1_000), ..WorldSettings::new(20.0, true) });
    let after = async |pause: u64| {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        world.serve(None).await;
        world.ledger_now().await.control
    };
    let read_at = |control: &Control| control.daily.map(|reading| reading.read_at);
    // An unchanged answer would not be written again.
    world.put("big", &[ProducedMail::new("counted")]).await;
    let first = read_at(&after(0).await);
    assert!(first.is_some());
    assert_eq!(read_at(&after(30).await), first);
    let second = read_at(&after(40).await);
    assert!(second > first);
    let hold = Hold::new("", world.universe.now());
    world.control(|control| assert!(control.hold(None, HoldReason::Account, hold))).await;
    let third = after(5).await;
    assert!(third.holds.is_empty(), "{third:?}");
}

#[tokio::test(start_paused = true)]
async fn lost_ticks_and_a_failing_invoke_cost_their_own_windows_only() {
    let world = filled(WorldSettings::new(50.0, true), 50).await;
    world.faults.add(Rule::new(Fault::Nothing).on(Operation::Tick).nth(8));
    world.faults.add(Rule::new(Fault::Before(FailureKind::TimedOut)).on(Operation::Tick).nth(12));
    let slow = Fault::Slow(Latency::always(Duration::from_secs(20)));
    world.faults.add(Rule::new(slow).on(Operation::Tick).nth(16));
    let first = world.run(40).await;
    world.assert_clean();
    for number in 0..40 {
        let served = world.report_of(first.plus(number)).is_some_and(|r| r.end == End::Served);
        assert_eq!(served, ![7, 11, 15].contains(&number), "window {number}");
    }
    assert!(measure::utilisation(&world, first, 17..40, 20) >= 0.975);
    assert_eq!(world.counted(Counter::WindowsMissed), 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_the_lead_as_a_poller_starts_is_counted() {
    for (delay, left) in [(0, 400), (150, 250), (700, 0)] {
        let world = filled(WorldSettings::new(50.0, true), 20).await;
        world.tick_delay.set(MS(delay));
        world.run(10).await;
        let (windows, early) =
            (world.counted(Counter::Windows), world.counted(Counter::TicksEarly));
        assert!(
            windows >= 9 && early.div_ceil(windows).abs_diff(left) <= 100,
            "{windows} windows: {early} ms"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn windows_without_slots_and_those_of_a_mail_with_many_recipients_are_not_missed() {
    let world = filled(WorldSettings::new(0.5, true), 60).await;
    world.run(60).await;
    assert_eq!(world.counted(Counter::WindowsMissed), 0);
    let world = World::new(WorldSettings::new(2.0, false));
    world.put("big", &[ProducedMail { recipients: 50, ..ProducedMail::new("wide") }]).await;
    world.run(75).await;
    let owed = world.reports().iter().filter(|report| report.end == End::Owed).count();
    assert!(owed > 20 && world.accepted().len() == 1, "{owed} windows owed");
    assert_eq!(world.counted(Counter::WindowsMissed), 0);
}

/// Refusals lower the rate, and so move the slots: below one a second other windows have none than at the quota.
#[tokio::test(start_paused = true)]
async fn at_a_lowered_rate_every_window_with_a_slot_is_served_or_missed() {
    let world = filled(WorldSettings::new(1.0, true), 600).await;
    let throttled = Rule::new(Fault::Before(failures::rate_exceeded())).on(Operation::Mail);
    world.mail_faults.add(throttled.chance(0.2));
    world.faults.add(Rule::new(Fault::Nothing).on(Operation::Tick).chance(0.3));
    let first = world.run(600).await;
    assert_eq!(world.audited(), Vec::<String>::new());
    let missed = world.counted(Counter::WindowsMissed);
    assert!(missed > 5, "{missed}");
    let slotless = world
        .reports()
        .iter()
        .filter(|of| of.window > first.plus(1))
        .any(|report| report.end == End::NoSlots);
    assert!(slotless, "no window was without a slot");
}

#[tokio::test(start_paused = true)]
async fn overlapping_schedulers_are_harmless() {
    let world = filled(WorldSettings::new(50.0, true), 50).await;
    let first = world
        .play(40, async |first| {
            world.until(first, 5, MS(130)).await;
            join(world.schedule(), async {
                world.until(first, 9, MS(610)).await;
                world.schedule().await;
            })
            .await;
        })
        .await;
    world.assert_clean();
    assert!(measure::utilisation(&world, first, 4..40, 30) >= 0.975);
    let of = |end| world.reports().iter().filter(|report| report.end == end).count();
    assert_eq!(of(End::Served), 40);
    assert!(of(End::Duplicate) >= 60, "{}", of(End::Duplicate));
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_missing_for_a_minute_costs_that_minute_and_no_more() {
    let world = filled(WorldSettings::new(14.0, true), 200).await;
    let first = world
        .play(180, async |first| {
            world.until(first, 30, MS(0)).await;
            world.unscheduled.set(true); // the trigger at 60 s does not come
            world.until(first, 90, MS(0)).await;
            world.unscheduled.set(false);
        })
        .await;
    world.assert_clean();
    let arrivals = world.ses.arrivals();
    // The run before covers ten windows more than its minute.
    assert_eq!(measure::sent(&arrivals, &measure::span(first, 72..119)), 0);
    assert!(measure::utilisation(&world, first, 4..69, 30) >= 0.975);
    assert!(measure::utilisation(&world, first, 122..180, 30) >= 0.975);
    let missed = world.counted(Counter::WindowsMissed);
    assert!((48..=50).contains(&missed), "{missed}");
}

#[tokio::test(start_paused = true)]
async fn a_trigger_that_comes_seconds_late_leaves_no_gap() {
    let world = filled(WorldSettings::new(14.0, true), 150).await;
    let first = world
        .play(110, async |first| {
            world.until(first, 30, MS(0)).await;
            world.unscheduled.set(true);
            world.until(first, 68, MS(800)).await;
            world.schedule().await; // the trigger of 60 s, nearly nine seconds late
        })
        .await;
    world.assert_clean();
    assert!(measure::utilisation(&world, first, 4..110, 30) >= 0.975);
    assert_eq!(world.counted(Counter::WindowsMissed), 0);
}

#[tokio::test(start_paused = true)]
async fn clocks_400_ms_apart_keep_the_bound_with_its_term() {
    for (quota, merge) in [(14.0, true), (100.0, false), (100.0, true)] {
        let clocks = vec![-200_000_000, 200_000_000, -200_000_000, 200_000_000];
        let settings = WorldSettings {
            clocks,
            counting: Counting::Bucket,
            ..WorldSettings::new(quota, merge)
        };
        let world = filled(settings, 40).await;
        let first = world.run(40).await;
        assert_eq!(world.lost(), Vec::<String>::new());
        assert_eq!(world.duplicates(), Vec::<String>::new());
        let apart: f64 = (quota * 0.4 / 1.02).ceil();
        let most = format!("{}", quota + apart).parse().unwrap();
        let worst = measure::worst_second(&world.ses.arrivals());
        assert!(worst <= most, "{quota}/s: {worst} in one second, {most} allowed");
        assert!(measure::utilisation(&world, first, 5..40, 30) >= 0.96);
        let used = world.poller_runs().iter().map(|start| start.environment).max();
        assert!(used >= Some(1), "one environment alone has one clock");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_steps_back_moves_no_slot_of_a_window_under_way() {
    for back in [-200_000_000_i32, -1_000_000_000] {
        let settings =
            WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(50.0, true) };
        let world = filled(settings, 40).await;
        let first = world
            .play(30, async |first| {
                world.until(first, 10, MS(400)).await;
                for environment in world.warm() {
                    environment.clock.step(i64::from(back));
                }
            })
            .await;
        assert_eq!(world.lost(), Vec::<String>::new());
        assert_eq!(world.duplicates(), Vec::<String>::new());
        let arrivals = world.ses.arrivals();
        let within = measure::sent(&arrivals, &measure::span(first, 10..11));
        assert!((48..=50).contains(&within), "{within} in the window of the step");
        let share = f64::from(back.abs()) / 1e9;
        let most = 50.0 + (50.0 * share / 1.02).ceil();
        let worst = f64::from(u32::try_from(measure::worst_second(&arrivals)).unwrap());
        assert!(worst <= most, "{worst} in one second after a step of {share} s");
        let used = measure::utilisation(&world, first, 14..30, 10);
        assert!(used >= if back == -200_000_000 { 0.97 } else { 0.85 }, "{used:.4}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_quota_keeps_the_larger_one_in_every_second() {
    for merge in [true, false] {
        let settings = WorldSettings { real_quota: Some(20.0), ..WorldSettings::new(14.0, merge) };
        let world = filled(settings, 60).await;
        let first = world
            .play(30, async |first| {
                world.tick_rate.set(Some(rate(14.0)));
                world.until(first, 9, MS(300)).await;
                world.tick_rate.set(Some(rate(20.0)));
                world.until(first, 19, MS(300)).await;
                world.tick_rate.set(Some(rate(7.0)));
            })
            .await;
        assert_eq!(world.lost(), Vec::<String>::new());
        assert_eq!(world.duplicates(), Vec::<String>::new());
        let arrivals = world.ses.arrivals();
        for (windows, most) in [(0..10, 14), (0..20, 20), (21..30, 7), (0..30, 20)] {
            let span = measure::span(first, windows.clone());
            let within: Vec<_> =
                arrivals.iter().filter(|arrival| span.contains(&arrival.at)).cloned().collect();
            let worst = measure::worst_second(&within);
            assert!(worst <= most, "merge {merge}: {worst} in one second of {windows:?}");
        }
        for (windows, least) in [(5..10, 68), (11..20, 175), (21..30, 60)] {
            let sent = measure::sent(&arrivals, &measure::span(first, windows.clone()));
            assert!(sent >= least, "merge {merge}: {sent} in {windows:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_ses_does_not_tell_the_quota_the_last_known_counts() {
    let world = filled(WorldSettings::new(20.0, true), 140).await;
    let first = world
        .play(120, async |first| {
            world.until(first, 30, MS(0)).await;
            let unreachable = Fault::Before(FailureKind::Unreachable);
            world.faults.add(Rule::new(unreachable).on(Operation::Account));
        })
        .await;
    world.assert_clean();
    assert!(measure::utilisation(&world, first, 4..120, 30) >= 0.975);
    let known: Vec<bool> = world.poller_runs().iter().map(|_| true).collect();
    assert!(known.len() >= 120);
    assert_eq!(world.ledger_now().await.control.last_known_quota, Some(rate(20.0)));
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_is_slow_to_read_costs_the_windows_that_passed_and_delays_no_other() {
    let world = World::new(WorldSettings::new(14.0, true));
    let slow = Latency::between(MS(5_000), MS(5_001));
    world.faults.add(Rule::new(Fault::Slow(slow)).on(Operation::Account));
    let started = world.universe.now();
    world.schedule().await;
    let run = world.schedule_reports.borrow_mut().remove(0);
    assert_eq!((run.ticks, run.ticks_late, run.ticks_failed), (70, 0, 0), "{run:?}");
    let first = run.first_window.unwrap();
    assert!(first.opens() >= started + MS(5_000), "{run:?}");
}
