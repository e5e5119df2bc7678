//! A mail's trace goes with it whatever way it takes, and its sends are spans of it.

use std::time::Duration;

use tidegate_core::counters::Counter;
use tidegate_core::trace::{MOST_SPANS, SendSpan};
use tidegate_delivery::ports::Outgoing;
use tidegate_fakes::{Fault, Operation, Rule, failures};
use tidegate_tests::simulation::mail::MailVariation as _;
use tidegate_tests::simulation::{ProducedMail, World, WorldSettings};

use crate::{MODES, MS};

fn settings(merge: bool) -> WorldSettings {
    WorldSettings::new(14.0, merge)
        .variable("TIDEGATE_TRACES", "http://localhost:4318/v1/traces")
        .variable("TIDEGATE_BACK_PRESSURE_BUSY", "depth=1m")
        .variable("TIDEGATE_STORE", "s3://tides/store")
        .variable("TIDEGATE_DEFERRAL", "on")
}

fn trace(number: usize, is_sampled: bool) -> String {
    format!("00-{:032x}-{:016x}-{:02}", number + 1, number + 1, u8::from(is_sampled))
}

/// Mails `PREFIX-0` and so on, each with the trace of its number.
fn traced(mails: &[ProducedMail], is_sampled: bool) -> Vec<Outgoing> {
    let message = |(number, mail): (usize, &ProducedMail)| Outgoing {
        body: mail.body().into(),
        attributes: vec![("traceparent", trace(number, is_sampled))],
        delay: Duration::ZERO,
        fifo: None,
    };
    mails.iter().enumerate().map(message).collect()
}

fn sends(world: &World) -> Vec<SendSpan> {
    let spans = world.reports().into_iter().filter_map(|report| report.spans);
    spans.flat_map(|spans| spans.sends).collect()
}

#[tokio::test(start_paused = true)]
async fn a_mails_trace_stays_with_it_through_the_feed_put_backs_and_the_store() {
    for merge in MODES {
        let world = World::new(settings(merge));
        let failing = Rule::new(Fault::After(failures::answer_lost())).on(Operation::Mail);
        world.mail_faults.add(failing.at("big/low-7").nth(1));
        let low: Vec<_> = ProducedMail::several("low", 40, 1);
        let low: Vec<_> = low.into_iter().map(|mail| mail.at("low")).collect();
        world.fill("small", 4_000).await;
        world
            .play(3_600, async |first| {
                // By now the level is busy.
                world.until(first, 130, MS(0)).await;
                world.put_raw("big", &traced(&low, true)).await;
            })
            .await;
        let deferred: u64 = world.reports().iter().map(|r| r.count(Counter::Deferred)).sum();
        assert!(deferred > 0, "merge {merge}: nothing came into the store");
        let sends = sends(&world);
        for number in 0..40 {
            let id = format!("low-{number}");
            let own: Vec<_> = sends.iter().filter(|send| send.id == id).collect();
            let sampled = trace(number, true);
            assert!(
                own.iter().all(|send| send.trace.as_str() == sampled),
                "merge {merge}: {own:?}"
            );
            let accepted = own.iter().filter(|send| send.result.is_ok());
            assert_eq!(accepted.count(), 1, "merge {merge}: {own:?}");
        }
        let failed = sends.iter().find(|send| send.result == Err("ambiguous"));
        assert_eq!(failed.map(|send| send.id.as_str()), Some("low-7"), "merge {merge}");
        assert_eq!(sends.len(), 41, "merge {merge}: mail without a trace has no span");
    }
}

#[tokio::test(start_paused = true)]
async fn a_trace_that_is_not_recorded_has_no_span_and_a_window_a_hundred_at_most() {
    let world =
        World::new(WorldSettings::new(300.0, false).variable("TIDEGATE_TRACES", "http://a/"));
    let mails = |prefix| ProducedMail::several(prefix, 300, 1);
    world.put_raw("big", &traced(&mails("quiet"), false)).await;
    world.put_raw("big", &traced(&mails("told"), true)).await;
    world.run(20).await;
    assert_eq!(world.accepted().len(), 600);
    assert!(sends(&world).iter().all(|send| send.id.starts_with("told")));
    let most = world.reports().iter().filter_map(|r| Some(r.spans.as_ref()?.sends.len())).max();
    assert_eq!(most, Some(MOST_SPANS));
}
