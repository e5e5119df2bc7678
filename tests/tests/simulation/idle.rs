//! Nothing to send: windows that end at once, and ticks left out; and how soon mail is found again.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::time::Duration;

use futures_util::future::join;
use tidegate_core::control::{Hold, HoldReason};
use tidegate_core::counters::Counter;
use tidegate_core::identity::{Envelope, Identity, group_id};
use tidegate_core::idle::{EXACT, STILL};
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::poll::End;
use tidegate_delivery::ports::{FailureKind, Fifo, Ledger as _, LedgerReport, Outgoing};
use tidegate_fakes::{Fault, Latency, Operation, QueueSettings, Rule, failures};
use tidegate_tests::simulation::{EXPRESS, MERGE, ProducedMail, World, WorldSettings, measure};

use crate::{MODES, MS};

const SECS: fn(u64) -> Duration = Duration::from_secs;
/// A window that looks sends what it finds at most this much after the look was due.
const LOOK_AND: Duration = Duration::from_millis(1_500);
/// While a stack sleeps: mail is sent at most the wake seconds and this after SQS counts it.
const WAKE_AND: Duration = Duration::from_millis(2_500);
/// The longest time between two checks by long polls, with runs of the scheduler a minute apart.
const EXACT_AND: Duration = Duration::from_secs(EXACT + 60);

/// A stack with a tick for every window, also while all queues are empty.
fn ticked(rate: f64, merge: bool) -> WorldSettings {
    WorldSettings::new(rate, merge).variable("TIDEGATE_IDLE_WAKE_SECONDS", 1)
}

fn asleep(wake: u64, merge: bool) -> World {
    World::new(WorldSettings::new(20.0, merge).variable("TIDEGATE_IDLE_WAKE_SECONDS", wake))
}

/// `asleep`, with queues whose counts lag by up to `lag`.
fn asleep_with_lag(wake: u64, merge: bool, lag: Duration) -> World {
    let world = asleep(wake, merge);
    for url in world.queues.urls() {
        world
            .queues
            .reconfigure(&url, QueueSettings { depth_lag: lag, ..QueueSettings::default() });
    }
    world
}

/// Puts one mail on `queue`, and gives how long it took to SES, within three minutes.
async fn found_after(world: &World, queue: &str, id: &str) -> Duration {
    found_within(world, queue, id, Duration::from_mins(3)).await
}

/// `found_after`, within `most`.
async fn found_within(world: &World, queue: &str, id: &str, most: Duration) -> Duration {
    let put = world.universe.now();
    world.put(queue, &[ProducedMail::new(id)]).await;
    arrived_within(world, id, put, most).await
}

async fn arrived_after(world: &World, id: &str, put: Timestamp) -> Duration {
    arrived_within(world, id, put, Duration::from_mins(3)).await
}

async fn arrived_within(world: &World, id: &str, put: Timestamp, most: Duration) -> Duration {
    loop {
        let arrivals = world.ses.accepted();
        if let Some(arrival) = arrivals.iter().find(|arrival| arrival.id == id) {
            return arrival.at.saturating_since(put);
        }
        let waited = world.universe.now().saturating_since(put);
        assert!(waited < most, "{id} was not sent within {most:?}");
        tokio::time::sleep(MS(50)).await;
    }
}

fn ticks_within(world: &World, first: Window, windows: std::ops::Range<u64>) -> usize {
    let within = first.plus(windows.start)..first.plus(windows.end);
    let starts = world.poller_runs();
    starts.iter().filter(|start| within.contains(&start.tick.unwrap().window)).count()
}

