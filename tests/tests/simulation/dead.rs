//! Dead letters of the production poller, replayed by the operator.

use std::time::Duration;

use tidegate_core::deduplication::{Acceptance, Deduplication};
use tidegate_core::identity::{Envelope, EpochMillis, Identity};
use tidegate_delivery::ports::{MarkRequest, MarkResult, Marks as _, Outgoing, Queues as _};
use tidegate_fakes::{Fault, Operation, Rule, failures};
use tidegate_operator::why::MailVerdict;
use tidegate_tests::simulation::mail::produced;
use tidegate_tests::simulation::{ProducedMail, World, WorldSettings};

use crate::MODES;
use crate::operator_site::{dead_letters, replay, review, url, why};

const DEDUPLICATIONS: [(&str, Deduplication); 3] =
    [("off", Deduplication::Off), ("resend", Deduplication::Resend), ("park", Deduplication::Park)];

/// A world with five mails, of which SES refused one for good.
async fn with_a_dead_letter(merge: bool, deduplication: &str) -> World {
    let settings =
        WorldSettings::new(20.0, merge).variable("TIDEGATE_DEDUPLICATION", deduplication);
    let world = World::new(settings);
    let rejected = Rule::new(Fault::Before(failures::rejected())).on(Operation::Mail);
    world.mail_faults.add(rejected.at("big/big-3"));
    world.fill("big", 5).await;
    world.run(5).await;
    assert_eq!((world.dead_letters().len(), world.accepted().len()), (1, 4));
    world.mail_faults.clear();
    world
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_counted_for_their_campaign_whatever_made_them() {
    for merge in MODES {
        let world = with_a_dead_letter(merge, "off").await;
        let (attributes, delay) = (Vec::new(), Duration::ZERO);
        let invalid = Outgoing { body: "{}".into(), attributes, delay, fifo: None };
        world.queues.send(&url("small"), &[invalid]).await.unwrap();
        world.run(10).await;
        let counters = world.ledger_now().await.counters;
        let dead = ["dead", "dead.big", "dead.small"].map(|sum| counters.get(sum).copied());
        assert_eq!(dead, [Some(2), Some(1), Some(1)], "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_is_replayed_within_five_minutes_is_sent_once() {
    for merge in MODES {
        for (name, deduplication) in DEDUPLICATIONS {
            let world = with_a_dead_letter(merge, name).await;
            let review = review(&world, deduplication, false).await;
            assert_eq!(review.work.letters(), 1, "merge {merge}, deduplication {name}");
            assert!(replay(&world, &review).await.is_whole());
            assert!(world.universe.elapsed() < Duration::from_mins(4), "SQS would have forgotten");
            world.run(20).await;
            let at = format!("merge {merge}, deduplication {name}");
            assert_eq!(world.accepted().get("big-3"), Some(&1), "{at}");
            assert_eq!((world.accepted().len(), world.duplicates().len()), (5, 0), "{at}");
            assert!(world.is_drained() && world.dead_letters().is_empty(), "{at}");
        }
    }
}

/// The reason why a replay raises the pass: with the old pass SQS acknowledges the mail and
/// delivers it to nobody.
#[tokio::test(start_paused = true)]
async fn with_the_pass_that_it_had_the_merge_queue_swallows_it() {
    let world = with_a_dead_letter(true, "off").await;
    let body = world.dead_letters().remove(0).message;
    let identity = Identity::from_body_id("big", "big-3");
    let envelope = Envelope::fresh("big", identity, EpochMillis::from(world.universe.now()));
    let attributes = envelope.to_attributes();
    let again = Outgoing { body: body.into(), attributes, delay: Duration::ZERO, fifo: None };
    let sent = world.queues.send(&url("big"), &[again]).await.unwrap();
    assert!(sent.iter().all(Result::is_ok));
    world.run(40).await;
    assert!(world.is_drained() && !world.accepted().contains_key("big-3"));
}

/// A replay that died between "sent" and "deleted", and was run again.
#[tokio::test(start_paused = true)]
async fn a_replay_that_is_run_twice_is_sent_once_by_merge_queue_or_deduplication() {
    for (merge, (name, deduplication)) in
        [(true, DEDUPLICATIONS[0]), (false, DEDUPLICATIONS[1]), (true, DEDUPLICATIONS[2])]
    {
        let world = with_a_dead_letter(merge, name).await;
        let review = review(&world, deduplication, false).await;
        let order = review.work.mails.values().next().unwrap();
        let message = order.outgoing(world.universe.now().into());
        let sent = world.queues.send(&order.queue, &[message]).await;
        assert!(sent.unwrap().iter().all(Result::is_ok));
        assert!(replay(&world, &review).await.is_whole());
        world.run(60).await;
        assert_eq!(world.accepted().get("big-3"), Some(&1), "merge {merge}, deduplication {name}");
        assert!(world.is_drained() && world.dead_letters().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_mail_is_replayed_when_asked_for_and_one_that_was_sent_never() {
    for merge in MODES {
        let settings = WorldSettings::new(20.0, merge).variable("TIDEGATE_DEDUPLICATION", "park");
        let world = World::new(settings);
        let identity = Identity::from_body_id("big", "m");
        let request = MarkRequest {
            identity: identity.clone(),
            token: "of a poller that crashed".to_owned(),
            pass: 0,
            now: world.universe.now().saturating_sub(Duration::from_mins(1)),
            kept: Duration::from_hours(24),
            replaces: None,
        };
        assert_eq!(world.ledger.mark(&request).await.unwrap(), MarkResult::Ours);
        world.put("big", &[ProducedMail::new("m")]).await;
        world.run(6).await;
        assert_eq!(world.dead_letters()[0].last_error.code.as_deref(), Some("unknown"));
        assert_eq!(review(&world, Deduplication::Park, false).await.work.letters(), 0);
        let asked = review(&world, Deduplication::Park, true).await;
        assert_eq!(asked.work.letters(), 1);
        // It turns out that it was sent.
        let at = EpochMillis::from(world.universe.now());
        let accepted = Acceptance { at, ses_message_id: "0102018f-1".to_owned() };
        assert!(world.ledger.set_sent(&identity, &accepted).await.unwrap());
        assert_eq!(review(&world, Deduplication::Park, true).await.work.letters(), 0);
        assert_eq!(replay(&world, &asked).await.sent_meanwhile, 1);
        assert!(world.ledger.set_parked(&identity, &request.token, 65_535).await.unwrap());
        assert!(replay(&world, &asked).await.is_whole());
        world.run(20).await;
        assert_eq!(world.accepted().get("m"), Some(&1), "merge {merge}");
        assert!(world.is_drained() && world.dead_letters().is_empty());
    }
}

/// Regression: its dead letter was under its SQS message id, and `why` knew nothing of the mail.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_no_mail_is_dead_lettered_under_its_id() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        let bodies = [
            (r#"{"id": "order-1", "to": "ada@example.com", "tempalte": 1}"#, "big/id/order-1"),
            (r#"{"id": "order-2", "to": "ada@example.com", "text": "cut o"#, "big/id/order-2"),
            (r#"{"subject": "\ud83d", "from": 7, "id": "order-3"}"#, "big/id/order-3"),
            // No id leads out of its campaign.
            (r#"{"id": "small/id/order-4"}"#, "big/id/small%2Fid%2Forder-4"),
        ];
        let messages = bodies.map(|(body, _)| produced(body.to_owned()));
        world.put_raw("big", &messages).await;
        let invalid = format!(r#"{{"id": "{}"}}"#, "x".repeat(257));
        world.put_raw("big", &[produced(invalid)]).await;
        world.run(6).await;
        let letters = dead_letters(&world).await.letters;
        let mut found: Vec<String> =
            letters.iter().map(|letter| letter.identity().unwrap().to_string()).collect();
        found.sort();
        let nameless = found.pop().unwrap();
        assert_eq!(found, bodies.map(|(_, identity)| identity), "merge {merge}");
        assert!(nameless.starts_with("big/msg/"), "{nameless}");
        // What is written goes with the letter: nobody has to read the body again.
        let kept = letters.iter().filter_map(|letter| letter.envelope.as_ref());
        assert!(kept.filter(|envelope| envelope.campaign == "big").count() == letters.len());
        for (_, identity) in bodies {
            let id = Identity::parse(identity).unwrap().id().into_owned();
            let answer = why(&world, None, &id).await;
            assert_eq!(answer.verdict, MailVerdict::Dead, "{id}: {}", answer.summary);
            assert_eq!(answer.campaign.as_deref(), Some("big"));
        }
    }
}
