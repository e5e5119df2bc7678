//! Refusals in a row: the fault is in the campaign, so the campaign is held, until one of its mails is accepted.

use tidegate_core::control::HoldReason;
use tidegate_core::counters::Counter;
use tidegate_core::outcome::Failure;
use tidegate_fakes::{Fault, Latency, Operation, Rule, failures};
use tidegate_tests::simulation::mail::produced;
use tidegate_tests::simulation::{EXPRESS, ProducedMail, World, WorldSettings};

use crate::{MODES, MS};

fn refused(code: &str) -> Fault<Failure> {
    Fault::Before(Failure { code: Some(code.to_owned()), ..failures::rejected() })
}

#[tokio::test(start_paused = true)]
async fn ten_permanent_refusals_in_a_row_hold_the_campaign_and_no_other() {
    for merge in MODES {
        for quota in [1.0, 50.0] {
            let world =
                World::new(WorldSettings::new(quota, merge).campaigns(&[("big", 1), ("small", 1)]));
            world.fill("big", 100).await;
            world.fill("small", 100).await;
            let bad = Rule::new(refused("MessageRejected")).on(Operation::Mail);
            world.mail_faults.add(bad.at("small/"));
            world.run(if quota < 2.0 { 130 } else { 28 }).await;
            world.assert_nothing_lost();
            let control = world.ledger_now().await.control;
            let hold = control.campaign_holds["small"].get(HoldReason::Refusals).unwrap();
            let said = &hold.detail;
            assert!(said.starts_with("10 in a row refused: MessageRejected: "), "{said}");
            assert!(
                said.contains("to small-") && said.contains("@example.com; ids small-"),
                "{said}"
            );
            assert!(!control.holds_campaign("big") && control.holds.is_empty());
            // The ten; at the higher rate also what the window had in flight, and the next one's ten.
            let dead = world.dead_letters().len();
            assert!((10..=26).contains(&dead), "merge {merge}, {quota}/s: {dead} dead letters");
            assert_eq!(world.contents("small").len(), 100 - dead, "merge {merge}, {quota}/s");
            assert_eq!(world.accepted().len(), 100, "merge {merge}, {quota}/s");
            // Once it is mended a mail of it is accepted within a minute, and the rest is sent.
            world.mail_faults.clear();
            world.run(60).await;
            let control = world.ledger_now().await.control;
            assert!(!control.holds_campaign("small"), "merge {merge}, {quota}/s");
            world.run(if quota < 2.0 { 110 } else { 10 }).await;
            assert_eq!(world.accepted().len(), 200 - dead, "merge {merge}, {quota}/s");
            assert_eq!(world.duplicates(), Vec::<String>::new());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_that_are_not_in_a_row_or_of_several_codes_hold_nothing() {
    // The code of the send of this number, of which none is an acceptance.
    let broken_by_acceptances =
        |number: u64| (!number.is_multiple_of(6)).then_some("MessageRejected");
    let of_two_codes =
        |number: u64| Some(if number % 6 < 3 { "MessageRejected" } else { "BadRequestException" });
    for merge in MODES {
        let cases: [&dyn Fn(u64) -> Option<&'static str>; 2] =
            [&broken_by_acceptances, &of_two_codes];
        for (case, code_of) in cases.into_iter().enumerate() {
            let world = World::new(WorldSettings::new(20.0, merge).campaigns(&[("news", 1)]));
            world.fill("news", 120).await;
            for number in 1..=120 {
                if let Some(code) = code_of(number) {
                    let rule = Rule::new(refused(code)).on(Operation::Mail);
                    world.mail_faults.add(rule.nth(number));
                }
            }
            world.run(20).await;
            world.assert_nothing_lost();
            let control = world.ledger_now().await.control;
            assert!(control.campaign_holds.is_empty(), "merge {merge}, case {case}: {control:?}");
            let dead = world.dead_letters().len();
            assert_eq!(
                (dead, world.accepted().len()),
                if case == 0 { (100, 20) } else { (120, 0) }
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn express_mail_is_held_apart_from_the_campaigns() {
    for merge in MODES {
        let world = World::new(WorldSettings { express: true, ..WorldSettings::new(20.0, merge) });
        world.fill("big", 100).await;
        world.put(EXPRESS, &ProducedMail::several("express", 40, 1)).await;
        let unverified = Rule::new(Fault::Before(failures::not_verified())).on(Operation::Mail);
        world.mail_faults.add(unverified.at("express/"));
        world.run(40).await;
        world.assert_nothing_lost();
        let control = world.ledger_now().await.control;
        let hold = control.campaign_holds[EXPRESS].get(HoldReason::Refusals).unwrap();
        assert!(hold.detail.contains("ids express-"), "{}", hold.detail);
        assert_eq!(world.accepted().len(), 100, "merge {merge}: campaigns go on");
        let tried: u64 = world
            .reports()
            .iter()
            .filter_map(|r| r.counts.by(Counter::Failed).get("not_ready"))
            .sum();
        assert!((10..=24).contains(&tried), "merge {merge}: {tried} tried");
        world.mail_faults.clear();
        world.run(60).await;
        assert_eq!(world.ledger_now().await.control.standing_holds(), 0, "merge {merge}");
        // Those that were tried come back after a minute.
        world.run(60).await;
        assert_eq!(world.accepted().len(), 140, "merge {merge}");
        assert!(world.dead_letters().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_a_held_campaign_is_one_mail_in_thirty_seconds_and_no_attempt() {
    for merge in MODES {
        let settings = WorldSettings { express: true, ..WorldSettings::new(20.0, merge) };
        let world = World::new(settings.variable("TIDEGATE_MAX_ATTEMPTS", 2));
        world.fill("small", 100).await;
        world.put(EXPRESS, &ProducedMail::several("express", 60, 1)).await;
        for campaign in ["small/", "express/"] {
            let bad = Rule::new(Fault::Before(failures::template_missing())).on(Operation::Mail);
            world.mail_faults.add(bad.at(campaign));
        }
        world.run(10).await;
        let before = world.mail_faults.strikes().len();
        world.run(300).await;
        let tried = world.mail_faults.strikes().len() - before;
        assert!((18..=20).contains(&tried), "merge {merge}: {tried} probes of two in five minutes");
        assert_eq!(world.dead_letters().len(), 0, "merge {merge}");
        world.mail_faults.clear();
        // What is put back by a probe waits up to 15 minutes.
        world.run(900).await;
        world.assert_clean();
        assert_eq!(world.accepted().len(), 160, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_is_tried_again_and_again_holds_nothing() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge).campaigns(&[("news", 1)]));
        for number in 0..9 {
            let address = format!("news-{number}.0@example.com");
            world.ses.refuse_address(&address, failures::template_missing());
        }
        world.fill("news", 9).await;
        world.run(60 * 20).await;
        let control = world.ledger_now().await.control;
        assert!(!control.holds_campaign("news"), "merge {merge}: {control:?}");
        assert_eq!(world.dead_letters().len(), 9, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_producer_that_is_wrong_as_a_whole_does_not_empty_its_queue_into_the_dead_letters() {
    let notification = |number: usize| {
        format!(
            r#"{{"Type": "Notification", "MessageId": "{number}", "TopicArn": "arn:aws:sns:eu-west-1:1:mails", "Message": "{{}}"}}"#
        )
    };
    for merge in MODES {
        for queue in ["small", EXPRESS] {
            let settings = WorldSettings { express: true, ..WorldSettings::new(14.0, merge) };
            let world = World::new(settings);
            let wrong: Vec<_> = (0..300).map(|number| produced(notification(number))).collect();
            world.put_raw(queue, &wrong).await;
            world.fill("big", 100).await;
            world.run(20).await;
            let control = world.ledger_now().await.control;
            let hold = control.campaign_holds[queue].get(HoldReason::Refusals).unwrap();
            assert!(hold.detail.contains("25 in a row invalid"), "{}", hold.detail);
            assert!(hold.detail.contains("an SNS notification: turn on raw message delivery"));
            let dead = world.dead_letters().len();
            assert!((25..=75).contains(&dead), "merge {merge}, {queue}: {dead}");
            assert_eq!(world.contents(queue).len(), 300 - dead, "merge {merge}, {queue}");
            assert_eq!(world.accepted().len(), 100, "merge {merge}, {queue}: others go on");
            // Once the producer is put right, a probe finds its mail behind the others, which stay.
            world.put(queue, &ProducedMail::several("right", 50, 1)).await;
            world.run(240).await;
            assert_eq!(world.accepted().len(), 150, "merge {merge}, {queue}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_messages_among_valid_ones_hold_nothing() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(14.0, merge).campaigns(&[("news", 1)]));
        for number in 0..20 {
            let wrong: Vec<_> = (0..5).map(|_| produced("{".to_owned())).collect();
            world.put_raw("news", &wrong).await;
            world.put("news", &[ProducedMail::new(format!("right-{number}"))]).await;
        }
        world.run(60).await;
        assert_eq!((world.dead_letters().len(), world.accepted().len()), (100, 20));
        assert_eq!(world.ledger_now().await.control.standing_holds(), 0, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn once_its_hold_is_lifted_a_campaigns_refusals_count_anew() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(2.0, merge).campaigns(&[("news", 1)]));
        world.fill("news", 10).await;
        world.mail_faults.add(Rule::new(refused("MessageRejected")).on(Operation::Mail));
        world.run(20).await;
        world.control(|control| assert!(control.lift(Some("news"), HoldReason::Refusals))).await;
        world.put("news", &ProducedMail::several("again", 8, 1)).await;
        // A campaign found empty is asked for ten at once: what gets no slot comes back in 30 s.
        world.run(150).await;
        let control = world.ledger_now().await.control;
        assert!(!control.holds_campaign("news"), "merge {merge}: {control:?}");
        assert_eq!(world.dead_letters().len(), 18, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_is_accepted_ends_the_refusals_of_the_windows_before() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(2.0, merge).campaigns(&[("news", 1)]));
        let bad = Rule::new(refused("MessageRejected")).on(Operation::Mail);
        world.mail_faults.add(bad.at("news/bad"));
        for (name, count) in [("bad-a", 9), ("good", 1), ("bad-b", 9)] {
            world.put("news", &ProducedMail::several(name, count, 1)).await;
            // A minute until the sleeping stack looks, and half of one for each time that mail gets no slot.
            world.run(210).await;
        }
        let control = world.ledger_now().await.control;
        assert!(!control.holds_campaign("news"), "merge {merge}: {control:?}");
        assert_eq!((world.dead_letters().len(), world.accepted().len()), (18, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_after_the_ten_that_held_the_campaign_counts_for_nothing() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(50.0, merge).campaigns(&[("news", 1)]));
        world.fill("news", 40).await;
        world.mail_faults.add(Rule::new(refused("MessageRejected")).on(Operation::Mail));
        let slow = Latency::between(MS(80), MS(81));
        world.mail_faults.add(Rule::new(Fault::Slow(slow)).on(Operation::Mail));
        world.run(1).await;
        let control = world.ledger_now().await.control;
        assert!(control.holds_campaign("news") && control.refusals.is_empty(), "{control:?}");
        // Those in flight as the tenth was refused, and no more.
        let dead = world.dead_letters().len();
        assert!((11..=16).contains(&dead), "merge {merge}: {dead}");
    }
}
