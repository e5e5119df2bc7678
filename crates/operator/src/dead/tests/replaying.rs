use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_core::deduplication::{Acceptance, Mark, MarkState};
use tidegate_delivery::ports::{
    FailureKind, History as _, MarkRequest, MarkResult, Marks, PortError,
};
use tidegate_fakes::{Fault, Latency, Operation, Rule};

use super::*;
use crate::redact::AddressVisibility;

async fn mark(bench: &Bench, id: &str, state: MarkState) {
    let identity = Identity::from_body_id("big", id);
    let request = MarkRequest {
        identity: identity.clone(),
        token: "a poller's".to_owned(),
        pass: 0,
        now: NOW.saturating_sub(Duration::from_mins(1)),
        kept: Duration::from_hours(24),
        replaces: None,
    };
    let ledger = &bench.ledger;
    assert_eq!(ledger.mark(&request).await.unwrap(), MarkResult::Ours);
    let set = match state {
        MarkState::Sending => true,
        MarkState::Sent => {
            let at = EpochMillis::from(request.now);
            let accepted = Acceptance { at, ses_message_id: "0102018f-1".to_owned() };
            ledger.set_sent(&identity, &accepted).await.unwrap()
        }
        MarkState::Parked => ledger.set_parked(&identity, "a poller's", 65_535).await.unwrap(),
    };
    assert!(set);
}

#[tokio::test(start_paused = true)]
async fn a_replayed_mail_keeps_its_identity_and_body_and_has_a_higher_pass_and_all_attempts() {
    let bench = Bench::new();
    bench.put(&several(25)).await;
    bench.put(&[refused("small", "s", "BadRequestException")]).await;
    let filter =
        LetterFilter { codes: vec!["messagerejected".to_owned()], ..LetterFilter::default() };
    let review = bench.review(filter, false).await;
    let found = (review.work.letters(), bench.standing("big").len());
    assert_eq!(found, (25, 0), "a review does nothing");
    let replayed = bench.replay(&review, FAST).await.unwrap();
    assert!(replayed.is_whole() && replayed.sent == 25, "{replayed:?}");
    for message in bench.standing("big") {
        let attribute = |name: &str| message.attributes[name].as_str();
        assert_eq!((attribute("pass"), attribute("attempt")), ("65536", "0"));
        let id = attribute("identity").strip_prefix("big/id/").unwrap();
        assert_eq!(message.body, body(id));
    }
    let left: Vec<_> = bench.read().await.letters.iter().map(Letter::id).collect();
    assert_eq!(left, ["s"], "what was not selected is still there");
    let changes = bench.ledger.changes().await.unwrap();
    assert_eq!(changes[0].detail, "ended: 25 of 25 sent, 0 deleted");
    assert_eq!(changes[1].detail, "begun: 25 to send, 0 to delete (code messagerejected)");
    assert!(changes.iter().all(|change| change.by == "user/ada" && change.action == "replay"));
}

