//! Large mail: its content is in the store, and is there for its slot.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::collections::BTreeMap;

use tidegate_core::Timestamp;
use tidegate_core::email::split;
use tidegate_core::memory::Memory;
use tidegate_delivery::ports::{FailureKind, Store as _};
use tidegate_fakes::{Fault, Latency, Operation, Rule, failures};
use tidegate_tests::simulation::mail::{MailVariation as _, produced};
use tidegate_tests::simulation::{BodyForm, EXPRESS, ProducedMail, World, WorldSettings, measure};

use crate::{MODES, MS};

fn settings(quota: f64, merge: bool) -> WorldSettings {
    WorldSettings { express: true, ..WorldSettings::new(quota, merge) }
        .variable("TIDEGATE_STORE", "s3://tides/store")
        .variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", 256)
}

fn large(id: &str, bytes: usize) -> ProducedMail {
    ProducedMail::new(id).of_bytes(bytes, BodyForm::Repeated)
}

async fn objects(world: &World) -> Vec<String> {
    let page = world.store.list("large", None).await.unwrap();
    page.objects.into_iter().map(|object| object.key).collect()
}

/// Every fetch takes so long.
fn slow(from: u64, to: u64) -> Rule<FailureKind> {
    Rule::new(Fault::Slow(Latency::between(MS(from), MS(to)))).on(Operation::GetObject)
}

/// The fakes take the processor's time for reading and writing, as the function's memory gives it, and keep it from the
/// slots. So a small memory has large mail every 64 windows while small mail needs each slot, and more often after it.
#[tokio::test(start_paused = true)]
async fn five_large_mails_a_second_leave_a_hundred_small_ones_their_slots() {
    const LARGE: usize = 10_000_000;
    for (merge, memory, served, least) in
        [(true, 256, 40, 4), (false, 256, 40, 4), (true, 1_769, 8, 30)]
    {
        let memory = Memory(memory);
        let world = settings(105.0, merge).variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", memory.0);
        let world = World::new(world);
        world.faults.add(slow(150, 400));
        for number in 0..5 * (served + 2) {
            let small = (0..20).map(|n| ProducedMail::new(format!("small-{number}-{n}")));
            world.put("big", &small.collect::<Vec<_>>()).await;
            world.put_large("big", &large(&format!("large-{number}"), LARGE)).await;
        }
        let first = world.run(served).await;
        let span = measure::span(first, 1..served);
        let accepted = world.ses.accepted();
        let (many, few): (Vec<_>, Vec<_>) =
            accepted.into_iter().partition(|mail| mail.id.starts_with("small"));
        let (small, sent) = (measure::sent(&many, &span), measure::sent(&few, &span));
        let said = format!("merge {merge}, {memory:?}: {small} small and {sent} large");
        assert!(small >= (served - 1) * 97, "{said}");
        // Of 102.9 slots a second.
        assert!(small + sent >= (served - 1) * 101, "{said}");
        assert!(sent >= least, "{said}");

        // What each environment has fetched, and SES does not have yet, fits into its room for contents.
        let fetches = world.faults.strikes().into_iter().map(|strike| (strike.resource, strike.at));
        let last: BTreeMap<String, Timestamp> = fetches.collect();
        let sends = few.iter().map(|mail| (mail.at, -1));
        let mut events: Vec<_> = last.into_values().map(|at| (at, 1)).chain(sends).collect();
        events.sort_unstable();
        let held = events.iter().scan(0, |held, (_, change)| {
            *held += change;
            Some(*held)
        });
        let each = memory.mail_bytes() / 4 * 3 / Memory::of_content(LARGE as u64);
        let room = each * world.warm().len() as u64;
        let most = held.max().unwrap_or(0);
        assert!(most <= i64::try_from(room).unwrap(), "{said}: {most} contents held, {room} fit");
        assert!(world.queues.max_bytes_held() <= memory.mail_bytes() / 4, "{said}");
        world.run(1_500).await;
        assert!(world.is_drained(), "{said}");
        world.assert_clean();
        assert_eq!(objects(&world).await, Vec::<String>::new());
    }
}

