//! Cancelled mail: it is not sent wherever it waits, and what comes later is.

use std::time::Duration;

use tidegate_core::control::{CANCELLED, Cancel, Hold, HoldReason};
use tidegate_core::counters::Counter;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Operation, Rule, failures};
use tidegate_simulator::{DEAD_LETTERS, ProducedMail};
use tidegate_tests::simulation::{MERGE, World, WorldSettings, measure};

use crate::{MODES, MS};

/// Cancels a campaign's mail now, as an operator does.
async fn cancel(world: &World, campaign: &str, keep: bool) -> EpochMillis {
    let at = EpochMillis::from(world.universe.now());
    world
        .control(|control| control.cancel(campaign, Cancel { at, keep }, "by ada: wrong link"))
        .await;
    at
}

fn cancelled(world: &World) -> u64 {
    world.reports().iter().map(|report| report.count(Counter::Cancelled)).sum()
}

/// The mails that nobody sent and no queue has.
fn gone(world: &World) -> u64 {
    world.lost().len() as u64
}

#[tokio::test(start_paused = true)]
async fn cancelled_mail_is_not_sent_and_counted_and_what_comes_later_is_sent() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(50.0, merge));
        world.fill("big", 1_500).await;
        world.fill("small", 1_400).await;
        let first = world
            .play(70, async |first| {
                world.until(first, 10, MS(100)).await;
                cancel(&world, "big", false).await;
                world.until(first, 12, MS(0)).await;
                world.put("big", &ProducedMail::several("corrected", 100, 1)).await;
            })
            .await;
        let arrivals = world.ses.arrivals();
        // Window 11 was claimed after the cancel; the last mail of window 10 is on its way as it opens.
        let late = first.plus(11).opens() + MS(100);
        let old = arrivals.iter().filter(|sent| sent.id.starts_with("big-"));
        assert!(old.clone().all(|sent| sent.at < late), "merge {merge}: sent after the cancel");
        let sent = old.count() as u64;
        assert!((300..=600).contains(&sent), "merge {merge}: {sent} before the cancel");
        // All else was deleted and counted, and the corrected mails were sent, once each.
        assert_eq!(gone(&world), 1_500 - sent, "merge {merge}");
        assert_eq!(cancelled(&world), 1_500 - sent, "merge {merge}");
        let corrected = arrivals.iter().filter(|sent| sent.id.starts_with("corrected"));
        assert_eq!(corrected.count(), 100, "merge {merge}");
        assert_eq!(world.duplicates(), Vec::<String>::new());
        assert_eq!(world.contents("big").len() + world.contents(MERGE).len(), 0, "merge {merge}");
        // The other campaign got the slots, and the hold is gone.
        let used = measure::utilisation(&world, first, 4..38, 10);
        assert!(used >= 0.95, "merge {merge}: {used:.4}");
        let control = world.ledger_now().await.control;
        assert!(control.campaign_holds.is_empty() && control.cancels.len() == 1, "{control:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn mail_that_is_corrected_under_its_old_id_is_sent_within_the_five_minutes_of_a_copy() {
    let world = World::new(WorldSettings::new(50.0, true).campaigns(&[("big", 1)]));
    world.fill("big", 300).await;
    world
        .play(40, async |first| {
            world.until(first, 2, MS(500)).await;
            let merged = world.contents(MERGE).len();
            assert!(merged > 20, "{merged} on the merge queue");
            cancel(&world, "big", false).await;
            world.until(first, 6, MS(0)).await;
            let sent = world.accepted();
            let mails = ProducedMail::several("big", 300, 1);
            let rest: Vec<_> = mails.into_iter().filter(|m| !sent.contains_key(&m.id)).collect();
            assert!(rest.len() > 100, "{} were cancelled", rest.len());
            world.put("big", &rest).await;
        })
        .await;
    world.assert_clean();
    assert_eq!(world.accepted().len(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_paused_campaign_is_cancelled_while_nothing_else_waits_and_its_mail_is_kept() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(50.0, merge));
        world.fill("big", 2_000).await;
        world
            .play(90, async |first| {
                world.until(first, 3, MS(500)).await;
                world
                    .control(|control| {
                        let hold = Hold::new("", EpochMillis::new(0));
                        control.hold(Some("big"), HoldReason::Paused, hold);
                    })
                    .await;
                world.until(first, 20, MS(0)).await;
                cancel(&world, "big", true).await;
            })
            .await;
        world.assert_clean();
        let letters = world.dead_letters();
        let sent = world.accepted().len();
        assert_eq!(letters.len(), 2_000 - sent, "merge {merge}: {sent} sent");
        for letter in &letters {
            assert_eq!(letter.last_error.code.as_deref(), Some(CANCELLED));
            assert_eq!((&*letter.campaign, letter.attempts), ("big", 0));
        }
        let counted = usize::try_from(cancelled(&world)).unwrap();
        assert_eq!((counted, world.contents("big").len()), (letters.len(), 0));
        let control = world.ledger_now().await.control;
        assert_eq!(control.standing_holds(), 1, "the pause stays: {control:?}");
    }
}

