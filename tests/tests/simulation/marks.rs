//! deduplication's marks: one of several copies is sent, and no mark is left behind.

use std::time::Duration;

use tidegate_core::Window;
use tidegate_core::breaker::{Breaker, BreakerPolicy, Outcomes};
use tidegate_core::control::{Control, Hold, HoldReason, HoldReason::Paused};
use tidegate_core::counters::Counter;
use tidegate_core::deduplication::Acceptance;
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_delivery::ports::{MarkRequest, MarkResult, Marks as _, PortError};
use tidegate_fakes::{Fault, Latency, Operation, Rule, failures};
use tidegate_tests::simulation::{EXPRESS, ProducedMail, World, WorldSettings, measure};

use crate::{MODES, MS};

fn accepted() -> Acceptance {
    Acceptance { at: EpochMillis::new(0), ses_message_id: "0102018f-1".to_owned() }
}

/// Marks a mail, as a poller did so long ago.
async fn mark(
    world: &World,
    campaign: &str,
    id: &str,
    ago: Duration,
) -> Result<MarkResult, PortError> {
    let request = MarkRequest {
        identity: Identity::from_body_id(campaign, id),
        token: "another's".to_owned(),
        pass: 0,
        now: world.universe.now().saturating_sub(ago),
        kept: Duration::from_hours(1),
        replaces: None,
    };
    world.ledger.mark(&request).await
}

