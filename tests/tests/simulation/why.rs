//! `why` names what the production poller does with a mail, in every state.

use std::time::Duration;

use tidegate_core::control::{Hold, HoldReason};
use tidegate_core::identity::Identity;
use tidegate_delivery::ports::{MarkRequest, Marks as _};
use tidegate_fakes::{Fault, Operation, Rule, failures};
use tidegate_operator::why::{Explanation, MailVerdict};
use tidegate_tests::simulation::{ProducedMail, World, WorldSettings};

use crate::MODES;
use crate::operator_site::why;

fn guarded(merge: bool) -> WorldSettings {
    WorldSettings::new(20.0, merge).variable("TIDEGATE_DEDUPLICATION", "park")
}

/// What the mail waits for, if it waits; whether it does is not known.
fn waits(answer: &Explanation) -> Option<MailVerdict> {
    assert_eq!((answer.verdict, answer.until), (MailVerdict::Unrecorded, None), "{answer:?}");
    answer.if_it_waits.as_ref().map(|wait| wait.verdict)
}

/// SES fails mails of this resource so.
fn fail(world: &World, failure: tidegate_core::outcome::Failure, at: &str) {
    world.mail_faults.add(Rule::new(Fault::Before(failure)).on(Operation::Mail).at(at));
}

#[tokio::test(start_paused = true)]
async fn what_is_paused_held_or_without_share_is_named() {
    for merge in MODES {
        let world = World::new(guarded(merge));
        let hold = Hold::new("typo", world.universe.now());
        world.control(|c| assert!(c.hold(Some("small"), HoldReason::Paused, hold))).await;
        world.fill("small", 3).await;
        world.run(5).await;
        assert_eq!(waits(&why(&world, Some("small"), "small-1").await), Some(MailVerdict::Paused));
        world.control(|c| assert!(c.lift(Some("small"), HoldReason::Paused))).await;
        world.run(20).await;
        assert_eq!(why(&world, Some("small"), "small-1").await.verdict, MailVerdict::Sent);

        let world = World::new(guarded(merge));
        fail(&world, failures::not_verified(), "small/");
        world.fill("small", 30).await;
        world.run(20).await;
        let held = why(&world, Some("small"), "small-29").await;
        assert_eq!(waits(&held), Some(MailVerdict::Held), "merge {merge}: {held:?}");
        let lets_go = &held.limits[0].lets_go;
        assert!(lets_go.contains("`tidegate lift refusals small --reason"), "{lets_go}");
        assert!(lets_go.contains("a mail that is accepted"), "{lets_go}");

        let world = World::new(guarded(merge));
        world.control(|control| control.weights = [("small".to_owned(), 0)].into()).await;
        world.fill("big", 100).await;
        world.fill("small", 3).await;
        world.run(10).await;
        assert_eq!(waits(&why(&world, Some("small"), "small-1").await), Some(MailVerdict::NoShare));
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_a_day_used_up_and_a_scheduler_that_does_not_run_are_named() {
    for merge in MODES {
        let world = World::new(guarded(merge));
        fail(&world, failures::server_error(), "big/");
        world.fill("big", 3_000).await;
        world.run(75).await;
        let breaker = why(&world, Some("big"), "big-2999").await;
        assert_eq!(waits(&breaker), Some(MailVerdict::Breaker), "merge {merge}: {breaker:?}");

        let world = World::new(WorldSettings { daily_quota: Some(400), ..guarded(merge) });
        world.fill("big", 1_000).await;
        world.run(60).await;
        let accepted = world.accepted();
        let left = world.enqueued().into_iter().find(|id| !accepted.contains_key(id)).unwrap();
        let day = why(&world, Some("big"), &left).await;
        assert_eq!(waits(&day), Some(MailVerdict::DailyQuota), "merge {merge}: {day:?}");

        let world = World::new(guarded(merge));
        world.run(5).await;
        world.fill("big", 10).await;
        // While a stack sleeps, a poller looks every five minutes.
        tokio::time::sleep(Duration::from_mins(7)).await;
        assert_eq!(waits(&why(&world, Some("big"), "big-1").await), Some(MailVerdict::NotServed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_to_be_retried_one_given_up_and_one_of_which_nobody_knows_are_named() {
    for merge in MODES {
        let world = World::new(guarded(merge));
        fail(&world, failures::server_error(), "big/retried");
        world.put("big", &[ProducedMail::new("retried")]).await;
        world.run(6).await;
        let retried = why(&world, Some("big"), "retried").await;
        assert_eq!(waits(&retried), Some(MailVerdict::Retry), "merge {merge}: {retried:?}");
        // And it is right about when.
        world.mail_faults.clear();
        let until = retried.if_it_waits.unwrap().until.unwrap();
        world.run(70).await;
        assert!(world.accepted().contains_key("retried"));
        assert!(world.ses.accepted()[0].at <= until.into());

        fail(&world, failures::rejected(), "big/refused");
        world.put("big", &[ProducedMail::new("refused")]).await;
        world.run(20).await;
        let dead = why(&world, None, "refused").await;
        assert_eq!(dead.verdict, MailVerdict::Dead);
        assert!(dead.summary.contains("MessageRejected"), "{}", dead.summary);

        let parked = MarkRequest {
            identity: Identity::from_body_id("big", "parked"),
            token: "of a poller that crashed".to_owned(),
            pass: 0,
            now: world.universe.now().saturating_sub(Duration::from_mins(1)),
            kept: Duration::from_hours(24),
            replaces: None,
        };
        drop(world.ledger.mark(&parked).await);
        assert_eq!(why(&world, None, "parked").await.verdict, MailVerdict::Unknown);
        world.put("big", &[ProducedMail::new("parked")]).await;
        world.run(20).await;
        let dead = why(&world, None, "parked").await;
        assert_eq!(dead.verdict, MailVerdict::Dead);
        assert!(dead.summary.contains("unknown"), "{}", dead.summary);
        assert_eq!(why(&world, Some("big"), "never").await.verdict, MailVerdict::Nowhere);
    }
}

/// The bound is a bound: the last mail of the campaign is sent by then, however much the other has.
#[tokio::test(start_paused = true)]
async fn a_mail_that_waits_for_its_turn_is_sent_by_the_time_that_is_told() {
    for merge in MODES {
        let world = World::new(guarded(merge));
        world.fill("big", 3_000).await;
        world.fill("small", 150).await;
        world.run(5).await;
        let waiting = why(&world, Some("small"), "small-149").await;
        assert_eq!(waits(&waiting), Some(MailVerdict::Waiting), "merge {merge}: {waiting:?}");
        let until = waiting.if_it_waits.unwrap().until.unwrap();
        world.run(130).await;
        let accepted = world.ses.accepted();
        let small: Vec<_> = accepted.iter().filter(|mail| mail.campaign == "small").collect();
        assert_eq!(small.len(), 150, "merge {merge}");
        let last = small.iter().map(|mail| mail.at).max().unwrap();
        assert!(last <= until.into(), "merge {merge}: the last at {last:?}, told {until}");
        // Nor is it idle talk: not three times what it took.
        let took = last.saturating_since(accepted[0].at);
        let told = tidegate_core::Timestamp::from(until).saturating_since(accepted[0].at);
        assert!(told <= 3 * took, "merge {merge}: told {told:?}, took {took:?}");
        assert_eq!(why(&world, Some("small"), "small-149").await.verdict, MailVerdict::Sent);
    }
}

#[tokio::test(start_paused = true)]
async fn without_deduplication_what_is_not_there_was_sent_or_never_came_and_that_is_said() {
    let world = World::new(WorldSettings::new(20.0, true));
    world.fill("big", 5).await;
    world.run(5).await;
    let gone = why(&world, Some("big"), "big-1").await;
    assert_eq!(gone.verdict, MailVerdict::Nowhere);
    assert!(gone.not_known.iter().any(|text| text.contains("deduplication is off")));
}