/// Its request takes longer to write there than a send may be late.
#[tokio::test(start_paused = true)]
async fn a_mail_of_nearly_a_megabyte_keeps_its_slot_in_the_smallest_memory() {
    for merge in MODES {
        let settings = settings(20.0, merge).variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", 128);
        let world = World::new(settings);
        world.put("big", &[large("large", 900_000)]).await;
        world.fill("small", 20).await;
        world.run(4).await;
        let accepted = world.accepted();
        assert!(accepted.contains_key("large"), "merge {merge}: {accepted:?}");
        world.assert_clean();
    }
}

#[tokio::test(start_paused = true)]
async fn the_largest_mail_goes_out_in_the_memory_of_256_mb_and_as_express_mail() {
    for merge in MODES {
        let world = World::new(settings(20.0, merge));
        world.put_large("big", &large("largest", 40_000_000)).await;
        world.put_large(EXPRESS, &large("express", 12_000_000)).await;
        world.fill("small", 100).await;
        world.run(40).await;
        assert_eq!(world.accepted().len(), 102, "merge {merge}");
        world.assert_clean();
        assert_eq!(objects(&world).await, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pointer_that_points_to_nothing_sendable_is_a_dead_letter_with_the_reason() {
    for merge in MODES {
        let world = World::new(settings(20.0, merge));
        let gone = world.put_large("big", &large("gone", 2_000)).await;
        world.store.delete(&gone).await.unwrap();
        let more = world.put_large("big", &large("more", 2_000)).await;
        world.store.put(&more, vec![b' '; 20_000]).await.unwrap();
        let less = world.put_large("big", &large("less", 2_000)).await;
        world.store.put(&less, b"{}".to_vec()).await.unwrap();
        let text = world.put_large("big", &large("text", 2_000)).await;
        let size = world.store.get(&text).await.unwrap().unwrap().0.len();
        world.store.put(&text, vec![b'.'; size]).await.unwrap();
        world.fill("big", 20).await;
        world.run(10).await;
        let mut said: Vec<_> = world
            .dead_letters()
            .into_iter()
            .map(|letter| {
                assert!(letter.message.contains("\"stored\""), "{}", letter.message);
                assert_eq!((letter.attempts, letter.to.len()), (0, 1));
                (letter.last_error.code.unwrap(), letter.last_error.provider_message)
            })
            .collect();
        said.sort();
        let codes: Vec<&str> = said.iter().map(|(code, _)| &**code).collect();
        assert_eq!(codes, ["InvalidMember", "NoSuchObject", "OtherSize", "OtherSize"]);
        assert!(said[0].1.starts_with("stored: must point to a JSON object"), "{said:?}");
        assert_eq!(said[1].1, "stored.name: no such object in the store, \"gone\"");
        assert!(said[2].1.ends_with("it has 2") && said[3].1.ends_with("it has more"), "{said:?}");
        assert_eq!(world.accepted().len(), 20, "merge {merge}");
        // What became a dead letter may be sent again.
        assert_eq!(objects(&world).await, [less, more, text]);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_store_or_with_too_little_memory_a_pointer_is_a_dead_letter() {
    let world = World::new(WorldSettings::new(20.0, true));
    world.put_large("big", &large("none", 2_000)).await;
    world.run(5).await;
    assert_eq!(world.dead_letters()[0].last_error.code.as_deref(), Some("NoStore"));
    let small = settings(20.0, true).variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", 128);
    let world = World::new(small);
    let pointer = r#"{"id": "a", "to": "ada@example.com", "from": "news@example.org",
        "stored": {"name": "a", "bytes": 40000000}}"#;
    world.put_raw("big", &[produced(pointer)]).await;
    world.put_large("big", &large("fits", 20_000_000)).await;
    world.run(10).await;
    let error = &world.dead_letters()[0].last_error;
    assert!(error.provider_message.contains("must be at most 25165824 with"), "{error:?}");
    assert_eq!(world.accepted().into_keys().collect::<Vec<_>>(), ["fits"]);
}

#[tokio::test(start_paused = true)]
async fn while_s3_fails_the_mail_stays_without_an_attempt_and_other_mail_goes_out() {
    for merge in MODES {
        let world = World::new(settings(20.0, merge));
        world.faults.add(Rule::new(Fault::Before(FailureKind::TimedOut)).on(Operation::GetObject));
        world.put_large("big", &large("large", 3_000_000)).await;
        world.fill("big", 100).await;
        world.run(40).await;
        assert_eq!(world.accepted().len(), 100, "merge {merge}");
        world.faults.clear();
        world.run(60).await;
        assert_eq!(world.accepted().len(), 101, "merge {merge}");
        world.assert_clean();
    }
}

#[tokio::test(start_paused = true)]
async fn content_that_takes_longer_than_a_window_is_kept_for_the_next_one() {
    for merge in MODES {
        let world = World::new(settings(20.0, merge));
        world.faults.add(slow(1_900, 2_100));
        for number in 0..4 {
            world.put_large("big", &large(&format!("large-{number}"), 3_000_000)).await;
        }
        world.fill("big", 200).await;
        world.run(120).await;
        assert_eq!(world.accepted().len(), 204, "merge {merge}");
        world.assert_clean();
        assert_eq!(objects(&world).await, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_deleted_stays_and_its_mail_is_sent_once() {
    let world = World::new(settings(20.0, true));
    let denied = FailureKind::Denied("AccessDenied".to_owned());
    world.faults.add(Rule::new(Fault::Before(denied)).on(Operation::DeleteObject));
    let key = world.put_large("big", &large("large", 3_000_000)).await;
    world.run(60).await;
    world.assert_clean();
    assert!(world.is_drained() && world.accepted().len() == 1);
    assert_eq!(objects(&world).await, [key]);
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_is_retried_still_has_its_content() {
    for merge in MODES {
        let world = World::new(settings(20.0, merge));
        let error = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
        world.mail_faults.add(error.nth(1));
        world.put_large("big", &large("large", 3_000_000)).await;
        world.run(140).await;
        assert_eq!((world.accepted().len(), world.duplicates().len()), (1, 0), "merge {merge}");
        assert_eq!(objects(&world).await, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_poller_killed_at_any_step_of_a_large_mail_loses_nothing() {
    let steps = [Operation::GetObject, Operation::Delete, Operation::DeleteObject];
    for merge in MODES {
        for step in steps {
            for fault in [Fault::HangBefore, Fault::HangAfter] {
                let world = World::new(settings(20.0, merge));
                world.put_large("big", &large("large", 2_000_000)).await;
                world.fill("big", 5).await;
                world.faults.add(Rule::new(fault.clone()).on(step).nth(1));
                let mut is_killed = false;
                for _ in 0..4 {
                    is_killed = is_killed || world.crash_where_it_hangs(false).await;
                }
                let case = format!("merge {merge}, {fault:?} of {step:?}");
                assert!(is_killed, "{case}: not killed");
                world.faults.clear();
                world.run(80).await;
                world.assert_nothing_lost();
                assert_eq!(world.accepted().len(), 6, "{case}");
                assert!(world.is_drained() && world.dead_letters().is_empty(), "{case}");
            }
        }
    }
}

/// Regression: the second copy of a mail that was sent became a dead letter, as its object is gone.
#[tokio::test(start_paused = true)]
async fn a_copy_of_a_large_mail_that_was_sent_is_deleted_by_its_mark() {
    for merge in MODES {
        let world = World::new(settings(20.0, merge).variable("TIDEGATE_DEDUPLICATION", "park"));
        let mail = large("doubled", 2_000);
        world.put_large("big", &mail).await;
        world.run(10).await;
        assert_eq!((world.accepted().len(), objects(&world).await.len()), (1, 0));
        let (pointer, _) = split(&mail.body(), "doubled").unwrap();
        world.put_raw("big", &[produced(pointer)]).await;
        world.run(30).await;
        assert_eq!((world.accepted().len(), world.dead_letters().len()), (1, 0));
        assert!(world.is_drained());
    }
}