#[tokio::test(start_paused = true)]
async fn of_two_copies_that_take_over_an_old_mark_at_once_one_is_sent() {
    for merge in MODES {
        let settings = WorldSettings::new(14.0, merge).variable("TIDEGATE_DEDUPLICATION", "resend");
        let world = World::new(WorldSettings { express: true, ..settings });
        let slow = Latency::between(MS(50), MS(51));
        world.faults.add(Rule::new(Fault::Slow(slow)).on(Operation::Mark));
        let made = mark(&world, EXPRESS, "copy", Duration::from_mins(1)).await;
        assert_eq!(made.ok(), Some(MarkResult::Ours));
        world.put(EXPRESS, &[ProducedMail::new("copy"), ProducedMail::new("copy")]).await;
        world.run(50).await;
        assert!(world.is_drained());
        assert_eq!(world.ses.accepted().len(), 1, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn slots_that_copies_do_not_use_go_to_other_mail() {
    for sent in [true, false] {
        let world =
            World::new(WorldSettings::new(20.0, false).variable("TIDEGATE_DEDUPLICATION", "park"));
        for number in 0..200 {
            let (copy, fresh) = (format!("copy-{number}"), format!("fresh-{number}"));
            // Sent before, or perhaps just being sent.
            let made = mark(&world, "big", &copy, Duration::ZERO).await;
            assert_eq!(made.ok(), Some(MarkResult::Ours));
            if sent {
                let identity = Identity::from_body_id("big", &copy);
                assert_eq!(world.ledger.set_sent(&identity, &accepted()).await.ok(), Some(true));
            }
            world.put("big", &[ProducedMail::new(copy), ProducedMail::new(fresh)]).await;
        }
        let first = world.run(10).await;
        let used = measure::utilisation(&world, first, 1..9, 1);
        assert!(used >= 0.9, "sent {sent}: {used:.4}");
    }
}

/// A mail that was deleted, put back or left must not be counted as waiting in the merge queue: the
/// feed would be too small by as many.
#[tokio::test(start_paused = true)]
async fn once_all_is_settled_the_merge_queue_is_reported_empty() {
    let guarded = WorldSettings::new(20.0, true).variable("TIDEGATE_DEDUPLICATION", "park");
    for case in ["sent", "sending", "unknown", "paused", "displaced"] {
        let world = World::new(WorldSettings { express: true, ..guarded.clone() });
        for number in 0..20 {
            let (id, old) = (format!("m-{number}"), Duration::from_mins(1));
            match case {
                "sent" => {
                    let made = mark(&world, "big", &id, Duration::ZERO).await;
                    assert_eq!(made.ok(), Some(MarkResult::Ours));
                    let identity = Identity::from_body_id("big", &id);
                    assert_eq!(
                        world.ledger.set_sent(&identity, &accepted()).await.ok(),
                        Some(true)
                    );
                }
                "sending" => drop(mark(&world, "big", &id, Duration::ZERO).await),
                "unknown" => drop(mark(&world, "big", &id, old).await),
                _ => {}
            }
        }
        let marked = ["sent", "sending", "unknown"].contains(&case);
        world.put("big", &ProducedMail::several("m", if marked { 20 } else { 200 }, 1)).await;
        world
            .play(100, async |first| {
                world.until(first, 3, MS(20)).await;
                match case {
                    "displaced" => {
                        world.put(EXPRESS, &ProducedMail::several("express", 15, 1)).await;
                    }
                    "paused" => {
                        let hold = Hold::new("", world.universe.now());
                        let change = |c: &mut Control| assert!(c.hold(Some("big"), Paused, hold));
                        world.control(change).await;
                        world.until(first, 9, MS(0)).await;
                        world.control(|c| assert!(c.lift(Some("big"), Paused))).await;
                    }
                    _ => {}
                }
            })
            .await;
        assert!(world.is_drained(), "{case}");
        let counters = world.ledger_now().await.counters;
        assert_eq!(counters["fed"], counters["taken"], "{case}: {counters:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_just_be_sent_is_left_to_its_visibility_timeout_and_does_not_spin() {
    for merge in MODES {
        let settings = WorldSettings::new(20.0, merge).variable("TIDEGATE_DEDUPLICATION", "park");
        let world = World::new(settings.variable("TIDEGATE_UNSENT", "release"));
        for number in 0..5 {
            let made = mark(&world, "big", &format!("m-{number}"), Duration::ZERO).await;
            assert_eq!(made.ok(), Some(MarkResult::Ours));
        }
        world.put("big", &ProducedMail::several("m", 5, 1)).await;
        world.run(20).await;
        let left: u64 = world.reports().iter().map(|report| report.count(Counter::Left)).sum();
        assert_eq!(left, 5, "merge {merge}: each was received once");
    }
}

#[tokio::test(start_paused = true)]
async fn what_ses_refused_or_its_campaigns_hold_kept_back_is_unmarked() {
    for merge in MODES {
        let settings = WorldSettings::new(20.0, merge).variable("TIDEGATE_DEDUPLICATION", "park");
        let world = World::new(settings.campaigns(&[("news", 1)]));
        world.fill("news", 60).await;
        let rejected = Rule::new(Fault::Before(failures::rejected())).on(Operation::Mail);
        world.mail_faults.add(rejected.at("news/news-7"));
        let unverified = Rule::new(Fault::Before(failures::not_verified())).on(Operation::Mail);
        let span = world.universe.now() + MS(1_500)..world.universe.now() + MS(4_000);
        world.mail_faults.add(unverified.during(span));
        world.run(5).await;
        assert!(world.ledger_now().await.control.holds_campaign("news"), "merge {merge}");
        world.control(|c| assert!(c.lift(Some("news"), HoldReason::Refusals))).await;
        // Older than a visibility timeout, a mark that was left behind would park its mail.
        tokio::time::sleep(Duration::from_mins(1)).await;
        world.run(70).await;
        let dead = world.dead_letters();
        assert!(dead.iter().all(|d| d.last_error.code.as_deref() != Some("unknown")), "{dead:?}");
        assert_eq!(world.accepted().len() + dead.len(), 60, "merge {merge}");
        for letter in &dead {
            let id = letter.message.split('"').nth(3).unwrap_or_default();
            let free = mark(&world, "news", id, Duration::ZERO).await;
            assert_eq!(free.ok(), Some(MarkResult::Ours), "merge {merge}: {id} is marked");
        }
        assert!(
            !dead.is_empty()
                && world.reports().iter().any(|report| report.count(Counter::PutBack) > 0)
        );
    }
}

/// Regression: mail whose mark was being made did not count as received, so that express mail was
/// received again and again while the marks took their time, and left for 30 s.
#[tokio::test(start_paused = true)]
async fn of_a_burst_of_express_no_more_is_received_than_its_slots_however_long_marks_take() {
    for merge in MODES {
        for deduplication in ["off", "park"] {
            let settings = WorldSettings { express: true, ..WorldSettings::new(14.0, merge) };
            let world = World::new(settings.variable("TIDEGATE_DEDUPLICATION", deduplication));
            let slow = Latency::between(MS(20), MS(30));
            world.faults.add(Rule::new(Fault::Slow(slow)).on(Operation::Mark));
            world.put(EXPRESS, &ProducedMail::several("express", 140, 1)).await;
            let first = world.run(13).await;
            let left: u64 = world.reports().iter().map(|report| report.count(Counter::Left)).sum();
            assert!(
                left <= 10,
                "merge {merge}, deduplication {deduplication}: {left} received and left"
            );
            let used = measure::utilisation(&world, first, 1..9, 1);
            assert!(used >= 0.95, "merge {merge}, deduplication {deduplication}: {used:.4}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_the_ledger_never_answers_for_is_retried_and_unmarked_all_the_same() {
    for merge in MODES {
        let settings = WorldSettings::new(20.0, merge).variable("TIDEGATE_DEDUPLICATION", "park");
        let world = World::new(settings.campaigns(&[("news", 1)]));
        world.fill("news", 10).await;
        let (policy, failing) = (BreakerPolicy::default(), Outcomes { all: 10, failures: 10 });
        let now = Window::containing(world.universe.now());
        let watched = Breaker::default().observed(now, failing, &policy);
        world.control(|control| control.breaker = watched.unwrap_or_default()).await;
        let slow = Latency::between(MS(2_000), MS(2_001));
        world.mail_faults.add(Rule::new(Fault::Slow(slow)).on(Operation::Mail));
        let broken = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
        world.mail_faults.add(broken);
        let window = world.next_window();
        world.universe.sleep_until(window.opens().saturating_sub(MS(330))).await;
        // As long as a poller waits, and less than it lives.
        let late = Latency::between(MS(60_000), MS(60_001));
        world.faults.add(Rule::new(Fault::Slow(late)).on(Operation::Read));
        world.serve(Some(world.tick(window))).await;
        let standing = world.contents("news").into_iter();
        let failed = standing.filter(|message| message.attributes.contains_key("last_error"));
        let attempts: Vec<String> = failed.map(|m| m.attributes["attempt"].clone()).collect();
        assert!(!attempts.is_empty() && attempts.iter().all(|attempt| attempt == "1"));
        assert_eq!(attempts.len(), world.mail_faults.strikes().len() / 2, "merge {merge}");
    }
}
