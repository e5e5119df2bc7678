//! A poller that dies anywhere: nothing is lost, and only what SES had already taken is sent twice.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tidegate_fakes::{Counting, Fault, Operation, Rule, failures};
use tidegate_tests::simulation::{EXPRESS, ProducedMail, World, WorldSettings};

use crate::{MODES, MS};

/// Two campaigns and express, a few mails each, and one that is no mail; small enough for two
/// windows.
async fn small_world(merge: bool) -> World {
    let settings = WorldSettings { express: true, ..WorldSettings::new(10.0, merge) };
    let world = World::new(WorldSettings { counting: Counting::Bucket, ..settings });
    world.fill("big", 6).await;
    world.fill("small", 2).await;
    world.put(EXPRESS, &[ProducedMail::new("express")]).await;
    let bad = tidegate_tests::simulation::mail::produced(r#"{"id": "bad"}"#.to_owned());
    world.put_raw("big", &[bad]).await;
    world
}

const MAILS: usize = 9;

/// What the crash left must be made good by other pollers within the visibility timeout and some
/// windows. Gives how many mails SES had taken before the crash and was given again.
async fn recovers(world: &World, case: &str) -> usize {
    let taken_before = world.accepted();
    world.faults.clear();
    world.mail_faults.clear();
    // What becomes visible late in a window does not all fit into it: twice and thrice 30 s.
    for _ in 0..4 {
        if world.accepted().len() < MAILS || !world.is_drained() {
            world.run(34).await;
        }
    }
    assert_eq!(world.lost(), Vec::<String>::new(), "{case}: lost");
    assert_eq!(world.accepted().len(), MAILS, "{case}: not all sent");
    assert!(world.is_drained(), "{case}: some queue holds mail for ever");
    let twice = world.duplicates();
    for id in &twice {
        assert!(taken_before.contains_key(id), "{case}: {id} is sent twice without need");
    }
    let dead = world.dead_letters();
    assert!(!dead.is_empty() && dead.iter().all(|d| d.message.contains("bad")), "{case}: {dead:?}");
    assert!(dead.len() <= 2, "{case}: {} dead letters of one body", dead.len());
    twice.len()
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_call_before_or_after_it_loses_nothing() {
    let operations = [
        Operation::Receive,
        Operation::Send,
        Operation::Delete,
        Operation::SetVisibility,
        Operation::Depth,
        Operation::Claim,
        Operation::Report,
        Operation::Account,
    ];
    for merge in MODES {
        let (mut crashes, mut twice) = (0, 0);
        for operation in operations {
            for fault in [Fault::HangBefore, Fault::HangAfter] {
                for nth in 1.. {
                    let world = small_world(merge).await;
                    world.faults.add(Rule::new(fault.clone()).on(operation).nth(nth));
                    if !world.crash_where_it_hangs(false).await {
                        break;
                    }
                    crashes += 1;
                    let case = format!("merge {merge}, {fault:?} of {operation:?} number {nth}");
                    twice += recovers(&world, &case).await;
                }
            }
        }
        assert!(crashes >= 20, "merge {merge}: {crashes} crashes only");
        assert!(twice > 0, "no crash between SES's answer and the delete");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_mail_before_or_after_ses_took_it_loses_nothing() {
    for merge in MODES {
        let mut crashes = 0;
        for fault in [Fault::HangBefore, Fault::HangAfter] {
            for nth in 1.. {
                let world = small_world(merge).await;
                world.mail_faults.add(Rule::new(fault.clone()).on(Operation::Mail).nth(nth));
                if !world.crash_where_it_hangs(true).await {
                    break;
                }
                crashes += 1;
                recovers(&world, &format!("merge {merge}, {fault:?} of mail number {nth}")).await;
            }
        }
        assert!(crashes >= 2 * MAILS - 2, "merge {merge}: {crashes} crashes only");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_change_of_the_ledger_loses_nothing_and_holds_nothing_for_ever() {
    let operations =
        [Operation::SetControl, Operation::SetFactor, Operation::Read, Operation::Advance];
    for merge in MODES {
        for operation in operations {
            let mut crashes = 0;
            for fault in [Fault::HangBefore, Fault::HangAfter] {
                for nth in 1..4 {
                    let world = small_world(merge).await;
                    // A permanent refusal, one for the rate or a hold; a mail of many.
                    let once = |failure| Rule::new(Fault::Before(failure)).on(Operation::Mail);
                    world.mail_faults.add(once(failures::rejected()).nth(1));
                    if operation == Operation::SetFactor {
                        world.mail_faults.add(once(failures::rate_exceeded()).nth(4));
                    } else {
                        world.mail_faults.add(once(failures::sending_paused()).nth(2));
                    }
                    if operation == Operation::Advance {
                        let large = ProducedMail { recipients: 30, ..ProducedMail::new("large") };
                        world.put(EXPRESS, &[large]).await;
                    }
                    world.faults.add(Rule::new(fault.clone()).on(operation).nth(nth));
                    if !world.crash_where_it_hangs(false).await {
                        break;
                    }
                    crashes += 1;
                    let case = format!("merge {merge}, {fault:?} of {operation:?} number {nth}");
                    world.faults.clear();
                    world.mail_faults.clear();
                    world.run(170).await;
                    assert_eq!(world.lost(), Vec::<String>::new(), "{case}: lost");
                    assert!(world.is_drained(), "{case}: some queue holds mail for ever");
                    assert!(world.ledger_now().await.control.holds.is_empty(), "{case}");
                }
            }
            assert!(crashes >= 2, "merge {merge}: {crashes} crashes at {operation:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_await_point_loses_nothing() {
    for merge in MODES {
        let mut at = 0;
        loop {
            let world = small_world(merge).await;
            let window = world.next_lead().await;
            let ended = {
                let mut serving = pin!(world.serve(Some(world.tick(window))));
                let mut polls = 0;
                poll_fn(|cx| {
                    if polls == at {
                        return Poll::Ready(false);
                    }
                    polls += 1;
                    serving.as_mut().poll(cx).map(|()| true)
                })
                .await
            };
            if ended {
                break;
            }
            world.forget_environments();
            recovers(&world, &format!("merge {merge}, dropped after {at} polls")).await;
            at += 1;
        }
        assert!(at > 40, "merge {merge}: {at} polls only");
    }
}

#[tokio::test(start_paused = true)]
async fn pollers_killed_in_mid_window_again_and_again_lose_nothing() {
    for merge in MODES {
        let world = World::new(WorldSettings {
            counting: Counting::Bucket,
            ..WorldSettings::new(50.0, merge)
        });
        world.fill("big", 900).await;
        world.fill("small", 90).await;
        world
            .play(120, async |first| {
                for number in 2..12 {
                    world.until(first, number, MS(100 + 83 * number)).await;
                    world.crash();
                }
            })
            .await;
        assert_eq!(world.lost(), Vec::<String>::new());
        assert_eq!(world.accepted().len(), 990, "merge {merge}");
        // Per crash at most what was sent and not yet deleted.
        let twice = world.duplicates().len();
        assert!(twice <= 10 * 50, "merge {merge}: {twice} sent twice");
        let worst = tidegate_tests::simulation::measure::worst_second(&world.ses.arrivals());
        assert!(worst <= 50, "merge {merge}: {worst} in one second");
    }
}
