//! Mail with a `not_before`: never early, in time, and each once, whatever fails on the way.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::control::Cancel;
use tidegate_core::counters::Counter;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Operation, Rule};
use tidegate_tests::simulation::mail::MailVariation as _;
use tidegate_tests::simulation::{ProducedMail, World, WorldSettings};

use super::MODES;

const MINUTE: u64 = 60;

fn settings(quota: f64, merge: bool) -> WorldSettings {
    WorldSettings::new(quota, merge).variable("TIDEGATE_STORE", "s3://tides/store")
}

/// Mails that are due so many milliseconds after the world's next window, `PREFIX-0` and so on.
fn due(world: &World, prefix: &str, after_millis: &[u64]) -> BTreeMap<ProducedId, ProducedMail> {
    let from = world.next_window().opens();
    let mail = |(n, after): (usize, &u64)| {
        let id = format!("{prefix}-{n}");
        let mail = ProducedMail::new(id.clone()).not_before(from + Duration::from_millis(*after));
        (id, mail)
    };
    after_millis.iter().enumerate().map(mail).collect()
}

type ProducedId = String;

async fn put(world: &World, campaign: &str, mails: &BTreeMap<ProducedId, ProducedMail>) {
    world.put(campaign, &mails.values().cloned().collect::<Vec<_>>()).await;
}

/// How late each mail was accepted; each was accepted once, and none early.
#[track_caller]
fn lateness(world: &World, mails: &BTreeMap<ProducedId, ProducedMail>) -> Vec<Duration> {
    assert_eq!(world.lost(), Vec::<String>::new(), "lost");
    assert_eq!(world.duplicates(), Vec::<String>::new(), "sent twice");
    let arrivals = world.ses.accepted();
    let at: BTreeMap<&str, Timestamp> =
        arrivals.iter().map(|arrival| (arrival.id.as_str(), arrival.at)).collect();
    let late = mails.iter().map(|(id, mail)| {
        let due = Timestamp::from(mail.not_before.unwrap());
        assert!(at.contains_key(id.as_str()), "{id} was not sent");
        let at = at[id.as_str()];
        assert!(at >= due, "{id} was sent {:?} early", due.saturating_since(at));
        at.saturating_since(due)
    });
    late.collect()
}

fn stored(world: &World) -> u64 {
    world.reports().iter().map(|report| report.count(Counter::Timed)).sum()
}

/// Some near, some beyond SQS's delay of 15 minutes, some on the minute, some a moment before it.
const TIMES: [u64; 9] =
    [5_500, 7_250, 59_999, 600_000, 901_000, 1_200_000, 1_260_000, 1_259_999, 3_733_300];

#[tokio::test(start_paused = true)]
async fn mail_leaves_within_two_seconds_of_its_time_also_from_a_stack_that_sleeps() {
    for merge in MODES {
        for wake in [1, 60] {
            let settings = settings(14.0, merge).variable("TIDEGATE_IDLE_WAKE_SECONDS", wake);
            let world = World::new(settings);
            let mails = due(&world, "mail", &TIMES);
            put(&world, "big", &mails).await;
            world.run(64 * MINUTE).await;
            let late = lateness(&world, &mails);
            let most = late.iter().max().unwrap();
            assert!(*most <= Duration::from_secs(2), "merge {merge}, wake {wake}: {late:?}");
            assert_eq!(stored(&world), 4, "the others are within SQS's delay");
            assert!(world.store.contents().is_empty());
        }
    }
}

