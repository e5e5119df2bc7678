//! Deduplication: what is marked *sent* is never sent again; what may have been sent is resent
//! or parked, by choice.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::time::Duration;

use tidegate_core::counters::Counter;
use tidegate_core::deduplication::MarkState;
use tidegate_core::identity::{Envelope, Identity};
use tidegate_delivery::ports::{FailureKind, MarkRequest, MarkResult, Marks as _, Outgoing};
use tidegate_fakes::{Counting, Fault, Latency, Operation, Rule, failures};
use tidegate_tests::simulation::{
    DEAD_LETTERS, EXPRESS, ProducedMail, World, WorldSettings, measure,
};

use crate::{MODES, MS};

fn guarded(quota: f64, merge: bool, deduplication: &str) -> WorldSettings {
    WorldSettings::new(quota, merge).variable("TIDEGATE_DEDUPLICATION", deduplication)
}

/// The ids of the mails that were parked.
fn parked(world: &World) -> Vec<String> {
    let dead = world.dead_letters().into_iter();
    let unknown = dead.filter(|entry| entry.last_error.code.as_deref() == Some("unknown"));
    let id = |body: &str| body.split('"').nth(3).map(str::to_owned);
    let mut ids: Vec<String> = unknown.filter_map(|entry| id(&entry.message)).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// Puts a dead letter back on its campaign's queue, as a reviewed replay does.
async fn replay(world: &World, campaign: &str) {
    let dead = world.contents(DEAD_LETTERS);
    let letters = world.dead_letters();
    for (message, letter) in dead.iter().zip(&letters) {
        let attribute = |name: &str| message.attributes.get(name).map(String::as_str);
        let envelope = Envelope::from_attributes(attribute).unwrap().unwrap().put_back();
        let replayed = Outgoing {
            body: letter.message.as_str().into(),
            attributes: envelope.to_attributes(),
            delay: Duration::ZERO,
            fifo: None,
        };
        world.put_raw(campaign, &[replayed]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn wherever_a_poller_dies_deduplication_that_parks_sends_nothing_twice_and_loses_nothing() {
    let operations = [
        Operation::Receive,
        Operation::Send,
        Operation::Delete,
        Operation::Mark,
        Operation::SetMark,
        Operation::Unmark,
        Operation::Report,
    ];
    for merge in MODES {
        let (mut crashes, mut unknown) = (0, 0);
        for fault in [Fault::HangBefore, Fault::HangAfter] {
            for operation in operations {
                for nth in 1.. {
                    let world = small_world(merge, "park").await;
                    world.faults.add(Rule::new(fault.clone()).on(operation).nth(nth));
                    let hung = world.crash_where_it_hangs(false).await;
                    let case = format!("merge {merge}, {fault:?} of {operation:?} number {nth}");
                    unknown += recovers(&world, &case).await;
                    if !hung {
                        break;
                    }
                    crashes += 1;
                }
            }
        }
        for nth in 1..=MAILS {
            for fault in [Fault::HangBefore, Fault::HangAfter] {
                let world = small_world(merge, "park").await;
                let rule = Rule::new(fault.clone()).on(Operation::Mail).nth(nth as u64);
                world.mail_faults.add(rule);
                crashes += usize::from(world.crash_where_it_hangs(true).await);
                unknown +=
                    recovers(&world, &format!("merge {merge}, {fault:?} of mail {nth}")).await;
            }
        }
        assert!(crashes >= 60, "merge {merge}: {crashes} crashes only");
        assert!(unknown > 20, "merge {merge}: {unknown} parked only");
    }
}

const MAILS: usize = 7;

async fn small_world(merge: bool, deduplication: &str) -> World {
    let settings = WorldSettings { express: true, ..guarded(10.0, merge, deduplication) };
    let world = World::new(WorldSettings { counting: Counting::Bucket, ..settings });
    world.fill("big", 5).await;
    world.fill("small", 1).await;
    world.put(EXPRESS, &[ProducedMail::new("express")]).await;
    // One of them fails once: its mark is taken away again.
    let broken = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
    world.mail_faults.add(broken.at("big-1").nth(1));
    world
}

/// Other pollers make good what the crash left; gives how many mails were parked.
async fn recovers(world: &World, case: &str) -> usize {
    world.faults.clear();
    world.mail_faults.clear();
    for _ in 0..5 {
        if !world.is_drained() {
            world.run(34).await;
        }
    }
    assert!(world.is_drained(), "{case}: some queue holds mail for ever");
    assert_eq!(world.lost(), Vec::<String>::new(), "{case}: lost");
    assert_eq!(world.duplicates(), Vec::<String>::new(), "{case}: sent twice");
    let parked = parked(world);
    let sent = world.accepted();
    for id in world.enqueued() {
        let told = sent.contains_key(&id) || parked.contains(&id);
        assert!(told, "{case}: {id} is neither sent nor parked");
    }
    parked.len()
}

#[tokio::test(start_paused = true)]
async fn deduplication_that_resends_loses_nothing_and_sends_twice_only_what_a_crash_or_a_lost_answer_hid()
 {
    for merge in MODES {
        for nth in 1..=MAILS {
            let world = small_world(merge, "resend").await;
            world.mail_faults.add(Rule::new(Fault::HangAfter).on(Operation::Mail).nth(nth as u64));
            let hung = world.crash_where_it_hangs(true).await;
            let taken = world.accepted();
            world.mail_faults.clear();
            for _ in 0..5 {
                world.run(34).await;
            }
            assert!(world.is_drained() && world.dead_letters().is_empty());
            assert_eq!(world.accepted().len(), MAILS, "merge {merge}, mail {nth}");
            let twice = world.duplicates();
            assert!(twice.iter().all(|id| taken.contains_key(id)), "{twice:?}");
            assert!(twice.len() <= usize::from(hung) * 4, "{twice:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_parked_as_unknown_and_sent_again_only_when_it_is_replayed() {
    for merge in MODES {
        let settings = guarded(14.0, merge, "park").campaigns(&[("news", 1)]);
        let world = World::new(settings);
        world.fill("news", 20).await;
        let lost = Rule::new(Fault::After(failures::answer_lost())).on(Operation::Mail).nth(5);
        world.mail_faults.add(lost);
        let first = world.run(120).await;
        assert!(world.is_drained() && world.lost().is_empty() && world.duplicates().is_empty());
        let dead = world.dead_letters();
        assert_eq!(dead.len(), 1, "merge {merge}");
        let entry = &dead[0];
        assert_eq!(entry.last_error.code.as_deref(), Some("unknown"));
        assert_eq!(entry.attempts, 1);
        let sent_at = entry.last_attempt_at.unwrap();
        assert!(entry.first_attempt_at.unwrap() <= sent_at, "{entry:?}");
        assert!(tidegate_core::Timestamp::from(sent_at) < first.plus(2).opens(), "{entry:?}");
        // Found parked, at its own pass, it is parked again; replayed, it is sent.
        replay(&world, "news").await;
        world.run(10).await;
        assert_eq!(world.duplicates().len(), 1, "merge {merge}: the replay was asked for");
        assert!(world.is_drained());
        assert_eq!(world.dead_letters().len(), 1);
    }
}

/// Regression: the copy that a retry had put back came with a higher pass than the mark of the parked
/// original, was taken for a replay, and sent.
#[tokio::test(start_paused = true)]
async fn a_copy_of_a_parked_mail_is_parked_too_however_often_it_was_put_back() {
    for merge in MODES {
        let world = World::new(guarded(14.0, merge, "park").campaigns(&[("news", 1)]));
        world.fill("news", 20).await;
        let lost = Rule::new(Fault::After(failures::answer_lost())).on(Operation::Mail).nth(5);
        world.mail_faults.add(lost);
        // It goes back to its campaign, and its original is not deleted.
        let failed = Rule::new(Fault::Before(FailureKind::TimedOut)).on(Operation::Delete);
        world
            .play(200, async |first| {
                world.faults.add(failed.during(first.opens()..first.plus(30).opens()));
            })
            .await;
        assert!(world.is_drained() && world.lost().is_empty());
        assert_eq!(world.duplicates(), Vec::<String>::new(), "merge {merge}");
        assert!(world.dead_letters().len() >= 2, "merge {merge}: original and copy");
        assert_eq!(parked(&world).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_whose_last_attempt_may_have_been_sent_is_parked_with_its_dead_letter() {
    for merge in MODES {
        let settings = guarded(14.0, merge, "park").variable("TIDEGATE_MAX_ATTEMPTS", 1);
        let world = World::new(settings.campaigns(&[("news", 1)]));
        world.fill("news", 20).await;
        let lost = Rule::new(Fault::After(failures::answer_lost())).on(Operation::Mail).nth(5);
        world.mail_faults.add(lost);
        // Its original is not deleted, and comes again.
        let failed = Rule::new(Fault::Before(FailureKind::TimedOut)).on(Operation::Delete);
        world
            .play(120, async |first| {
                world.faults.add(failed.during(first.opens()..first.plus(20).opens()));
            })
            .await;
        assert!(world.is_drained() && world.lost().is_empty());
        assert_eq!(world.duplicates(), Vec::<String>::new(), "merge {merge}");
        assert_eq!((world.dead_letters().len(), parked(&world).len()), (2, 1), "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_resent_where_that_is_chosen() {
    for merge in MODES {
        let world = World::new(guarded(14.0, merge, "resend").campaigns(&[("news", 1)]));
        world.fill("news", 20).await;
        let lost = Rule::new(Fault::After(failures::answer_lost())).on(Operation::Mail).nth(5);
        world.mail_faults.add(lost);
        world.run(120).await;
        assert!(world.is_drained() && world.lost().is_empty());
        assert_eq!((world.duplicates().len(), world.dead_letters().len()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn copies_of_a_standard_queue_and_mails_whose_delete_failed_are_sent_once() {
    for deduplication in ["resend", "park"] {
        let world = World::new(guarded(20.0, false, deduplication));
        world.fill("big", 150).await;
        let soon = Latency::between(Duration::ZERO, Duration::from_secs(40));
        world.faults.add(Rule::new(Fault::Duplicate(soon)).on(Operation::Receive).chance(0.5));
        let failed = Rule::new(Fault::RefuseEntries(0.3)).on(Operation::Delete);
        world.faults.add(failed);
        world
            .play(300, async |first| {
                world.until(first, 100, MS(0)).await;
                world.faults.clear();
            })
            .await;
        assert!(world.is_drained() && world.lost().is_empty());
        assert_eq!(world.duplicates(), Vec::<String>::new(), "{deduplication}");
        assert_eq!(world.accepted().len(), 150);
        let known: u64 =
            world.reports().iter().map(|report| report.count(Counter::AlreadySent)).sum();
        assert!(known > 50, "{deduplication}: {known} copies were known");
        assert!(world.dead_letters().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn with_the_marks_out_of_reach_nothing_is_sent_and_nothing_lost() {
    for merge in MODES {
        // Not made, or made without an answer: then it must not look like a crash later.
        for fault in [Fault::Before(FailureKind::Unreachable), Fault::After(FailureKind::TimedOut)]
        {
            let world = World::new(guarded(20.0, merge, "park"));
            world.fill("big", 100).await;
            world.faults.add(Rule::new(fault).on(Operation::Mark));
            world.run(10).await;
            assert!(world.ses.arrivals().is_empty());
            world.faults.clear();
            world.run(80).await;
            world.assert_clean();
            assert_eq!(world.accepted().len(), 100);
            assert!(world.dead_letters().is_empty(), "{} parked", world.dead_letters().len());
        }
    }
}

/// Regression: the slots of a mail that could not be marked went to the next, which could not be
/// marked either: a window received as fast as it could.
#[tokio::test(start_paused = true)]
async fn with_the_marks_refused_at_once_no_more_is_received_than_the_slots_would_use() {
    for merge in MODES {
        let world = World::new(guarded(20.0, merge, "park"));
        world.fill("big", 3_000).await;
        let denied = FailureKind::Denied("AccessDeniedException".to_owned());
        world.faults.add(Rule::new(Fault::Before(denied)).on(Operation::Mark));
        world.run(10).await;
        let left: u64 = world.reports().iter().map(|report| report.count(Counter::Left)).sum();
        assert!((50..=220).contains(&left), "merge {merge}: {left} received in 10 windows of 20");
        assert!(world.ses.arrivals().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn what_failed_or_got_no_slot_is_unmarked_and_sent_later() {
    for merge in MODES {
        let world = World::new(WorldSettings { express: true, ..guarded(20.0, merge, "park") });
        world.fill("big", 200).await;
        let broken = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
        world.mail_faults.add(broken.chance(0.1));
        let refused = Rule::new(Fault::Before(failures::rate_exceeded())).on(Operation::Mail);
        world.mail_faults.add(refused.chance(0.02));
        let first = world
            .play(300, async |first| {
                // Express takes the slots of what was received for them.
                world.until(first, 3, MS(20)).await;
                world.put(EXPRESS, &ProducedMail::several("express", 15, 1)).await;
                world.until(first, 60, MS(0)).await;
                world.mail_faults.clear();
            })
            .await;
        assert!(world.is_drained() && world.lost().is_empty(), "merge {merge}");
        assert_eq!(world.duplicates(), Vec::<String>::new());
        assert!(world.dead_letters().is_empty(), "merge {merge}: {:?}", world.dead_letters());
        assert_eq!(world.accepted().len(), 215);
        let left: u64 = world.reports().iter().map(|report| report.count(Counter::Left)).sum();
        assert!(left > 0, "{first}: nothing was left");
    }
}

#[tokio::test(start_paused = true)]
async fn two_messages_of_one_id_are_one_mail_for_as_long_as_the_mark_is_kept() {
    for merge in MODES {
        let world = World::new(guarded(20.0, merge, "park"));
        let again = [ProducedMail::new("order-7")];
        world.put("big", &again).await;
        world.run(5).await;
        tokio::time::sleep(Duration::from_hours(2)).await;
        world.put("big", &again).await;
        // The same id in another campaign is another mail.
        world.put("small", &again).await;
        world.run(10).await;
        assert!(world.is_drained());
        let of = |name: &str| world.ses.accepted().iter().filter(|a| a.campaign == name).count();
        assert_eq!((of("big"), of("small")), (1, 1), "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_quota_is_used_with_deduplication_on_and_no_mark_stays_undecided() {
    for merge in MODES {
        let world = World::new(guarded(50.0, merge, "park"));
        world.fill("big", 2_000).await;
        let writes = Rule::new(Fault::Slow(Latency::between(MS(4), MS(20))));
        world.faults.add(writes.on(Operation::Mark).on(Operation::SetMark).on(Operation::Unmark));
        let first = world.run(60).await;
        world.assert_clean();
        let used = measure::utilisation(&world, first, 4..36, 30);
        assert!(used >= 0.97, "merge {merge}: {used:.4}");
        assert_eq!(world.accepted().len(), 2_000);
        for id in ["big-0", "big-777", "big-1999"] {
            let request = MarkRequest {
                identity: Identity::from_body_id("big", id),
                token: "the test's".to_owned(),
                pass: 0,
                now: world.universe.now(),
                kept: Duration::from_hours(1),
                replaces: None,
            };
            let Ok(MarkResult::Found(mark)) = world.ledger.mark(&request).await else {
                panic!("{id} is not marked")
            };
            assert_eq!(mark.state, MarkState::Sent, "{id}");
        }
    }
}
