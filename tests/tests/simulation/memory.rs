//! Large mails: what a poller holds of them fits into its memory, and they go out all the same.

use tidegate_core::memory::Memory;
use tidegate_tests::simulation::mail::MailVariation as _;
use tidegate_tests::simulation::{BodyForm, ProducedMail, World, WorldSettings, measure};

const MODES: [bool; 2] = [true, false];

async fn run(settings: WorldSettings, mails: Vec<ProducedMail>, windows: u64) -> World {
    let world = World::new(settings);
    for mail in mails {
        world.put("big", &[mail]).await;
    }
    world.run(windows).await;
    assert_eq!(world.lost(), Vec::<String>::new(), "lost");
    assert_eq!(world.duplicates(), Vec::<String>::new(), "sent twice");
    world
}

fn settings(quota: f64, merge: bool, memory_mb: u32) -> WorldSettings {
    WorldSettings::new(quota, merge).variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", memory_mb)
}

#[tokio::test(start_paused = true)]
async fn a_poller_never_holds_more_mail_than_its_memory_has_room_for_and_goes_on_sending() {
    const MEMORY_MB: u32 = 256;
    let most = Memory(MEMORY_MB).mail_bytes();
    for merge in MODES {
        for (quota, bytes, count) in [(100.0, 900_000, 250), (200.0, 250_000, 700)] {
            let mails: Vec<ProducedMail> = ProducedMail::several("big", count, 1)
                .into_iter()
                .map(|mail| mail.of_bytes(bytes, BodyForm::Random))
                .collect();
            // Its share of a processor writes about 40 mails of 0.9 MB a second, two environments in turn.
            let world = run(settings(quota, merge, MEMORY_MB), mails.clone(), 40).await;
            let said = format!("{quota}/s, {bytes} bytes, merge {merge}");
            let held = world.queues.max_bytes_held();
            assert!(held <= most, "{said}: {held} bytes held, {most} allowed");
            assert_eq!(world.accepted().len(), count, "{said}: it does not go on");
            // With all the memory there is, it holds more: so the bound is at work.
            let held = run(settings(quota, merge, 10_240), mails, 10).await.queues.max_bytes_held();
            assert!(held > most, "{said}: {held} bytes held without a bound");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn small_mails_are_received_as_if_there_were_all_the_memory() {
    for merge in MODES {
        let sent = async |memory_mb| {
            let mails = ProducedMail::several("big", 1_500, 1);
            let world = run(settings(200.0, merge, memory_mb), mails, 8).await;
            (world.accepted().len(), world.queues.calls_by_kind())
        };
        assert_eq!(sent(128).await, sent(10_240).await, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn newsletters_go_as_fast_as_with_all_the_memory() {
    for (merge, quota, kilobytes, memory_mb) in [
        (true, 100.0, 50, 256),
        (false, 100.0, 50, 256),
        (true, 14.0, 200, 128),
        (true, 60.0, 200, 256),
    ] {
        let sent = async |memory_mb| {
            let world = World::new(settings(quota, merge, memory_mb));
            for (campaign, count) in [("big", 1_600), ("small", 300)] {
                for mail in ProducedMail::several(campaign, count, 1) {
                    world
                        .put(campaign, &[mail.of_bytes(kilobytes * 1_000, BodyForm::Random)])
                        .await;
                }
            }
            let first = world.run(12).await;
            let span = measure::span(first, 2..12);
            let accepted = world.ses.accepted();
            (measure::sent(&accepted, &span), measure::share(&accepted, "small", &span))
        };
        let ((bounded, share), (free, _)) = (sent(memory_mb).await, sent(10_240).await);
        let said = format!("merge {merge}, {quota}/s of {kilobytes} KB in {memory_mb} MB");
        assert!(bounded * 100 >= free * 99, "{said}: {bounded} sent, {free} with all the memory");
        assert!((share - 0.1).abs() < 0.03, "{said}: small has {share}");
    }
}
