//! Faults of the matrix that have no other place: deployments, reordered ticks, ids that come twice,
//! replays, receipts that expired, the Lambda time-out.

use std::time::Duration;

use tidegate_core::config::POLLER_TIMEOUT;
use tidegate_core::identity::Envelope;
use tidegate_core::outcome::Failure;
use tidegate_delivery::poll::End;
use tidegate_delivery::ports::Outgoing;
use tidegate_fakes::{Counting, Fault, Latency, Operation, QueueSettings, Rule, failures};
use tidegate_tests::simulation::mail::produced;
use tidegate_tests::simulation::{
    DEAD_LETTERS, PollerEnd, ProducedMail, World, WorldSettings, measure,
};

use crate::{MODES, MS};

#[tokio::test(start_paused = true)]
async fn a_deployment_in_mid_window_with_old_and_new_pollers_side_by_side_is_harmless() {
    for merge in MODES {
        // The new pollers have another deduplication, hence another grid, and treat what is unsent otherwise.
        let settings = WorldSettings::new(40.0, merge);
        let new = settings
            .clone()
            .variable("TIDEGATE_RATE_MARGIN", 0.05)
            .variable("TIDEGATE_UNSENT", "release")
            .poller()
            .unwrap();
        let old = settings.poller().unwrap();
        let world = World::new(settings);
        world.fill("big", 1_600).await;
        world.fill("small", 200).await;
        let first = world
            .play(60, async |first| {
                for (number, after, config) in
                    [(8, 430, &new), (14, 710, &old), (20, 5, &new), (26, 990, &old)]
                {
                    world.until(first, number, MS(after)).await;
                    world.deploy(config.clone());
                }
            })
            .await;
        world.assert_clean();
        assert_eq!(world.accepted().len(), 1_800, "merge {merge}");
        // Where the grid changes, a period at most is lost.
        let used = measure::utilisation(&world, first, 4..36, 30);
        assert!(used >= 0.93, "merge {merge}: {used:.4}");
        let environments = world.poller_runs().iter().map(|start| start.environment).max();
        assert!(environments >= Some(4), "{environments:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ticks_that_come_in_another_order_cost_their_windows_only() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        world.fill("big", 700).await;
        world
            .play(60, async |first| {
                // Every third is overtaken by the next.
                for number in 0..60 {
                    world.tick_delay.set(MS(if number % 3 == 0 { 1_150 } else { 0 }));
                    world.until(first, number, MS(500)).await;
                }
            })
            .await;
        world.assert_clean();
        let of = |end| world.reports().iter().filter(|report| report.end == end).count();
        let lost = of(End::Duplicate) + of(End::Expired);
        assert!((15..=60).contains(&lost), "merge {merge}: {lost} came too late");
        assert!(of(End::Served) >= 35, "merge {merge}: {} served", of(End::Served));
        world.run(60).await;
        assert_eq!(world.accepted().len(), 700, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_messages_of_one_id_are_one_mail_when_merged_and_of_two_campaigns_two() {
    let world = World::new(WorldSettings::new(20.0, true));
    let again = [ProducedMail::new("order-7")];
    world.put("big", &again).await;
    world.put("big", &again).await;
    world.put("small", &again).await;
    world.run(4).await;
    // Four minutes later it is still the same.
    tokio::time::sleep(Duration::from_secs(230)).await;
    world.put("big", &again).await;
    world.run(60).await;
    assert!(world.is_drained());
    let of = |name: &str| world.ses.accepted().iter().filter(|a| a.campaign == name).count();
    assert_eq!((of("big"), of("small")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_replayed_within_five_minutes_is_sent() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        world.fill("big", 3).await;
        world.ses.refuse_address("big-1.0@example.com", failures::rejected());
        world.run(4).await;
        let dead = world.contents(DEAD_LETTERS);
        assert_eq!((dead.len(), world.accepted().len()), (1, 2));
        world.ses.accept_address("big-1.0@example.com");
        let attribute = |name: &str| dead[0].attributes.get(name).map(String::as_str);
        let envelope = Envelope::from_attributes(attribute).unwrap().unwrap();
        let message = |envelope: Envelope| Outgoing {
            body: world.dead_letters()[0].message.as_str().into(),
            attributes: envelope.to_attributes(),
            delay: Duration::ZERO,
            fifo: None,
        };
        if merge {
            // At its old pass the merge queue takes it for the mail it knows, and swallows it.
            world.put_raw("big", &[message(Envelope { pass: 0, ..envelope.clone() })]).await;
            world.run(4).await;
            assert_eq!((world.accepted().len(), world.is_drained()), (2, true));
        }
        world.put_raw("big", &[message(envelope.put_back())]).await;
        world.run(4).await;
        assert_eq!(world.accepted().len(), 3, "merge {merge}");
        assert!(world.duplicates().is_empty() && world.is_drained());
    }
}

#[tokio::test(start_paused = true)]
async fn a_receipt_that_expires_before_its_delete_brings_the_mail_again_and_deduplication_knows_it()
{
    for (deduplication, merge) in [("off", true), ("park", true), ("off", false), ("park", false)] {
        let settings =
            WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(10.0, merge) };
        let settings = settings.campaigns(&[("news", 1)]);
        let world = World::new(settings.variable("TIDEGATE_DEDUPLICATION", deduplication));
        let brief = QueueSettings { visibility: MS(4_000), ..QueueSettings::default() };
        world.queues.urls().iter().for_each(|url| world.queues.reconfigure(url, brief));
        world.fill("news", 10).await;
        // From the merge queue, or the campaign's: whatever is sent from.
        let late = Rule::new(Fault::Slow(Latency::always(MS(6_000)))).on(Operation::Delete);
        world.faults.add(if merge { late.at("merge") } else { late });
        world
            .play(30, async |first| {
                world.until(first, 8, MS(0)).await;
                world.faults.clear();
            })
            .await;
        world.run(60).await;
        world.assert_nothing_lost();
        assert!(world.is_drained(), "deduplication {deduplication}, merge {merge}");
        let twice = world.duplicates().len();
        assert_eq!(
            twice > 0,
            deduplication == "off",
            "deduplication {deduplication}, merge {merge}: {twice} sent twice"
        );
        assert!(world.dead_letters().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_poller_killed_at_its_time_out_in_mid_window_loses_nothing() {
    for merge in MODES {
        let world = World::new(WorldSettings {
            counting: Counting::Bucket,
            ..WorldSettings::new(20.0, merge)
        });
        world.fill("big", 400).await;
        // Deletes are never answered: the pollers are still there as Lambda's time-out comes.
        let silent = Rule::new(Fault::HangBefore).on(Operation::Delete);
        let first = world
            .play(70, async |first| {
                let span = first.plus(4).opens()..first.plus(6).opens();
                world.faults.add(silent.during(span));
            })
            .await;
        world.assert_nothing_lost();
        let killed =
            world.poller_runs().iter().filter(|s| matches!(s.end, PollerEnd::Crashed)).count();
        assert!((2..=4).contains(&killed), "{first}: {killed} killed");
        world.run(30).await;
        assert!(world.is_drained(), "merge {merge}");
        assert_eq!(world.accepted().len(), 400);
        // What SES had taken and was not deleted: the two windows' mails.
        let twice = world.duplicates().len();
        assert!((1..=60).contains(&twice), "merge {merge}: {twice} sent twice");
    }
}

#[tokio::test(start_paused = true)]
async fn moves_that_fail_in_part_leave_the_mail_where_it_is_until_they_are_done() {
    for merge in MODES {
        for part in [Fault::RefuseEntries(0.5), Fault::LoseEntries(0.5)] {
            let lost = matches!(part, Fault::LoseEntries(_));
            let settings =
                WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(20.0, merge) };
            let world = World::new(settings.campaigns(&[("news", 1)]));
            world.fill("news", 60).await;
            // All fail once, and go back; a permanent one goes to the dead letters.
            let broken = |id: usize| {
                let rule = Rule::new(Fault::Before(failures::server_error()));
                rule.on(Operation::Mail).at(&format!("news/news-{id}")).nth(1)
            };
            (0..60).for_each(|id| world.mail_faults.add(broken(id)));
            world.ses.refuse_address("news-7.0@example.com", failures::rejected());
            world.faults.add(Rule::new(part.clone()).on(Operation::Send).at("/news"));
            world.faults.add(Rule::new(part).on(Operation::Send).at("/dead"));
            world
                .play(400, async |first| {
                    world.until(first, 120, MS(0)).await;
                    world.faults.clear();
                })
                .await;
            world.assert_nothing_lost();
            assert!(world.is_drained(), "merge {merge}");
            assert_eq!(world.accepted().len(), 59, "merge {merge}");
            let twice = world.duplicates().len();
            assert!(lost || twice == 0, "merge {merge}: {twice} sent twice");
            assert!(!world.dead_letters().is_empty());
        }
    }
}

/// Regression: a body near the limit was taken from its campaign's queue and could not go back there,
/// beside our attributes: it was received and sent again for ever.
#[tokio::test(start_paused = true)]
async fn a_body_goes_back_to_its_campaign_however_large_or_is_refused_at_once() {
    let body = |bytes: usize| {
        let start = r#"{"id": "large", "to": "large.0@example.com", "from": "news@example.org", "subject": "S", "text": ""#;
        format!("{start}{}\"}}", "x".repeat(bytes - start.len() - 2))
    };
    for merge in MODES {
        for (bytes, fits) in [(1_031_000, true), (1_032_100, false)] {
            let world = World::new(WorldSettings::new(20.0, merge).campaigns(&[("news", 1)]));
            let long = "x".repeat(400);
            let failure = Failure { message: long, ..failures::server_error() };
            let broken = Rule::new(Fault::Before(failure)).on(Operation::Mail);
            world.mail_faults.add(broken.nth(1));
            world.put_raw("news", &[produced(body(bytes))]).await;
            world.run(90).await;
            assert!(world.is_drained(), "merge {merge}, {bytes} bytes");
            let dead = world.dead_letters();
            assert_eq!((world.accepted().len(), dead.len()), if fits { (1, 0) } else { (0, 1) });
            if let [entry] = &*dead {
                assert_eq!(entry.last_error.code.as_deref(), Some("TooLarge"));
                let said = &entry.last_error.provider_message;
                assert!(said.contains("1032100 bytes") && said.contains("at most 1031"), "{said}");
                assert!(entry.message == body(bytes), "the body is the original");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_too_large_to_be_wrapped_is_dead_lettered_whole_with_its_entry_beside_it() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge).campaigns(&[("news", 1)]));
        let text = r"\n".repeat(510_000);
        let body = format!(
            r#"{{"id": "large", "to": "large.0@example.com", "from": "news@example.org", "subject": "S", "text": "{text}"}}"#
        );
        world.put_raw("news", &[produced(body.clone())]).await;
        world.ses.refuse_address("large.0@example.com", failures::rejected());
        world.run(4).await;
        let standing = world.contents(DEAD_LETTERS);
        assert_eq!(standing.len(), 1, "merge {merge}");
        assert!(standing[0].body == body, "the body is the original");
        assert!(standing[0].attributes.contains_key("tidegate_entry"));
        let entry = &world.dead_letters()[0];
        assert_eq!((entry.campaign.as_str(), entry.attempts), ("news", 1));
        assert!(entry.first_attempt_at.is_some() && entry.last_attempt_at.is_some());
        assert_eq!(entry.to, ["large.0@example.com"]);
        let Failure { code, .. } = failures::rejected();
        assert_eq!(entry.last_error.code, code);
    }
}

/// Every call takes as long as its adapter lets it, and the tick comes as early as it may.
#[tokio::test(start_paused = true)]
async fn the_slowest_poller_settles_its_mail_before_its_time_out() {
    for (merge, send_timeout, fails) in [
        (true, 5_200, false),
        (true, 5_200, true),
        (false, 5_200, false),
        (false, 5_200, true),
        (false, 100, true),
    ] {
        let settings = WorldSettings::new(14.0, merge)
            .variable("TIDEGATE_SEND_TIMEOUT_MS", send_timeout)
            .variable("TIDEGATE_DEDUPLICATION", "resend");
        let world = World::new(settings);
        world.fill("big", 20).await;
        let ledger = [Operation::Read, Operation::Report, Operation::SetControl];
        let marks = [Operation::SetMark, Operation::Unmark];
        let queues = [Operation::Send, Operation::Delete, Operation::SetVisibility];
        let slow = |millis| Rule::new(Fault::Slow(Latency::always(MS(millis))));
        let slow_calls = ledger.into_iter().chain(marks).chain(queues);
        world.faults.add(slow_calls.fold(slow(2_000), Rule::on));
        world.mail_faults.add(Rule::new(Fault::Slow(Latency::always(MS(send_timeout)))));
        if fails {
            world.mail_faults.add(Rule::new(Fault::Before(failures::server_error())));
        }
        let window = world.next_window().plus(2);
        let early = window.opens().saturating_sub(tidegate_core::tick::EARLIEST);
        world.universe.sleep_until(early).await;
        world.serve(Some(world.tick(window))).await;
        let case = format!("merge {merge}, {send_timeout} ms, fails {fails}");
        {
            let starts = world.poller_runs();
            let took = starts[0].ended.saturating_since(starts[0].at);
            assert!(starts[0].report().is_some(), "{case}: killed after {took:?}");
            assert!(took <= POLLER_TIMEOUT.saturating_sub(MS(500)), "{case}: {took:?}");
        }
        world.faults.clear();
        world.mail_faults.clear();
        world.run(180).await;
        assert!(world.is_drained(), "{case}");
        assert_eq!(world.duplicates(), Vec::<String>::new(), "{case}");
    }
}