/// The mail could not be received while its queue was cleared.
#[tokio::test(start_paused = true)]
async fn a_mail_that_waited_for_another_attempt_is_taken_out_when_it_comes_back() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(50.0, merge));
        world.put("big", &[ProducedMail::new("retried")]).await;
        world.fill("small", 200).await;
        let broken = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
        world.mail_faults.add(broken.at("big/retried"));
        world
            .play(200, async |first| {
                world.until(first, 2, MS(500)).await;
                world.mail_faults.clear();
                cancel(&world, "big", false).await;
                world.until(first, 10, MS(0)).await;
                assert!(world.ledger_now().await.control.campaign_holds.is_empty());
            })
            .await;
        assert!(!world.accepted().contains_key("retried"), "merge {merge}");
        assert_eq!((gone(&world), cancelled(&world)), (1, 1), "merge {merge}");
        assert_eq!(world.contents(DEAD_LETTERS).len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn express_mail_is_cancelled_by_its_name_and_later_express_mail_is_sent() {
    let world = World::new(WorldSettings { express: true, ..WorldSettings::new(20.0, true) });
    world.fill("express", 400).await;
    world.fill("small", 100).await;
    let first = world
        .play(60, async |first| {
            world.until(first, 4, MS(100)).await;
            cancel(&world, "express", false).await;
            world.until(first, 30, MS(0)).await;
            world.put("express", &[ProducedMail::new("code")]).await;
        })
        .await;
    let late = first.plus(5).opens() + MS(100);
    let arrivals = world.ses.arrivals();
    let express = |id: &str| id.starts_with("express-");
    assert!(!arrivals.iter().any(|sent| express(&sent.id) && sent.at > late));
    assert_eq!(cancelled(&world), gone(&world));
    assert!(cancelled(&world) > 250, "{} cancelled", cancelled(&world));
    let accepted = world.accepted();
    assert!(accepted.contains_key("code"));
    assert_eq!(accepted.keys().filter(|id| id.starts_with("small")).count(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_mails_are_taken_off_while_the_other_campaign_keeps_its_rate() {
    let world = World::new(WorldSettings::new(50.0, true));
    world.fill("big", 100_000).await;
    world.fill("small", 20_000).await;
    let first = world
        .play(360, async |first| {
            world.until(first, 5, MS(100)).await;
            cancel(&world, "big", false).await;
            world.until(first, 350, Duration::ZERO).await;
            assert!(world.ledger_now().await.control.campaign_holds.is_empty());
        })
        .await;
    assert_eq!(gone(&world), cancelled(&world));
    assert!(cancelled(&world) > 99_000);
    let used = measure::utilisation(&world, first, 8..350, 10);
    assert!(used >= 0.95, "{used:.4}");
}

/// Answers of SQS that got lost: no poller has the mail, and nobody can see it.
#[tokio::test(start_paused = true)]
async fn kept_mail_that_was_in_flight_is_taken_out_before_the_hold_ends_although_the_campaign_is_paused()
 {
    for merge in MODES {
        let world = World::new(WorldSettings::new(50.0, merge));
        world.fill("big", 1_000).await;
        let answer = Rule::new(Fault::After(FailureKind::TimedOut)).on(Operation::Receive);
        world
            .play(80, async |first| {
                world.until(first, 5, MS(0)).await;
                world.faults.add(answer.at("big").chance(0.5));
                world.until(first, 6, MS(0)).await;
                world.faults.clear();
                world
                    .control(|control| {
                        let hold = Hold::new("", EpochMillis::new(0));
                        control.hold(Some("big"), HoldReason::Paused, hold);
                    })
                    .await;
                cancel(&world, "big", true).await;
                let is_open = async || world.ledger_now().await.control.open_cancels().count() > 0;
                let mut waited = 0;
                while is_open().await {
                    waited += 1;
                    world.until(first, 6 + waited, MS(0)).await;
                }
                // `tidegate cancel --export` waits so long for what is being settled.
                world.until(first, 6 + waited + 11, MS(0)).await;
                let found = (world.dead_letters().len(), world.accepted().len());
                assert_eq!(found.0 + found.1, 1_000, "merge {merge}, after {waited} s: {found:?}");
            })
            .await;
        world.assert_clean();
    }
}
