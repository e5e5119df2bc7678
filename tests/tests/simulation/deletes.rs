//! Deletes that fail: they are tried again while the poller lives, since what SES took and what stands in
//! its queue is sent twice.

use tidegate_core::config::SETTLED;
use tidegate_core::counters::Counter;
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Counting, Fault, Operation, Rule, failures};
use tidegate_tests::simulation::{EXPRESS, PollerEnd, ProducedMail, World, WorldSettings};

use crate::{MODES, MS};

/// 720 mails of two campaigns, express and a limited domain. Some fail once and go back, one is refused
/// for good: so there are deletes after moves, too.
async fn mixed(merge: bool) -> World {
    let settings = WorldSettings { express: true, ..WorldSettings::new(20.0, merge) };
    let world = World::new(settings.variable("TIDEGATE_LIMITS", "gmail.com=4/s"));
    let mut big = ProducedMail::several("big", 600, 1);
    big.iter_mut().step_by(10).for_each(|mail| "gmail.com".clone_into(&mut mail.domain));
    world.put("big", &big).await;
    world.fill("small", 60).await;
    world.put(EXPRESS, &ProducedMail::several("express", 60, 1)).await;
    for id in ["big/big-1", "big/big-10", "small/small-2", "express/express-3"] {
        let broken = Rule::new(Fault::Before(failures::server_error()));
        world.mail_faults.add(broken.on(Operation::Mail).at(id).nth(1));
    }
    let rejected = Rule::new(Fault::Before(failures::rejected()));
    world.mail_faults.add(rejected.on(Operation::Mail).at("big/big-599"));
    world
}

fn deletes(fault: Fault<FailureKind>) -> Rule<FailureKind> {
    Rule::new(fault).on(Operation::Delete)
}

fn sum(world: &World, of: impl Fn(&tidegate_delivery::poll::WindowReport) -> u64) -> u64 {
    world.reports().iter().map(of).sum()
}

/// Regression: of 720 mails 39 were sent twice.
#[tokio::test(start_paused = true)]
async fn with_one_delete_in_twenty_failing_no_mail_is_sent_twice() {
    for merge in MODES {
        for fault in [Fault::RefuseEntries(0.05), Fault::LoseEntries(0.05)] {
            let world = mixed(merge).await;
            world.faults.add(deletes(fault));
            world.run(200).await;
            world.assert_clean();
            assert_eq!((world.accepted().len(), world.dead_letters().len()), (719, 1));
            assert_eq!(
                sum(&world, |report| report.count(Counter::DeleteFailed)),
                0,
                "merge {merge}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_deletes_that_fails_for_seconds_is_made_good_by_the_same_poller() {
    for merge in MODES {
        for kind in [FailureKind::TimedOut, FailureKind::Refused("ServiceUnavailable".to_owned())] {
            let world = mixed(merge).await;
            let failed = deletes(Fault::Before(kind));
            world
                .play(200, async |first| {
                    let span = first.plus(5).opens()..first.plus(11).opens();
                    world.faults.add(failed.during(span));
                })
                .await;
            assert!(world.faults.strikes().len() > 20, "merge {merge}");
            world.assert_clean();
            assert_eq!((world.accepted().len(), world.dead_letters().len()), (719, 1));
        }
    }
}

/// A mail is sent twice only where its delete failed to the last.
#[tokio::test(start_paused = true)]
async fn a_delete_is_not_tried_for_longer_than_its_poller_lives() {
    for merge in MODES {
        let settings =
            WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(20.0, merge) };
        let world = World::new(settings.campaigns(&[("news", 1)]));
        world.fill("news", 100).await;
        let failed = deletes(Fault::Before(FailureKind::Unreachable));
        world
            .play(150, async |first| {
                world.faults.add(failed.during(first.opens()..first.plus(20).opens()));
            })
            .await;
        world.assert_nothing_lost();
        assert!(world.is_drained(), "merge {merge}");
        let gave_up = sum(&world, |report| report.count(Counter::DeleteFailed));
        let twice = world.duplicates().len() as u64;
        assert!(gave_up > 0 && twice <= gave_up, "{twice} twice, {gave_up} deletes failed");
        for start in world.poller_runs().iter() {
            assert!(!matches!(start.end, PollerEnd::Crashed), "killed at its time-out");
            let Some(report) = start.report() else { continue };
            let settled = start.ended.saturating_since(report.window.closes());
            assert!(settled < SETTLED, "merge {merge}: settled {settled:?} after the window");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_cannot_succeed_is_not_tried_again() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge).campaigns(&[("news", 1)]));
        world.fill("news", 10).await;
        let denied = FailureKind::Denied("AccessDenied".to_owned());
        world.faults.add(deletes(Fault::Before(denied)));
        world.run(5).await;
        let batches = if merge { 1..=6 } else { 1..=2 };
        let tries = world.faults.strikes().len();
        assert!(batches.contains(&tries), "merge {merge}: {tries} calls");
        for start in world.poller_runs().iter() {
            assert!(start.ended.saturating_since(start.at) < MS(3_000));
        }
    }
}
