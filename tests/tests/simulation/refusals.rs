//! Permanent refusals in a row: the fault is in the campaign, so the campaign is held.

use tidegate_core::control::HoldReason;
use tidegate_core::counters::Counter;
use tidegate_core::outcome::Failure;
use tidegate_fakes::{Fault, Latency, Operation, Rule, failures};
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
            world.run(if quota < 2.0 { 130 } else { 60 }).await;
            world.assert_nothing_lost();
            let control = world.ledger_now().await.control;
            let hold = control.campaign_holds["small"].get(HoldReason::Refusals).unwrap();
            assert!(hold.detail.starts_with("10 permanent refusals in a row: MessageRejected"));
            assert!(!control.holds_campaign("big") && control.holds.is_empty());
            // The ten; at the higher rate also what the window had in flight, and the next one's ten.
            let dead = world.dead_letters().len();
            assert!((10..=26).contains(&dead), "merge {merge}, {quota}/s: {dead} dead letters");
            assert_eq!(world.contents("small").len(), 100 - dead, "merge {merge}, {quota}/s");
            assert_eq!(world.accepted().len(), 100, "merge {merge}, {quota}/s");
            // Lifted by the operator once it is mended, the rest is sent.
            world.mail_faults.clear();
            world
                .control(|control| assert!(control.lift(Some("small"), HoldReason::Refusals)))
                .await;
            world.run(if quota < 2.0 { 110 } else { 40 }).await;
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
        assert!(control.campaign_holds[EXPRESS].get(HoldReason::Deployment).is_some());
        assert_eq!(world.accepted().len(), 100, "merge {merge}: campaigns go on");
        let tried: u64 = world
            .reports()
            .iter()
            .filter_map(|r| r.counts.by(Counter::Failed).get("deployment"))
            .sum();
        assert!(tried <= 8, "merge {merge}: {tried} tried");
        world.mail_faults.clear();
        world.control(|c| assert!(c.lift(Some(EXPRESS), HoldReason::Deployment))).await;
        world.run(40).await;
        assert_eq!(world.accepted().len(), 140, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn once_its_hold_is_lifted_a_campaigns_refusals_count_anew() {
    for merge in MODES {
        // Ten in a row over several windows; and nine, then a hold for another reason.
        for (refused_before, reason) in [(10, HoldReason::Refusals), (9, HoldReason::Deployment)] {
            let world = World::new(WorldSettings::new(2.0, merge).campaigns(&[("news", 1)]));
            world.fill("news", refused_before).await;
            let bad = Rule::new(refused("MessageRejected")).on(Operation::Mail);
            world.mail_faults.add(bad.clone().at("news/news"));
            world.mail_faults.add(bad.at("news/again"));
            let unverified = Rule::new(Fault::Before(failures::not_verified()));
            world.mail_faults.add(unverified.on(Operation::Mail).at("news/unverified").nth(1));
            world.run(20).await;
            if reason == HoldReason::Deployment {
                world.put("news", &[ProducedMail::new("unverified")]).await;
                world.run(10).await;
            }
            world.control(|control| assert!(control.lift(Some("news"), reason))).await;
            world.put("news", &ProducedMail::several("again", 8, 1)).await;
            // A campaign found empty is asked for ten at once: what gets no slot comes back in 30 s.
            world.run(150).await;
            let control = world.ledger_now().await.control;
            assert!(!control.holds_campaign("news"), "merge {merge}, {reason:?}: {control:?}");
            let dead = world.dead_letters().len();
            assert_eq!(dead, refused_before + 8, "merge {merge}, {reason:?}");
        }
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
