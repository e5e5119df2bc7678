//! Messages that SES must not get, among such as it should.

use serde_json::{Value, json};
use tidegate_core::dead_letter::DeadLetter;
use tidegate_delivery::ports::{Outgoing, QueueDepth};

use crate::site::{BIG, EXPRESS, SMALL, Site, mail, message};

/// The template's `MaximumMessageSize`, above which SQS refuses a message.
const MAXIMUM_MESSAGE_SIZE: usize = 1_032_192;

/// A message that is wrong, and how its dead letter begins: with the field, and what is allowed.
struct Bad {
    queue: &'static str,
    message: Outgoing,
    said: &'static str,
}

fn long(member: &str, value: Value) -> Outgoing {
    let mut body = json!({
        "to": "ada@example.com", "from": "news@example.org", "subject": "News", "text": "Text.",
    });
    body[member] = value;
    message(body.to_string())
}

fn too_long() -> Outgoing {
    let mut body = json!({ "to_adress": "ada@example.com", "body": "" }).to_string();
    let end = body.find("\"\"").unwrap() + 1;
    body.insert_str(end, &"x".repeat(MAXIMUM_MESSAGE_SIZE - body.len()));
    message(body)
}

fn bad_ones() -> Vec<Bad> {
    let bad = |queue, message, said| Bad { queue, message, said };
    let many: Vec<String> = (0..51).map(|number| format!("r{number}@example.com")).collect();
    vec![
        bad(BIG, message("Dear Ada,"), "body: must be a JSON object (expected value"),
        bad(EXPRESS, message("[]"), "body: must be a JSON object, not a list"),
        bad(BIG, long("tempalte", json!({ "name": "welcome" })), "tempalte: is not a member"),
        bad(BIG, long("to", json!([])), "to: must name 1 to 50 recipients"),
        bad(SMALL, long("to", json!(many)), "to: must be 1 to 50 recipients"),
        bad(BIG, long("headers", json!({ "X-A": "a\r\nBcc: eve@example.net" })), "headers.X-A: "),
        bad(SMALL, long("from", json!("eve@example.net")), "from: must be a sender that"),
        bad(BIG, too_long(), "to_adress: is not a member"),
    ]
}

/// A good mail whose producer tags it for purposes of its own, under Tidegate's names as well.
fn good(number: usize) -> Outgoing {
    let own = [("identity", "big/id/7"), ("campaign", "big"), ("pass", "two")];
    let own = own.map(|(name, value)| (name, value.to_owned()));
    let attributes = [("trace", format!("t-{number}"))].into_iter().chain(own).collect();
    Outgoing { attributes, ..mail(&format!("good{number}@example.com")) }
}

fn assert_told(bad: &Bad, letters: &[DeadLetter]) {
    let is_it = |letter: &&DeadLetter| *letter.message == *bad.message.body;
    let found: Vec<&DeadLetter> = letters.iter().filter(is_it).collect();
    let [letter] = found.as_slice() else {
        panic!("{} dead letters of {:?}", found.len(), bad.said);
    };
    let said = &letter.last_error.provider_message;
    assert!(said.starts_with(bad.said), "{said}");
    let campaign = match bad.queue {
        BIG => "big",
        SMALL => "small",
        _ => "express",
    };
    assert_eq!((letter.campaign.as_str(), letter.attempts), (campaign, 0), "{said}");
    assert_eq!((letter.first_attempt_at, letter.last_attempt_at), (None, None), "{said}");
    assert_eq!(letter.last_error.http_status, None, "{said}");
    assert!(letter.last_error.code.is_some(), "{said}");
}

#[tokio::test]
async fn bad_messages_among_good_ones_do_no_harm() {
    let senders = ("AllowedSenders".to_owned(), "news@example.org".to_owned());
    let mut site = Site::start(|setup| setup.parameters.push(senders)).await;
    let bad = bad_ones();
    for (number, bad) in bad.iter().enumerate() {
        // Each stands in a batch of its own with good ones before and behind.
        site.put(bad.queue, &[good(3 * number), good(3 * number + 1)]).await;
        site.put(bad.queue, std::slice::from_ref(&bad.message)).await;
        site.put(bad.queue, &[good(3 * number + 2)]).await;
    }
    site.fire().await;
    site.wait_for(3 * bad.len(), 40).await;
    let letters = site.dead_letters(bad.len(), 20).await;
    for bad in &bad {
        assert_told(bad, &letters);
    }
    site.wait_until_empty(40).await;
    let mut keys: Vec<&str> = site.arrivals().iter().map(|arrival| arrival.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!((keys.len(), site.arrivals().len()), (3 * bad.len(), 3 * bad.len()));
    assert!(keys.iter().all(|key| key.starts_with("good")), "{keys:?}");
    let dead = site.counters_with("mails", 3 * i64::try_from(bad.len()).unwrap()).await["dead"];
    assert_eq!(dead.unsigned_abs(), bad.len() as u64);
    assert_eq!(site.depth(SMALL).await, QueueDepth::default());
}
