//! Raw mails: whole MIME messages, from their queue to SES.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tidegate_core::compression::compress;
use tidegate_fakes::{Fault, Operation, Rule, failures};
use tidegate_tests::simulation::mail::produced;
use tidegate_tests::simulation::{EXPRESS, World, WorldSettings};

use crate::MODES;

/// A message with this header, and a text of so many lines of 50 bytes.
fn mime(header: &str, lines: usize) -> String {
    let text = (0..lines).map(|n| format!("{n:06} is the line of a letter from the sea.....\r\n"));
    [header.to_owned(), "\r\n".to_owned()].into_iter().chain(text).collect()
}

fn body(id: &str, mime: &str) -> String {
    let to = [format!("{id}@example.com"), "bob@example.net".to_owned()];
    json!({ "id": id, "from": "news@example.org", "to": to, "raw": STANDARD.encode(mime) })
        .to_string()
}

#[tokio::test(start_paused = true)]
async fn raw_mails_of_every_size_arrive_byte_for_byte_at_their_envelope() {
    const HEADER: &str = "From: News <news@example.org>\r\nTo: readers: ;\r\nSubject: Hello\r\n";
    let blind = format!(
        "Bcc: eve@example.org,\r\n mallory@example.org\r\nX-Tidegate-Campaign: other\r\n{HEADER}"
    );
    for merge in MODES {
        let world = World::new(WorldSettings { express: true, ..WorldSettings::new(20.0, merge) });
        let mut expected = BTreeMap::new();
        let mut put = |id: &str, lines| {
            expected.insert(id.to_owned(), mime(HEADER, lines));
            body(id, &mime(&blind, lines))
        };
        // 675 KB of MIME are a body of 900 KB.
        let (large, compressed) = (put("large", 13_500), put("compressed", 13_500));
        let (express, again) = (put("express", 1), put("again", 200));
        assert!(large.len() > 900_000, "{} bytes", large.len());
        let server_error = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
        world.mail_faults.add(server_error.at("big/again").nth(1));
        world.put_raw("big", &[produced(large), produced(again)]).await;
        world.put_raw("small", &[produced(compress(&compressed).unwrap())]).await;
        world.put_raw(EXPRESS, &[produced(express)]).await;
        world.run(120).await;
        let arrived: BTreeMap<String, String> = world
            .ses
            .accepted()
            .into_iter()
            .map(|mail| {
                assert_eq!(
                    mail.addresses,
                    [format!("{}@example.com", mail.id), "bob@example.net".to_owned()]
                );
                let raw = STANDARD.decode(mail.raw.unwrap()).unwrap();
                (mail.id, String::from_utf8(raw).unwrap())
            })
            .collect();
        assert!(arrived == expected, "merge {merge}: {:?}", arrived.keys());
        assert!(world.duplicates().is_empty() && world.dead_letters().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_raw_mail_that_ses_must_not_have_is_a_dead_letter_with_the_reason() {
    for merge in MODES {
        let settings = WorldSettings::new(20.0, merge);
        let world = World::new(settings.variable("TIDEGATE_ALLOWED_SENDERS", "example.org"));
        let mails = [
            body("spoofed", "From: eve@example.net\r\n\r\nText.\r\n"),
            body("steered", "From: news@example.org\r\nX-SES-Tenant: other\r\n\r\nText.\r\n"),
            body("fine", "From: news@example.org\r\n\r\nText.\r\n"),
        ];
        world.put_raw("big", &mails.map(produced)).await;
        world.run(10).await;
        let letters = world.dead_letters();
        let codes: BTreeMap<_, _> = letters
            .iter()
            .map(|letter| (letter.to[0].as_str(), letter.last_error.code.as_deref().unwrap()))
            .collect();
        let expected =
            [("spoofed@example.com", "SenderNotAllowed"), ("steered@example.com", "InvalidMember")];
        assert_eq!(codes, expected.into(), "merge {merge}");
        assert_eq!(world.accepted().into_keys().collect::<Vec<_>>(), ["fine"]);
    }
}