#[tokio::test(start_paused = true)]
async fn an_idle_stack_ends_most_windows_at_once_and_looks_into_all_queues_by_long_polls() {
    for merge in MODES {
        let world = World::new(ticked(200.0, merge));
        world.faults.add(Rule::new(Fault::Slow(Latency::NONE)).on(Operation::Receive));
        let first = world.run(120).await;
        let idle = measure::span(first, 20..120);
        let strikes = world.faults.strikes();
        let receives = strikes.iter().filter(|strike| idle.contains(&strike.at)).count();
        // One look in five windows, of one receive a queue.
        let queues = if merge { 3 } else { 2 };
        assert!((19 * queues..=20 * queues).contains(&receives), "merge {merge}: {receives}");
        let reports = world.reports();
        let ended = reports.iter().filter(|report| report.end == End::Idle).count();
        assert!((90..=100).contains(&ended), "merge {merge}: {ended} ended at once");
        for start in world.poller_runs().iter() {
            let lasted = start.ended.saturating_since(start.at);
            // A campaign's several short polls (124 ms of pauses), the last one's long poll, and what is
            // told; once all are known to be empty, long polls only.
            let first_looks = start.at < idle.start;
            let most = match start.report().unwrap().end {
                End::Idle => MS(1),
                _ if first_looks => MS(1_030 + 124),
                _ => MS(1_030),
            };
            assert!(lasted <= most, "{start:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn connections_are_opened_before_mail_that_is_expected_and_not_again_until_a_pause() {
    for merge in MODES {
        let world = World::new(ticked(20.0, merge));
        world.fill("big", 600).await;
        world
            .play(120, async |first| {
                world.until(first, 10, MS(0)).await;
                let before = world.ses.warmed();
                assert!(before > 0, "merge {merge}");
                world.until(first, 28, MS(0)).await;
                assert_eq!(world.ses.warmed(), before, "merge {merge}: while mail is sent");
                world.until(first, 118, MS(0)).await;
                assert_eq!(world.ses.warmed(), before, "merge {merge}: while there is none");
            })
            .await;
        world.assert_clean();
    }
}

#[tokio::test(start_paused = true)]
async fn an_express_queue_is_asked_every_window_and_alone_tells_nothing() {
    for merge in MODES {
        let world = World::new(WorldSettings { express: true, ..ticked(200.0, merge) });
        world.faults.add(Rule::new(Fault::Slow(Latency::NONE)).on(Operation::Receive).at(EXPRESS));
        let told = async || world.ledger_now().await.counters["windows"];
        let first = world
            .play(80, async |first| {
                world.until(first, 20, MS(0)).await;
                let before = told().await;
                world.until(first, 60, MS(0)).await;
                let after = told().await;
                assert!((7..=9).contains(&(after - before)), "{before}, {after}");
                world.until(first, 61, MS(400)).await;
                let after = found_after(&world, EXPRESS, "express").await;
                assert!(after < MS(1_500), "merge {merge}: {after:?}");
            })
            .await;
        let idle = measure::span(first, 20..60);
        let strikes = world.faults.strikes();
        let receives = strikes.iter().filter(|strike| idle.contains(&strike.at)).count();
        assert!((39..=41).contains(&receives), "{receives}");
    }
}

#[tokio::test(start_paused = true)]
async fn mail_in_an_idle_stack_is_found_within_the_idle_windows_by_the_window_that_looks() {
    for merge in MODES {
        for most in [1_u64, 5, 9] {
            let world = World::new(ticked(20.0, merge).variable("TIDEGATE_IDLE_WINDOWS", most));
            world
                .play(180, async |first| {
                    for n in 0..8 {
                        world.until(first, 30 + 18 * n, MS(137 * n)).await;
                        let after = found_after(&world, "small", &format!("mail-{n}")).await;
                        let bound = SECS(most.max(2)) + LOOK_AND;
                        assert!(after <= bound, "merge {merge}, {most}: {after:?}");
                    }
                })
                .await;
            world.assert_clean();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_backlog_that_comes_to_an_idle_stack_is_sent_at_the_quota_from_the_window_that_finds_it()
{
    for merge in MODES {
        for wake in [1, 10] {
            let settings = WorldSettings::new(50.0, merge);
            let world = World::new(settings.variable("TIDEGATE_IDLE_WAKE_SECONDS", wake));
            let first = world
                .play(200, async |first| {
                    world.until(first, 150, MS(300)).await;
                    world.fill("big", 1_600).await;
                    world.fill("small", 180).await;
                })
                .await;
            world.assert_clean();
            let arrivals = world.ses.arrivals();
            let found = Window::containing(arrivals[0].at).saturating_since(first);
            assert!(found <= 150 + wake.max(5) + 1, "merge {merge}, {wake}: window {found}");
            // The window that finds it and the one after get on; then it is as ever.
            let used = measure::utilisation(&world, first, found + 2..found + 32, 30);
            assert!(used >= 0.975, "merge {merge}, {wake}: {used:.4}");
            let early = measure::sent(&arrivals, &measure::span(first, found..found + 2));
            assert!(early >= 50, "merge {merge}, {wake}: {early} in the first two windows");
        }
    }
}

/// A mail of the big campaign as it stands in the merge queue, of which no report tells.
fn merged(id: &str, now: Timestamp) -> Outgoing {
    let identity = Identity::from_body_id("big", id);
    let fifo = Fifo { group: group_id(&identity), deduplication: id.to_owned() };
    let attributes = Envelope::fresh("big", identity, now.into()).to_attributes();
    Outgoing {
        body: ProducedMail::new(id).body().into(),
        attributes,
        delay: Duration::ZERO,
        fifo: Some(fifo),
    }
}

#[tokio::test(start_paused = true)]
async fn a_reported_depth_that_is_wrong_hides_no_mail_and_does_not_keep_the_stack_awake() {
    for error in [3, 18, -30, -400] {
        let world = World::new(ticked(20.0, true));
        let mut report = LedgerReport::default();
        report.counters.insert("fed".into(), error);
        world.ledger.report(&report).await.unwrap();
        let first = world
            .play(200, async |first| {
                world.until(first, 120, MS(300)).await;
                // Nothing but a look into the merge queue finds it.
                world.put_raw(MERGE, &[merged("hidden", world.universe.now())]).await;
                let after = arrived_after(&world, "hidden", world.universe.now()).await;
                assert!(after <= SECS(5) + LOOK_AND, "off by {error}: {after:?}");
            })
            .await;
        world.assert_clean();
        let reports = world.reports();
        let rest = first.plus(80)..first.plus(120);
        let idle = reports.iter().filter(|r| rest.contains(&r.window) && r.end == End::Idle);
        assert!(idle.count() >= 30, "off by {error}: it never rests");
        let sums = world.ledger_now().await.counters;
        // The hidden mail itself was taken without having been fed.
        let depth = sums["fed"] - sums["taken"];
        assert!((-1..=0).contains(&depth), "off by {error}: {depth}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lone_message_on_queues_that_sample_is_found_by_the_look() {
    for merge in MODES {
        let world = World::new(ticked(20.0, merge));
        for url in world.queues.urls() {
            let sampling = QueueSettings { sampling: 0.2, ..QueueSettings::default() };
            world.queues.reconfigure(&url, sampling);
        }
        world
            .play(120, async |first| {
                for n in 0..4 {
                    world.until(first, 30 + 20 * n, MS(211 * n)).await;
                    let after = found_after(&world, "big", &format!("lone-{n}")).await;
                    assert!(after <= SECS(5) + LOOK_AND, "merge {merge}: {after:?}");
                }
            })
            .await;
        world.assert_clean();
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_stack_is_not_ticked_and_mail_is_found_once_sqs_counts_it() {
    for merge in MODES {
        for (wake, lag) in [(2, 0), (5, 0), (10, 0), (10, 60), (30, 0), (60, 0), (60, 60)] {
            let world = asleep_with_lag(wake, merge, SECS(lag));
            let first = world
                .play(960, async |first| {
                    for n in 0..5 {
                        world.until(first, 300 + 120 * n, MS(13_370 * n)).await;
                        let queue = if n % 2 == 0 { "big" } else { "small" };
                        let after = found_after(&world, queue, &format!("mail-{n}")).await;
                        // A check that sees an old count leaves the mail to the check after the lag.
                        let bound = SECS(wake + lag) + WAKE_AND;
                        assert!(after <= bound, "merge {merge}, wake {wake}, {lag}: {after:?}");
                    }
                })
                .await;
            world.assert_clean();
            assert_eq!(world.counted(Counter::WindowsMissed), 0, "merge {merge}");
            // From 45 windows and a run on, and until the first mail: at most one poller's check.
            let ticks = ticks_within(&world, first, 180..300);
            assert!(ticks <= 1, "merge {merge}, wake {wake}: {ticks} ticks");
            assert!(world.schedule_reports.borrow().iter().any(|run| run.idle_ticks > 25));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn mail_that_sqs_does_not_count_is_found_by_a_poller_within_five_minutes() {
    for merge in MODES {
        let world = asleep_with_lag(60, merge, SECS(86_400));
        world
            .play(1_500, async |first| {
                for n in 0..2 {
                    world.until(first, 300 + 500 * n, MS(13_370 * n)).await;
                    let after = found_within(&world, "big", &format!("mail-{n}"), SECS(400)).await;
                    assert!(after <= EXACT_AND + WAKE_AND, "merge {merge}: {after:?}");
                }
            })
            .await;
        world.assert_clean();
        assert_eq!(world.counted(Counter::WindowsMissed), 0, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_that_finds_the_stack_asleep_ends_at_once_and_writes_nothing() {
    let world = asleep(60, true);
    world
        .play(1_000, async |first| {
            world.until(first, 190, MS(0)).await;
            let version = world.ledger_now().await.control_version;
            for _ in 0..3 {
                let before = world.universe.now();
                world.schedule().await;
                let ran = world.universe.now().saturating_since(before);
                assert!(ran <= MS(500), "it ran for {ran:?}");
            }
            world.until(first, 490, MS(0)).await;
            let now = world.ledger_now().await.control_version;
            assert!(now <= version + 1, "{} writes in five minutes", now - version);
        })
        .await;
    // Of the runs, one in five has a poller check.
    let reports = world.schedule_reports.borrow();
    let asleep: Vec<_> = reports.iter().filter(|run| run.is_asleep()).collect();
    assert!(asleep.len() >= 13, "{reports:?}");
    let ticks: u64 = asleep.iter().map(|run| run.ticks).sum();
    assert!((2..=4).contains(&ticks), "{ticks}: {reports:?}");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_fails_wakes_the_stack() {
    let unreachable = || Fault::Before(FailureKind::Unreachable);
    let faults: [(&str, Operation, Fault<FailureKind>); 8] = [
        ("count fails", Operation::Depth, unreachable()),
        ("tick lost", Operation::Tick, Fault::Nothing),
        ("tick refused", Operation::Tick, unreachable()),
        ("claim fails", Operation::Claim, unreachable()),
        ("poller crashes as it looks", Operation::Receive, Fault::HangBefore),
        ("receives fail", Operation::Receive, unreachable()),
        ("report lost", Operation::Report, unreachable()),
        ("scheduler cannot read", Operation::Read, unreachable()),
    ];
    for merge in MODES {
        for (what, operation, fault) in faults.clone() {
            let world = asleep(60, merge);
            world
                .play(720, async |first| {
                    world.until(first, 250, MS(0)).await;
                    // From a check to the one of the next poller, and a little longer.
                    let newest = world.ledger_now().await.looks.empty.unwrap();
                    let until = newest.plus(EXACT + 62).opens();
                    let rule = Rule::new(fault.clone()).on(operation);
                    world.faults.add(rule.during(newest.plus(2).opens()..until));
                    world.universe.sleep_until(newest.plus(EXACT + 1).opens()).await;
                    let after = found_after(&world, "big", "late").await;
                    assert!(after <= SECS(62) + WAKE_AND, "merge {merge}, {what}: {after:?}");
                })
                .await;
            assert!(!world.faults.strikes().is_empty(), "{what} never struck");
            world.assert_clean();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_check_whose_tick_is_refused_the_next_window_has_one() {
    for merge in MODES {
        let world = asleep(60, merge);
        world
            .play(720, async |first| {
                world.until(first, 250, MS(0)).await;
                let refused = Rule::new(Fault::Before(FailureKind::Unreachable));
                world.faults.add(refused.on(Operation::Tick).nth(1));
            })
            .await;
        // A tick is sent in the second before its window.
        let refused = Window::containing(world.faults.strikes()[0].at).plus(1);
        let starts = world.poller_runs();
        let ticked: Vec<Window> = starts.iter().map(|start| start.tick.unwrap().window).collect();
        let before = ticked.iter().filter(|window| **window < refused).max().unwrap();
        assert!(before.plus(60) < refused, "merge {merge}: it did not sleep");
        let next = ticked.iter().filter(|window| **window > refused).min().unwrap();
        assert_eq!(*next, refused.plus(1), "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_who_invokes_the_scheduler_has_mail_sent_within_two_seconds() {
    for merge in MODES {
        // The counts lag: they would not tell it.
        let world = asleep_with_lag(60, merge, SECS(60));
        world
            .play(700, async |first| {
                for n in 0..4 {
                    world.until(first, 250 + 113 * n, MS(370 * n)).await;
                    let id = format!("mail-{n}");
                    let put = world.universe.now();
                    world.put("big", &[ProducedMail::new(&*id)]).await;
                    // Doubled: the second finds the first at it, or sends ticks that find their windows taken.
                    let wakes = async {
                        world.wake().await;
                        world.wake().await;
                    };
                    let (after, ()) = join(arrived_after(&world, &id, put), wakes).await;
                    assert!(after <= SECS(2), "merge {merge}: {after:?}");
                }
            })
            .await;
        world.assert_clean();
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_who_wakes_a_stack_that_is_awake_starts_no_second_run() {
    let world = asleep(60, true);
    world.fill("big", 3_000).await;
    world
        .play(100, async |first| {
            world.until(first, 70, MS(300)).await;
            let before = world.universe.now();
            world.wake().await;
            assert!(world.universe.now().saturating_since(before) <= MS(500));
        })
        .await;
    let reports = world.schedule_reports.borrow();
    assert!(reports.iter().any(|run| run.ticks == 0 && run.idle_ticks == 0), "{reports:?}");
}

#[tokio::test(start_paused = true)]
async fn doubled_schedulers_and_ticks_leave_no_window_longer_out() {
    for wake in [10, 60] {
        let world = asleep(wake, true);
        world.faults.add(Rule::new(Fault::Duplicate(Latency::NONE)).on(Operation::Tick));
        world
            .play(500, async |first| {
                world.until(first, 205, MS(130)).await;
                join(world.schedule(), async {
                    world.until(first, 219, MS(610)).await;
                    join(world.schedule(), async {
                        for n in 0..3 {
                            let after = found_after(&world, "big", &format!("mail-{n}")).await;
                            assert!(after <= SECS(wake) + WAKE_AND, "wake {wake}: {after:?}");
                            tokio::time::sleep(SECS(70)).await;
                        }
                    })
                    .await;
                })
                .await;
            })
            .await;
        world.assert_clean();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_with_mail_is_ticked_every_window_however_few_ticks_are_asked_for() {
    for merge in MODES {
        let world = asleep(60, merge);
        world.fill("big", 2_600).await;
        world.fill("small", 300).await;
        let first = world.run(135).await;
        world.assert_clean();
        let used = measure::utilisation(&world, first, 4..132, 30);
        assert!(used >= 0.975, "merge {merge}: {used:.4}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_becomes_visible_while_the_stack_sleeps_is_sent_within_the_wake_seconds() {
    for merge in MODES {
        let world = asleep(60, merge);
        world
            .play(1_500, async |first| {
                world.until(first, 2, MS(0)).await;
                world.put("big", &[ProducedMail::new("again")]).await;
                let rule = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
                world.mail_faults.add(rule.during(first.opens()..first.plus(200).opens()));
            })
            .await;
        assert_eq!((world.lost(), world.accepted().len()), (vec![], 1), "merge {merge}");
        // Each delay is waited for asleep: at most 900 s and a minute for the last.
        assert!(world.schedule_reports.borrow().iter().any(|run| run.idle_ticks >= 55));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_keeps_the_ticks_coming_and_what_waited_goes_as_it_is_lifted() {
    let world = asleep(60, true);
    world
        .play(400, async |first| {
            world.until(first, 190, MS(500)).await;
            let hold = Hold::new("", world.universe.now());
            world.control(|control| assert!(control.hold(None, HoldReason::Paused, hold))).await;
            world.put("big", &[ProducedMail::new("held")]).await;
            world.until(first, 320, MS(500)).await;
            assert!(world.ses.arrivals().is_empty());
            world.control(|control| assert!(control.lift(None, HoldReason::Paused))).await;
            let after = arrived_after(&world, "held", world.universe.now()).await;
            assert!(after <= SECS(2), "{after:?}");
        })
        .await;
    world.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn a_campaign_of_no_weight_keeps_nobody_awake() {
    let world = asleep(10, true);
    world.control(|control| assert_eq!(control.weights.insert("small".into(), 0), None)).await;
    world.run(250).await;
    let looks = world.ledger_now().await.looks;
    assert!(looks.empty.unwrap() > looks.found.unwrap().plus(STILL), "{looks:?}");
    assert!(world.schedule_reports.borrow().last().unwrap().idle_ticks > 40);
    assert_eq!(world.ses.arrivals().len(), 0);
}

/// Mail under a slow limit of `*` is delayed until shortly before its slot. If nobody is there then, it
/// misses the slot and is delayed for longer. Two mails that want the same slot delay each other by chance,
/// so several worlds are compared in all.
#[tokio::test(start_paused = true)]
async fn a_stack_does_not_sleep_while_mail_waits_for_a_slow_limit_though_no_counter_knows_of_it() {
    let sent_after = async |wake: u64, seed: u64| {
        let settings = WorldSettings::new(2.0, true).variable("TIDEGATE_LIMITS", "*=2/m");
        let settings = settings.variable("TIDEGATE_IDLE_WAKE_SECONDS", wake);
        let world = World::new(WorldSettings { seed, ..settings });
        world.put("big", &ProducedMail::several("slow", 8, 1)).await;
        let mut wrong = LedgerReport::default();
        wrong.counters.insert("domain_taken.1".into(), 20);
        let first = world
            .play(3_000, async |first| {
                world.until(first, 30, MS(0)).await;
                world.ledger.report(&wrong).await.unwrap();
            })
            .await;
        world.assert_clean();
        Window::containing(world.ses.accepted().last().unwrap().at).saturating_since(first)
    };
    let (mut asleep, mut awake) = (0, 0);
    for seed in 0..10 {
        asleep += sent_after(60, seed).await;
        awake += sent_after(1, seed).await;
    }
    assert!(
        asleep * 10 <= awake * 12,
        "{asleep} s in all where the stack may sleep, {awake} where not"
    );
}
