//! Bodies that cross queues in the compressed form.

use std::collections::BTreeSet;

use tidegate_core::compression::decompress;
use tidegate_tests::simulation::mail::{MailVariation as _, produced};
use tidegate_tests::simulation::{BodyForm, EXPRESS, MERGE, ProducedMail, World, WorldSettings};

use crate::MODES;

/// As many newsletters of 30 KB.
fn newsletters(campaign: &str, count: usize, body: BodyForm) -> Vec<ProducedMail> {
    let mails = ProducedMail::several(campaign, count, 1).into_iter();
    mails.map(|mail| mail.of_bytes(30_000, body)).collect()
}

#[tokio::test(start_paused = true)]
async fn newsletters_stand_compressed_on_the_merge_queue() {
    let written = newsletters("big", 100, BodyForm::Repeated);
    let texts: BTreeSet<String> = written.iter().map(ProducedMail::body).collect();
    for body in [BodyForm::Repeated, BodyForm::Compressed] {
        let world = World::new(WorldSettings::new(20.0, true));
        world.put("big", &newsletters("big", 100, body)).await;
        world.run(3).await;
        let waiting = world.contents(MERGE);
        assert!(!waiting.is_empty());
        for message in waiting {
            assert!(message.body.len() < 1_000, "{} bytes", message.body.len());
            assert!(texts.contains(&decompress(&message.body).unwrap().unwrap()));
        }
        world.run(60).await;
        assert_eq!((world.accepted().len(), world.duplicates().len()), (100, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_producer_may_send_the_compressed_form_in_either_mode_and_as_express_mail() {
    for merge in MODES {
        let world = World::new(WorldSettings { express: true, ..WorldSettings::new(20.0, merge) });
        world.put("big", &newsletters("big", 40, BodyForm::Compressed)).await;
        world.put(EXPRESS, &newsletters("code", 5, BodyForm::Compressed)).await;
        world.run(60).await;
        assert_eq!((world.accepted().len(), world.duplicates().len()), (45, 0), "merge {merge}");
        assert!(world.accepted().contains_key("big-39") && world.accepted().contains_key("code-4"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_form_that_cannot_be_read_is_a_dead_letter_that_says_why() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        let broken = produced(r#"{"gzip": "no base64"}"#);
        world.put_raw("big", &[broken]).await;
        world.fill("big", 5).await;
        world.run(10).await;
        let letters = world.dead_letters();
        assert_eq!(letters.len(), 1, "merge {merge}");
        let error = &letters[0].last_error;
        assert_eq!(error.code.as_deref(), Some("InvalidCompression"));
        assert!(
            error.provider_message.starts_with("gzip: must be base64"),
            "{}",
            error.provider_message
        );
        assert_eq!(letters[0].message, r#"{"gzip": "no base64"}"#);
        assert_eq!(world.accepted().len(), 5);
    }
}