/// Between two receives of a queue that was just found empty.
#[tokio::test(start_paused = true)]
async fn mail_that_is_due_within_a_second_waits_for_the_next_receives() {
    for merge in MODES {
        let world = World::new(settings(14.0, merge));
        let mails = due(&world, "mail", &[200, 500, 900]);
        put(&world, "big", &mails).await;
        world.run(MINUTE).await;
        let late = lateness(&world, &mails);
        assert!(late.iter().all(|late| *late <= Duration::from_secs(4)), "{late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn mail_for_one_time_is_sent_at_the_quota_from_that_time_on() {
    let world = World::new(settings(14.0, true));
    let mails = due(&world, "mail", &vec![1_800_000; 3_000]);
    put(&world, "big", &mails).await;
    world.run(35 * MINUTE).await;
    let late = lateness(&world, &mails);
    // 3,000 at 13.7 a second.
    let most = late.iter().max().unwrap();
    assert!(*most <= Duration::from_secs(225), "{most:?}");
    // Its campaign's queue never held more than three minutes of it.
    assert!(world.minute_reports.borrow().iter().all(|minute| {
        minute.refill.as_ref().is_none_or(|refill| refill.done.mails <= 14 * 180)
    }));
}

#[tokio::test(start_paused = true)]
async fn mail_at_many_times_of_a_day_keeps_each_of_them() {
    let world = World::new(settings(50.0, true));
    let times: Vec<u64> = (0..400).map(|n: u64| 1_000_000 + n * 7_919_000 % 7_200_000).collect();
    let mails = due(&world, "mail", &times);
    put(&world, "small", &mails).await;
    world.run(140 * MINUTE).await;
    let late = lateness(&world, &mails);
    let most = late.iter().max().unwrap();
    assert!(*most <= Duration::from_secs(2), "{most:?}");
}

/// Schedulers and pollers are killed, S3 fails and answers late.
#[tokio::test(start_paused = true)]
async fn whatever_fails_nothing_is_lost_and_nothing_is_early() {
    let faults = [
        Fault::HangBefore,
        Fault::HangAfter,
        Fault::Before(FailureKind::Unreachable),
        Fault::After(FailureKind::TimedOut),
    ];
    for fault in faults {
        for operation in
            [Operation::PutObject, Operation::GetObject, Operation::ReplaceObject, Operation::Send]
        {
            let settings = settings(14.0, true).variable("TIDEGATE_DEDUPLICATION", "resend");
            let world = World::new(settings);
            let times: Vec<u64> = (0..120).map(|n| 950_000 + n * 4_000).collect();
            let mails = due(&world, "mail", &times);
            put(&world, "big", &mails).await;
            world.faults.add(Rule::new(fault.clone()).on(operation).chance(0.3));
            world.run(20 * MINUTE).await;
            world.faults.clear();
            world.run(30 * MINUTE).await;
            lateness(&world, &mails);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_store_and_on_the_express_queue_mail_waits_by_delays() {
    for merge in MODES {
        let settings = WorldSettings { express: true, ..WorldSettings::new(14.0, merge) };
        let world = World::new(settings);
        let (mails, express) = (due(&world, "mail", &TIMES), due(&world, "express", &TIMES));
        put(&world, "big", &mails).await;
        put(&world, "express", &express).await;
        world.run(64 * MINUTE).await;
        let all = mails.into_iter().chain(express).collect();
        let late = lateness(&world, &all);
        assert!(late.iter().all(|late| *late <= Duration::from_secs(2)), "{late:?}");
    }
}

/// 3,000 would be a backlog of 219 s. While it is being stored it stands on a queue.
#[tokio::test(start_paused = true)]
async fn waiting_mail_makes_no_level() {
    let settings = settings(14.0, true).variable("TIDEGATE_BACK_PRESSURE_BUSY", "depth=1m,age=1m");
    let world = World::new(settings);
    let mails = due(&world, "mail", &vec![1_800_000; 3_000]);
    put(&world, "big", &mails).await;
    world.run(3 * MINUTE).await;
    let first = world.minute_reports.borrow().len();
    world.run(24 * MINUTE).await;
    let minutes = world.minute_reports.borrow();
    let backlogs: Vec<Option<u64>> =
        minutes[first..].iter().map(|m| m.back_pressure.unwrap().figures.backlog_mails).collect();
    assert!(backlogs.len() > 20 && backlogs.iter().all(|mails| *mails == Some(0)), "{backlogs:?}");
    assert_eq!(minutes.last().unwrap().back_pressure.unwrap().level, BackPressureLevel::Clear);
}

/// The cancel was long ago when the mail's time comes.
#[tokio::test(start_paused = true)]
async fn a_cancelled_mail_is_not_sent_at_its_time() {
    let world = World::new(settings(14.0, true));
    let day = 24 * 3_600_000;
    let mails = due(&world, "mail", &[1_800_000, 20 * day]);
    put(&world, "big", &mails).await;
    world.run(2 * MINUTE).await;
    let at = world.universe.now();
    let cancel = Cancel { at: at.into(), keep: false };
    world.control(|control| control.cancel("big", cancel, "test")).await;
    world.run(40 * MINUTE).await;
    let later = Window::containing(at + Duration::from_hours(24 * 20));
    world.universe.sleep_until(later.opens()).await;
    world.run(10 * MINUTE).await;
    assert_eq!(world.accepted().len(), 0);
    assert!(world.store.contents().is_empty() && world.unsent().is_empty());
}