#[tokio::test(start_paused = true)]
async fn what_was_or_may_have_been_sent_is_not_replayed_by_itself() {
    let mut bench = Bench::new();
    bench.deduplication = Deduplication::Park;
    let lost = |id| letter("big", id, (Some("ConnectionFailed"), None), "reset");
    bench.put(&[refused("big", "no", "X"), refused("big", "sent", "X"), lost("lost")]).await;
    bench.put(&[parked("big", "parked"), refused("big", "old", "X")]).await;
    bench.put(&[raw("not ours".to_owned(), Vec::new())]).await;
    mark(&bench, "sent", MarkState::Sent).await;
    mark(&bench, "parked", MarkState::Parked).await;
    mark(&bench, "old", MarkState::Sending).await;
    let ids = |review: &Review| {
        let ids = review.work.mails.values().map(|order| order.envelope.identity.id().into_owned());
        let mut ids: Vec<String> = ids.collect();
        ids.sort();
        ids.join(" ")
    };
    let careful = bench.review(LetterFilter::default(), false).await;
    assert_eq!((ids(&careful).as_str(), careful.to_drop), ("no", 0));
    let bold = bench.review(LetterFilter::default(), true).await;
    assert_eq!((ids(&bold).as_str(), bold.to_drop), ("lost no old parked", 1));
    let replayed = bench.replay(&bold, FAST).await.unwrap();
    assert_eq!((replayed.sent, replayed.dropped), (4, 1));
    let left = bench.standing("dead");
    assert!(left.len() == 1 && left[0].body == "not ours", "a foreign message is never touched");
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_between_review_and_replay_stays() {
    let mut bench = Bench::new();
    bench.deduplication = Deduplication::Resend;
    bench.put(&several(3)).await;
    let review = bench.review(LetterFilter::default(), false).await;
    mark(&bench, "m-1", MarkState::Sent).await;
    let replayed = bench.replay(&review, FAST).await.unwrap();
    assert_eq!((replayed.sent, replayed.sent_meanwhile), (2, 1));
    assert_eq!(bench.standing("dead").len(), 1);
}

/// Each would go out a pass on from its own, so neither the merge queue nor deduplication knows them as one.
#[tokio::test(start_paused = true)]
async fn of_several_letters_of_one_mail_only_the_newest_is_replayed() {
    let bench = Bench::new();
    let at_pass = |code: &str, pass: u32| {
        let mut letter = refused("big", "twice", code);
        let own = letter.attributes.iter_mut().find(|(name, _)| *name == "pass").unwrap();
        own.1 = pass.to_string();
        letter
    };
    bench.put(&[at_pass("New", 131_071), at_pass("Old", 65_535)]).await;
    bench.put(&[refused("big", "once", "Old")]).await;
    let review = bench.review(LetterFilter::default(), true).await;
    assert_eq!((review.work.letters(), review.refusals.len()), (2, 1), "{review:?}");
    assert_eq!(bench.replay(&review, FAST).await.unwrap().sent, 2);
    let twice = ("big/id/twice".to_owned(), "131072".to_owned());
    assert_eq!(bench.mails("big").get(&twice), Some(&1), "{:?}", bench.mails("big"));
    assert_eq!(bench.mails("big").len(), 2);
    // Nor where the newer one is not meant.
    let bench = Bench::new();
    bench.put(&[at_pass("New", 131_071), at_pass("Old", 65_535)]).await;
    let old = LetterFilter { codes: vec!["Old".to_owned()], ..LetterFilter::default() };
    let review = bench.review(old, true).await;
    assert_eq!((review.work.letters(), review.groups[0].cannot), (0, 1));
    // Alike but for SQS's id: one of them.
    let bench = Bench::new();
    bench.put(&[at_pass("Old", 65_535), at_pass("Old", 65_535)]).await;
    assert_eq!(bench.review(LetterFilter::default(), true).await.work.letters(), 1);
}

#[tokio::test(start_paused = true)]
async fn letters_that_came_after_the_review_are_left_alone() {
    let bench = Bench::new();
    bench.put(&several(2)).await;
    let review = bench.review(LetterFilter::default(), false).await;
    bench.put(&[refused("big", "new", "MessageRejected")]).await;
    assert_eq!(bench.replay(&review, FAST).await.unwrap().sent, 2);
    assert_eq!(bench.read().await.letters[0].id(), "new");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_sent_is_said_and_stays() {
    let bench = Bench::new();
    bench.put(&[refused("gone", "1", "X")]).await;
    let broken = DeadLetter {
        message_id: "sqs-2".to_owned(),
        campaign: "big".to_owned(),
        to: vec![],
        first_attempt_at: None,
        last_attempt_at: None,
        attempts: 0,
        last_error: LastError {
            code: Some("InvalidJson".to_owned()),
            http_status: None,
            provider_message: "not JSON".to_owned(),
        },
        message: "{".to_owned(),
    };
    let message = broken.into_queue_message(None, SQS_LIMIT_BYTES).unwrap();
    bench.put(&[raw(message.body, message.attributes)]).await;
    let review = bench.review(LetterFilter::default(), true).await;
    assert_eq!(review.work.letters(), 0);
    let why: Vec<_> = review.refusals.iter().map(|refusal| refusal.why.as_str()).collect();
    assert_eq!(why[0], "there is no campaign gone any more");
    assert!(why[1].starts_with("would be dead-lettered again: ") && why.len() == 2, "{why:?}");
}

/// A mail that was rejected as it came has no envelope: its identity is made as a poller makes it.
#[tokio::test(start_paused = true)]
async fn a_mail_without_an_envelope_gets_the_identity_that_it_would_have_had() {
    let bench = Bench::new();
    for (number, body) in [body("7"), body("7").replace(r#""id": "7", "#, "")].iter().enumerate() {
        let entry = DeadLetter {
            message_id: format!("sqs-{number}"),
            campaign: "big".to_owned(),
            to: vec![],
            first_attempt_at: None,
            last_attempt_at: None,
            attempts: 0,
            last_error: LastError {
                code: Some("SenderNotAllowed".to_owned()),
                http_status: None,
                provider_message: String::new(),
            },
            message: body.clone(),
        };
        let message = entry.into_queue_message(None, SQS_LIMIT_BYTES).unwrap();
        bench.put(&[raw(message.body, message.attributes)]).await;
    }
    let review = bench.review(LetterFilter::default(), false).await;
    assert_eq!(bench.replay(&review, FAST).await.unwrap().sent, 2);
    let mails: Vec<_> = bench.mails("big").into_keys().map(|(identity, _)| identity).collect();
    assert_eq!(mails, ["big/id/7", "big/msg/sqs-1"]);
}

#[tokio::test(start_paused = true)]
async fn it_keeps_its_pace_and_waits_for_a_queue_that_grows() {
    let bench = Bench::new();
    bench.put(&several(60)).await;
    let review = bench.review(LetterFilter::default(), false).await;
    let began = bench.universe.now();
    let slow = ReplayPace { per_second: 2.0, backlog: 1_000 };
    assert_eq!(bench.replay(&review, slow).await.unwrap().sent, 60);
    let took = bench.universe.now().saturating_since(began).as_secs();
    assert!((25..=31).contains(&took), "60 mails at 2/s took {took} s");
    // Nobody takes the mails: it waits until someone does.
    let bench = Bench::new();
    bench.put(&several(60)).await;
    let review = bench.review(LetterFilter::default(), false).await;
    let narrow = ReplayPace { per_second: 2.0, backlog: 20 };
    let waits = tokio::time::timeout(Duration::from_mins(2), bench.replay(&review, narrow)).await;
    let sent = bench.standing("big").len();
    assert!(waits.is_err() && (20..=40).contains(&sent), "{sent} were sent");
}

/// The letters meant are behind 300 others, and the look through those takes longer than the replay waits
/// for a lost letter.
#[tokio::test(start_paused = true)]
async fn a_letter_is_found_behind_many_that_are_not_meant() {
    let of = |code: &str| LetterFilter { codes: vec![code.to_owned()], ..LetterFilter::default() };
    for per_second in [100.0, 0.05] {
        let bench = Bench::new();
        bench.put(&several(300)).await;
        bench.put(&[refused("big", "x-1", "Meant"), refused("big", "x-2", "Meant")]).await;
        let review = bench.review(of("Meant"), false).await;
        let slow = Latency::always(Duration::from_secs(2));
        bench.plan.add(Rule::new(Fault::Slow(slow)).on(Operation::Receive));
        let pace = ReplayPace { per_second, backlog: 1_000 };
        let replayed = bench.replay(&review, pace).await.unwrap();
        assert_eq!((replayed.sent, replayed.not_found), (2, 0), "at {per_second}: {replayed:?}");
        assert!(replayed.is_whole() && bench.standing("dead").len() == 300);
        assert!((50..300).contains(&replayed.took_s), "{replayed:?}");
        let often = bench.standing("dead").into_iter().map(|message| message.receive_count);
        assert_eq!(often.max(), Some(2), "at {per_second} they were not kept hidden");
    }
}

/// Letters that keep coming do not keep a replay that waits for one that is gone.
#[tokio::test(start_paused = true)]
async fn a_letter_that_is_gone_is_given_up_while_others_come() {
    let bench = Bench::new();
    bench.put(&several(1)).await;
    let review = bench.review(LetterFilter::default(), false).await;
    let taken = bench.memory.receive(&bench.dead, 1, Duration::ZERO).await.unwrap();
    bench.memory.delete(&bench.dead, std::slice::from_ref(&taken[0].receipt)).await.unwrap();
    let others = async {
        for number in 0.. {
            tokio::time::sleep(Duration::from_secs(1)).await;
            bench.put(&[refused("big", &format!("new-{number}"), "X")]).await;
        }
    };
    let replayed = tokio::select! {
        replayed = bench.replay(&review, FAST) => replayed.unwrap(),
        () = others => unreachable!("they come for ever"),
    };
    assert_eq!((replayed.sent, replayed.not_found), (0, 1));
    assert!((30..90).contains(&replayed.took_s), "{replayed:?}");
}

#[tokio::test(start_paused = true)]
async fn with_letters_to_delete_that_are_gone_it_is_not_whole() {
    let mut bench = Bench::new();
    bench.deduplication = Deduplication::Park;
    bench.put(&several(1)).await;
    mark(&bench, "m-0", MarkState::Sent).await;
    let review = bench.review(LetterFilter::default(), true).await;
    assert_eq!((review.work.letters(), review.to_drop), (0, 1));
    let taken = bench.memory.receive(&bench.dead, 1, Duration::ZERO).await.unwrap();
    bench.memory.delete(&bench.dead, std::slice::from_ref(&taken[0].receipt)).await.unwrap();
    let replayed = bench.replay(&review, FAST).await.unwrap();
    assert_eq!((replayed.dropped, replayed.not_found), (0, 1));
    assert!(!replayed.is_whole(), "{replayed:?}");
}

#[tokio::test(start_paused = true)]
async fn it_begins_only_with_a_reason_and_a_record() {
    let bench = Bench::new();
    bench.put(&several(1)).await;
    let review = bench.review(LetterFilter::default(), false).await;
    bench.plan.add(Rule::new(Fault::Before(FailureKind::TimedOut)).on(Operation::AddChange));
    let error = bench.replay(&review, FAST).await.unwrap_err();
    assert!(matches!(error, LetterError::NotRecorded(_)), "{error}");
    assert_eq!((bench.standing("big").len(), bench.standing("dead").len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_discard_deletes_the_reviewed_letters_for_good_and_the_history_says_who_and_why() {
    let bench = Bench::new();
    let letters: Vec<_> = (0..25).map(|n| refused("big", &format!("old{n}"), "Rejected")).collect();
    bench.put(&letters).await;
    bench.put(&[refused("small", "kept", "Rejected")]).await;
    let reading = bench.read().await;
    let filter = LetterFilter { campaigns: vec!["big".to_owned()], ..LetterFilter::default() };
    let reviewed = DiscardReview::of(&reading, &filter, AddressVisibility::Masked);
    assert_eq!((reviewed.work.letters(), reviewed.groups.letters), (25, 25));
    // This one is of the campaign, too, and nobody has seen it.
    bench.put(&[refused("big", "late", "Rejected")]).await;
    let site = LetterPorts {
        queues: &bench.queues,
        dead_letters: &bench.dead,
        ledger: &bench.ledger,
        clock: &bench.clock,
    };
    let report =
        carry_out(&site, &reviewed.work, &author(), ReplayPace::UNBOUNDED, pending(), |_| {})
            .await
            .unwrap();
    assert!(report.is_whole(), "{report:?}");
    assert_eq!((report.done(), report.of, report.sent), (25, 25, 0));
    let left: Vec<String> = bench.read().await.letters.iter().map(Letter::id).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(bench.standing("big").len(), 0);
    let history = bench.ledger.changes().await.unwrap();
    let said: Vec<_> =
        history.iter().map(|change| (change.action.as_str(), change.detail.as_str())).collect();
    assert_eq!(said, [("discard", "25 dead letters (campaign big)")], "one line for all of them");
    assert_eq!(history[0].by, "user/ada");
}

#[tokio::test(start_paused = true)]
async fn a_corrected_letter_is_sent_as_the_same_mail_with_its_new_body() {
    let bench = Bench::new();
    bench.put(&several(3)).await;
    let reading = bench.read().await;
    let named = |id: &str| reading.letters.iter().find(|letter| letter.id() == id).unwrap();
    let line = |id: &str, body: String| {
        serde_json::json!({ "message_id": named(id).message_id, "body": body, "code": "X" })
            .to_string()
    };
    let better = body("m-1").replace("Text.", "Better.");
    let file = [line("m-1", better.clone()), line("m-2", "{\"id\": \"m-2\"}".to_owned())];
    let corrections = Corrections::read("dead.jsonl", file.join("\n").as_bytes()).unwrap();
    let mut corrected = reading.clone();
    assert_eq!(corrections.apply(&mut corrected).unwrap(), 0);
    let review = bench.review_of(&corrected, LetterFilter::default(), false).await;
    assert_eq!((review.work.letters(), review.refusals.len()), (1, 1), "{review:?}");
    assert_eq!(bench.replay(&review, FAST).await.unwrap().sent, 1);
    let sent = bench.standing("big");
    assert_eq!((sent.len(), sent[0].body.as_str()), (1, better.as_str()));
    assert_eq!(sent[0].attributes["identity"], "big/id/m-1");
    assert_eq!(
        bench.read().await.letters.len(),
        2,
        "what is not in the file stays, and what is no mail"
    );
    let other = line("m-0", body("m-9"));
    let other = Corrections::read("dead.jsonl", other.as_bytes()).unwrap();
    let fault = other.apply(&mut reading.clone()).unwrap_err().to_string();
    assert!(fault.starts_with("dead.jsonl:1: body.id: must stay"), "{fault}");
}

#[tokio::test(start_paused = true)]
async fn a_raw_mail_is_shown_and_corrected_in_its_lines() {
    let bench = Bench::new();
    let body = |mime: &str| {
        serde_json::json!({ "from": "news@example.org", "id": "m-1", "raw": STANDARD.encode(mime), "to": ["m-1@example.com"] })
            .to_string()
    };
    let mime = "From: news@example.org\r\nTo: m-1@example.com\r\nSubject: Helo\r\n\r\nText.\r\n";
    let mut letter = refused("big", "m-1", "MessageRejected");
    let mut entry: serde_json::Value = serde_json::from_str(&letter.body).unwrap();
    entry["message"] = body(mime).into();
    letter.body = entry.to_string().into();
    bench.put(&[letter]).await;
    let reading = bench.read().await;
    for addresses in [AddressVisibility::Masked, AddressVisibility::Shown] {
        let shown = show(&reading, "m-1", NOW.into(), addresses, true).remove(0);
        let text = shown.body.unwrap();
        let line = format!("\"To: {}\",\n", addresses.within("m-1@example.com"));
        assert!(text.contains(&line) && !text.contains("RnJv"), "{text}");
        let edited = text.replace("Helo", "Hello");
        let corrected = reading.clone().corrected(&shown.message_id, &edited).unwrap();
        let review = bench.review_of(&corrected, LetterFilter::default(), false).await;
        let mail = &review.work.mails[&shown.message_id];
        assert_eq!(mail.body, body(&mime.replace("Helo", "Hello")));
    }
    let mut exported = Vec::new();
    export(&reading, &LetterFilter::default(), NOW.into(), true, &mut exported).unwrap();
    let file = String::from_utf8(exported).unwrap().replace("Helo", "Hello");
    let mut corrected = reading.clone();
    Corrections::read("a", file.as_bytes()).unwrap().apply(&mut corrected).unwrap();
    let corrected = corrected.letters[0].entry().unwrap();
    assert_eq!(corrected.message, body(&mime.replace("Helo", "Hello")));
}

/// Marks whose answers lack their last mark.
struct ShortAnswers<'a>(&'a MemoryLedger);

impl Marks for ShortAnswers<'_> {
    async fn mark(&self, request: &MarkRequest) -> Result<MarkResult, PortError> {
        self.0.mark(request).await
    }

    async fn set_sent(&self, of: &Identity, accepted: &Acceptance) -> Result<bool, PortError> {
        self.0.set_sent(of, accepted).await
    }

    async fn set_parked(&self, of: &Identity, token: &str, pass: u32) -> Result<bool, PortError> {
        self.0.set_parked(of, token, pass).await
    }

    async fn unmark(&self, of: &Identity, token: &str) -> Result<bool, PortError> {
        self.0.unmark(of, token).await
    }

    async fn find(&self, of: &[Identity]) -> Result<Vec<Option<Mark>>, PortError> {
        let mut found = self.0.find(of).await?;
        found.pop();
        Ok(found)
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_short_gives_no_mail_another_one_s_mark() {
    let bench = Bench::new();
    let identity = |n: usize| Identity::from_body_id("big", &format!("m-{n:03}"));
    for n in 0..250 {
        let state = if n % 2 == 0 { MarkState::Sent } else { MarkState::Parked };
        mark(&bench, &format!("m-{n:03}"), state).await;
    }
    let found = marks_of((0..250).map(identity), &ShortAnswers(&bench.ledger)).await.unwrap();
    // Three calls, each without the last of its marks.
    assert_eq!(found.len(), 247);
    for (n, mark) in (0..250).filter_map(|n| Some((n, found.get(&identity(n))?))) {
        assert_eq!(mark.state == MarkState::Sent, n % 2 == 0, "{n}");
    }
}
